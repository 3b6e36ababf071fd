// SPDX-License-Identifier: Apache-2.0
// CacheDirectory: the state that the parts of one cache directory share: options, the disk and its
// threads, capacity, descriptors, counters, background tasks.
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
#include "runtime/shared_promise.h"

namespace leat {

// Background: tracks spawned tasks, so that idle() can wait for all of them. Thread-safe. A disk
// thread that completes after the executor's end spawns nothing.
class Background : public std::enable_shared_from_this<Background> {
 public:
  void spawn(const Spawner& executor, Task<> task);
  // Returns when no task is left.
  Task<> idle();

 private:
  static Task<> run(std::shared_ptr<Background> self, Task<> task);
  void finished();

  std::mutex mutex_;  // leaf
  size_t running_ = 0;
  std::shared_ptr<SharedPromise<bool>> idle_;
};

struct CacheDirectory {
  CacheDirectory(PageStoreOptions resolved, Executor& starts, std::shared_ptr<Disk> any_disk);

  std::string path(std::string_view name) const {
    return options.directory + "/" + std::string(name);
  }
  void spawn(Task<> task) { background->spawn(executor, std::move(task)); }
  // Runs `call`, which may block and returns a Result, on one of the disk's threads.
  template <class F>
  Task<std::invoke_result_t<F>> blocking(F call) {
    return disk->threads().run(std::move(call));
  }
  // Returns the error for a write that found no room. Counts the bytes and starts eviction.
  Error reject_write(Pool& pool, std::string_view key, uint64_t bytes);
  // Returns the error for a write that the disk rejected.
  Error write_failed(std::string_view key, const Status& status);
  // Logs that accepted bytes could not be written; once, until a write succeeds.
  void note_lost_writes(uint64_t objects, uint64_t bytes, const Status& status);
  void note_written() {
    capacity->note_write_accepted();
    lost_writes_logged_ = false;
  }
  // Returns the error for a write to a path that a file still occupies because it could not be
  // unlinked. Logged once.
  Error path_occupied(std::string_view key, const Status& status);
  // Call after each reservation: starts eviction above the high mark.
  void note_reserved(Pool& pool, uint64_t bytes);
  // Counts corrupt blocks and logs one line: `what` is "block 3 of s3 key x", `why` "its checksum
  // differs".
  void report_corrupt(const std::string& what, const std::string& why, uint64_t blocks = 1);
  // Records that a verification could not read a part of an object or of an index; the part may be
  // intact.
  void report_unverified(const std::string& what, const Status& why);
  // Calls on_damage: other processes may have copies of the wrong bytes.
  void notify_damage(const FileId& id) const {
    if (options.on_damage && !closed) options.on_damage(id);
  }
  // Unlinks both files of an object that is in no index any more. Returns false if a file could not
  // be removed; its bytes stay charged.
  Task<bool> remove_files(FdOwner& object, Charge& charge);
  void count_evicted(uint64_t bytes);
  void count_expired(uint64_t bytes);

  const PageStoreOptions options;  // resolved: no field is 0 for "default"
  const Spawner executor;
  const std::shared_ptr<Disk> disk;
  const std::shared_ptr<Capacity> capacity;
  PoolTable pools;
  const std::shared_ptr<Background> background;
  DescriptorPool descriptors;
  Id128 uuid;
  // Starts the eviction. Set before the first use; must not block.
  std::function<void()> on_pressure;

  // A file that could not be read or removed is in no index, so the clean mark cannot cover it.
  std::atomic<bool> left_behind = false;
  std::atomic<bool> closing = false;
  // Another process may have the directory open by now: nothing is removed any more.
  std::atomic<bool> closed = false;
  std::stop_source stopping;                  // cancels tasks that only wait
  std::atomic<int> readaheads_in_flight = 0;  // calls of submit_readahead()
  std::atomic<uint64_t> evicted_bytes = 0, corrupt_blocks = 0, rejected_bytes = 0;
  // Reported by the next verification: damaged bytes of segment indexes, and the calls of
  // report_unverified().
  std::atomic<uint64_t> damaged_index_bytes = 0, unverified_parts = 0;

 private:
  void count_rejected(uint64_t bytes);
  void evict_if_full(const Status& status);

  std::atomic<uint64_t> reserved_since_probe_ = 0;
  std::atomic<bool> occupied_path_logged_ = false, lost_writes_logged_ = false;
};

// Returns nanoseconds since the Unix epoch: orders objects by arrival, also across restarts. Not
// used as an age.
int64_t birth_now_ns();

// Return true if `failure` means that cached bytes are lost. Lack of descriptors or memory, and the
// caller's deadline, do not: the bytes stay.
bool lost_by_open(const Status& failure);  // excludes EIO, which looks like a lack of descriptors
bool lost_by_read(const Status& failure);  // the descriptor was open already

// Returns the error for a read that failed although nothing is lost.
Error not_readable(const std::string& key, const Status& failure);
Error not_cached(const std::string& key);

}  // namespace leat
