// SPDX-License-Identifier: Apache-2.0
// CacheDirectory: what the parts of one cache directory share: options, disk with its threads,
// capacity, descriptors, counters, work in the background.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/id128.h"
#include "cache/capacity.h"
#include "cache/descriptor_pool.h"
#include "cache/page_store.h"
#include "cache/pool.h"
#include "runtime/disk.h"
#include "runtime/executor.h"
#include "runtime/shared_result.h"

namespace leat {

// Spawned tasks of which somebody must know when they have all ended. Thread-safe: a thread of a
// disk that answers after the executor's end spawns nothing any more.
class Background : public std::enable_shared_from_this<Background> {
 public:
  void spawn(const Spawner& executor, Task<> task);
  // Returns when none is left.
  Task<> idle();

 private:
  static Task<> run(std::shared_ptr<Background> self, Task<> task);
  void finished();

  std::mutex mutex_;  // leaf
  size_t running_ = 0;
  std::shared_ptr<SharedResult<bool>> idle_;
};

struct CacheDirectory {
  CacheDirectory(PageStoreOptions resolved, Executor& starts, std::shared_ptr<Disk> any_disk);

  std::string path(std::string_view name) const {
    return options.directory + "/" + std::string(name);
  }
  void spawn(Task<> task) { background->spawn(executor, std::move(task)); }
  // Runs `call`, which may block and returns a Result, on a thread of the disk's.
  template <class F>
  Task<std::invoke_result_t<F>> blocking(F call) {
    return disk->threads().run(std::move(call));
  }
  // The answer to a write that found no room; counts it and starts eviction.
  Error refuse(Pool& pool, std::string_view key, uint64_t bytes);
  // The answer to a write that the disk refused.
  Error write_failed(std::string_view key, const Status& status);
  // Bytes that had been taken in cannot be written: once, until a write succeeds, into the log.
  void lost_unwritten(uint64_t objects, uint64_t bytes, const Status& status);
  void wrote() {
    capacity->note_taken();
    told_of_lost_ = false;
  }
  // The answer to a write whose place is taken by a file that could not be unlinked; told once.
  Error place_taken(std::string_view key, const Status& status);
  // To be called after a reservation: starts eviction where the high mark is passed.
  void reserved(Pool& pool, uint64_t bytes);
  // One counter, one line: `what` is "block 3 of s3 key x", `why` "its checksum differs".
  void corrupt(const std::string& what, const std::string& why, uint64_t blocks = 1);
  // Part of an object or an index, which a verification could not read and which may be whole.
  void not_verified(const std::string& what, const Status& why);
  // Others may have copies of bytes that were wrong.
  void tell_of_damage(const FileId& id) const {
    if (options.on_damage && !closed) options.on_damage(id);
  }
  // Unlinks both files of an object that is in no index any more; what is left of them stays
  // charged: false.
  Task<bool> remove_files(Openable& object, Charge& charge);
  void evicted(uint64_t bytes);
  void expired(uint64_t bytes);

  const PageStoreOptions options;  // nothing in it is 0 for "default"
  const Spawner executor;
  const std::shared_ptr<Disk> disk;
  const std::shared_ptr<Capacity> capacity;
  PoolTable pools;
  const std::shared_ptr<Background> background;
  DescriptorPool descriptors;
  Id128 uuid;
  // Starts the eviction; set before the first use. Must not block.
  std::function<void()> on_pressure;

  // A file that could not be read, or removed, is in no index, so that nobody can vouch for it.
  std::atomic<bool> left_behind = false;
  std::atomic<bool> closing = false;
  // Another may have it open by now: nothing is removed any more.
  std::atomic<bool> closed = false;
  std::stop_source stopping;           // of what only waits
  std::atomic<int> reading_ahead = 0;  // calls of read_ahead() under way
  std::atomic<uint64_t> evicted_bytes = 0, corrupt_blocks = 0, refused_bytes = 0;
  // For the next verification to report: of segments' indexes, and how often not_verified() was
  // called.
  std::atomic<uint64_t> damaged_index_bytes = 0, not_verified_parts = 0;

 private:
  void count_refused(uint64_t bytes);
  void make_room_if_full(const Status& status);

  std::atomic<uint64_t> reserved_since_probe_ = 0;
  std::atomic<bool> told_of_taken_place_ = false, told_of_lost_ = false;
};

// Nanoseconds since the epoch: the order in which objects came, across restarts. Never an age.
int64_t birth_now_ns();

// Whether what a failed call says is that cached bytes are lost. A want of descriptors or memory
// and the caller's deadline say nothing of the kind: the bytes stay.
bool lost_by_open(const Status& failure);  // not EIO, which looks like the want of descriptors
bool lost_by_read(const Status& failure);  // from an open descriptor

// The answer to a read that failed although nothing is lost.
Error not_read(const std::string& key, const Status& failure);
Error not_here(const std::string& key);

}  // namespace leat
