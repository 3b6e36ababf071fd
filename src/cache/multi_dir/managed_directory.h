// SPDX-License-Identifier: Apache-2.0
// ManagedDirectory: one cache directory of a host, open or to be reopened. A caller waits for its
// disk only until DirectoryHealth finds that it hangs. Then the opening is given up: all waiters
// get an error, its disk is fenced off, and hanging calls keep their store. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "cache/cache_directory.h"
#include "cache/directory/directory_store.h"
#include "cache/host_cache.h"
#include "cache/multi_dir/directory_health.h"
#include "cache/multi_dir/monitored_disk.h"
#include "runtime/gate.h"
#include "runtime/shared_promise.h"
#include "telemetry/metrics.h"

namespace leat {

class ManagedDirectory {
 public:
  // `make_disk` makes the first disk, and another one after each hang. `executor` must outlive
  // this.
  ManagedDirectory(PageStoreOptions options, HostCache::DiskMaker make_disk, Executor& executor,
                   HealthTimes times);
  ~ManagedDirectory();

  const PageStoreOptions& options() const { return options_; }
  const DirectoryHealth& health() const { return *health_; }
  // Returns the open store, also while its disk fails; null if it is not open. Valid as long as
  // this object.
  DirectoryStore* store() const {
    const Opening* now = current_.load();
    return now == nullptr ? nullptr : now->store.get();
  }
  // Same, but null if the directory is down.
  DirectoryStore* usable() const {
    return health_->state() == DirectoryState::kDown ? nullptr : store();
  }

  // The operations of PageStore and HostCache that wait. Return kUnavailable if the directory is
  // not open or was given up meanwhile; then the operation may still happen, or not.
  Task<Result<Bytes>> read(Context context, FileRefPtr ref, ByteRange range);
  Task<Result<>> write(Context context, FileRefPtr ref, uint64_t offset, Bytes data);
  Task<Result<>> flush(Context context);
  Task<Result<ObjectPage>> objects(std::string after, size_t limit);
  Task<Result<>> verify(Context context, HostCache::StepListener listener);
  Task<Result<uint64_t>> evict(std::optional<PoolId> pool, uint64_t bytes);
  // Returns null also while the disk is slow: it opens a file on the caller's thread.
  std::shared_ptr<BackingFile> backing(const FileRef& ref);
  std::shared_ptr<BackingFile> backing_unverified(const FileRef& ref);
  // Returns nothing while the disk is slow, for the same reason.
  std::optional<SendfileRange> sendfile_range(const FileRef& ref, ByteRange range);
  // Does not wait. If the directory is not open, or its disk fails or hangs, the drop is repeated
  // after the next opening (up to 65,536 objects).
  uint64_t drop(const FileId& id);

  // Call once, before the others. After a failure, note_open_failed() schedules a later opening.
  Task<Result<>> open(Context context);
  void note_open_failed(const Status& why) { health_->note_open_failed(Clock::now(), why); }
  // A clean stop if the disk responds.
  Task<> close();
  // After a down directory's probe succeeded: closes the open store and opens it again.
  Task<> reopen();

  // Call about once a second, from one thread at a time. Gives up an opening that hangs as of
  // `now`, which may lie ahead; sends a due probe; logs a change of state. Returns true if reopen()
  // must be called.
  bool poll_health(Clock::time_point now);
  // From now on, only gives up hanging openings.
  void wind_down() { winding_down_ = true; }

 private:
  struct Opening : std::enable_shared_from_this<Opening> {
    explicit Opening(std::shared_ptr<MonitoredDisk> watched) : disk(std::move(watched)) {}

    const std::shared_ptr<MonitoredDisk> disk;
    const std::shared_ptr<DirectoryLock> lock = std::make_shared<DirectoryLock>();
    std::shared_ptr<DirectoryStore> store;  // set before other threads see it
    std::stop_source given_up;
    Gate operations;
  };
  using OpeningPtr = std::shared_ptr<Opening>;

  struct Operation {
    OpeningPtr at;
    Gate::Holder holder;
  };
  template <class T>
  Task<Result<T>> run_until_given_up(Operation operation, Task<Result<T>> work);
  template <class T, class Work>
  Task<Result<T>> run_operation(Work work);
  template <class T>
  static Task<> complete(Operation operation, Task<Result<T>> work,
                         std::shared_ptr<SharedPromise<T>> outcome);
  Error unresponsive_error() const;

  OpeningPtr current() const;
  OpeningPtr active() const;  // the opening that operations wait for
  OpeningPtr new_opening(const std::shared_ptr<Disk>& raw_disk) const;
  Result<> activate(const OpeningPtr& at, std::shared_ptr<DirectoryStore> store);
  Task<Result<>> close_opening(OpeningPtr before);
  Task<> drain_calls();
  void give_up(const OpeningPtr& at);
  void log_state_change();
  static Task<> probe(std::shared_ptr<DirectoryHealth> health, uint64_t number,
                      std::shared_ptr<MonitoredDisk> disk, std::string directory);

  const PageStoreOptions options_;
  const HostCache::DiskMaker make_disk_;
  Executor& executor_;
  const std::shared_ptr<DirectoryHealth> health_;

  std::atomic<Opening*> current_ = nullptr;  // one of openings_, while it is open
  std::atomic<bool> winding_down_ = false;
  mutable std::mutex mutex_;  // before that of health_
  std::shared_ptr<Disk> raw_disk_;
  OpeningPtr next_opening_;  // being opened, or the next to be opened
  bool opening_ = false;
  OpeningPtr closing_;    // being closed before the reopening
  bool gave_up_ = false;  // and not opened since
  std::vector<std::weak_ptr<MonitoredDisk>> given_up_;
  std::vector<FileId> dropped_;  // while it was not open or not healthy
  // All openings: a caller of an earlier one keeps using it to the end. Bounded by the recoveries
  // that DirectoryHealth allows, plus one.
  std::vector<OpeningPtr> openings_;

  DirectoryState logged_state_ = DirectoryState::kNormal;  // used by poll_health() only
  const Gauge state_gauge_;
};

}  // namespace leat
