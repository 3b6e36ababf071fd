// SPDX-License-Identifier: Apache-2.0
// DirectoryMember: one cache directory of a host, open or to be reopened. A caller waits for its
// disk only until DirectoryHealth finds that it hangs. Then the opening is given up: all waiters
// get an answer, its disk is fenced off, and hanging calls keep their store. Thread-safe.
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
#include "cache/directory_store.h"
#include "cache/host_cache.h"
#include "cache/spread/directory_health.h"
#include "cache/spread/watched_disk.h"
#include "runtime/activity.h"
#include "runtime/shared_result.h"
#include "telemetry/metrics.h"

namespace leat {

class DirectoryMember {
 public:
  // `make_disk` makes the first disk, and another one after each hang. `executor` must outlive
  // this.
  DirectoryMember(PageStoreOptions options, HostCache::DiskMaker make_disk, Executor& executor,
                  HealthTimes times);
  ~DirectoryMember();

  const PageStoreOptions& options() const { return options_; }
  const DirectoryHealth& health() const { return *health_; }
  // Returns the open store, also while its disk fails; null if it is not open. Valid as long as
  // this object.
  DirectoryStore* store() const {
    const Opening* now = now_.load();
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
  std::shared_ptr<BackingFile> hold(const FileRef& ref);
  // Returns nothing while the disk is slow, for the same reason.
  std::optional<StoredRange> stored(const FileRef& ref, ByteRange range);
  // Does not wait. If the directory is not open, or its disk fails or hangs, the drop is repeated
  // after the next opening (up to 65,536 objects).
  uint64_t drop(const FileId& id);

  // Call once, before the others. After a failure, not_opened() schedules a later opening.
  Task<Result<>> open(Context context);
  void not_opened(const Status& why) { health_->not_opened(Clock::now(), why); }
  // A clean stop if the disk responds.
  Task<> close();
  // After a down directory's probe succeeded: closes the open store and opens it again.
  Task<> reopen();

  // Call about once a second, from one thread at a time. Gives up an opening that hangs as of
  // `now`, which may lie ahead; sends a due probe; logs a change of state. Returns true if reopen()
  // must be called.
  bool look(Clock::time_point now);
  // From now on, only gives up hanging openings.
  void wind_down() { winding_down_ = true; }

 private:
  struct Opening : std::enable_shared_from_this<Opening> {
    explicit Opening(std::shared_ptr<WatchedDisk> watched) : disk(std::move(watched)) {}

    const std::shared_ptr<WatchedDisk> disk;
    const std::shared_ptr<DirectoryLock> lock = std::make_shared<DirectoryLock>();
    std::shared_ptr<DirectoryStore> store;  // set before other threads see it
    std::stop_source given_up;
    Activity operations;
  };
  using OpeningPtr = std::shared_ptr<Opening>;

  struct Asked {
    OpeningPtr at;
    Activity::Token under_way;
  };
  template <class T>
  Task<Result<T>> patiently(Asked asked, Task<Result<T>> work);
  template <class T, class Work>
  Task<Result<T>> ask(Work work);
  template <class T>
  static Task<> answer(Asked asked, Task<Result<T>> work, std::shared_ptr<SharedResult<T>> outcome);
  Error does_not_answer() const;

  OpeningPtr current() const;
  OpeningPtr active() const;  // the opening that operations wait for
  OpeningPtr new_opening(const std::shared_ptr<Disk>& plain) const;
  Result<> take(const OpeningPtr& at, std::shared_ptr<DirectoryStore> store);
  Task<Result<>> leave(OpeningPtr before);
  Task<> last_calls();
  void give_up(const OpeningPtr& at);
  void tell();
  static Task<> probe(std::shared_ptr<DirectoryHealth> health, uint64_t number,
                      std::shared_ptr<WatchedDisk> disk, std::string directory);

  const PageStoreOptions options_;
  const HostCache::DiskMaker make_disk_;
  Executor& executor_;
  const std::shared_ptr<DirectoryHealth> health_;

  std::atomic<Opening*> now_ = nullptr;  // one of openings_, while it is open
  std::atomic<bool> winding_down_ = false;
  mutable std::mutex mutex_;  // before that of health_
  std::shared_ptr<Disk> plain_;
  OpeningPtr next_;  // being opened, or the next to be opened
  bool opening_ = false;
  OpeningPtr leaving_;    // being closed before the reopening
  bool gave_up_ = false;  // and not opened since
  std::vector<std::weak_ptr<WatchedDisk>> given_up_;
  std::vector<FileId> dropped_;  // while it was not open or not healthy
  // All openings: a caller of an earlier one keeps using it to the end. Bounded by the recoveries
  // that DirectoryHealth allows, plus one.
  std::vector<OpeningPtr> openings_;

  DirectoryState told_ = DirectoryState::kNormal;  // used by look() only
  const Gauge state_gauge_;
};

}  // namespace leat
