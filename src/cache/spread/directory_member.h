// SPDX-License-Identifier: Apache-2.0
// DirectoryMember: one of a host's cache directories, as it is open now or will be again. Whoever
// asks something of it waits for its disk only until that is found to hang (DirectoryHealth); then
// the directory is given up as it is open: all who wait are answered, its disk is fenced off, and
// what hangs is left behind with the store that it belongs to. Thread-safe.
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
  // `make_disk` gives it a disk, and another one whenever that hangs. `executor` must outlive it.
  DirectoryMember(PageStoreOptions options, HostCache::DiskMaker make_disk, Executor& executor,
                  HealthTimes times);
  ~DirectoryMember();

  const PageStoreOptions& options() const { return options_; }
  const DirectoryHealth& health() const { return *health_; }
  // As it is open, also where its disk fails; null where it is not open. Stays as long as this.
  DirectoryStore* store() const {
    const Opening* now = now_.load();
    return now == nullptr ? nullptr : now->store.get();
  }
  // The same, null where it is down.
  DirectoryStore* usable() const {
    return health_->state() == DirectoryState::kDown ? nullptr : store();
  }

  // The operations of PageStore and HostCache that wait. kUnavailable where it is not open, or was
  // given up meanwhile; what was asked for may still happen, or not.
  Task<Result<Bytes>> read(Context context, FileRefPtr ref, ByteRange range);
  Task<Result<>> write(Context context, FileRefPtr ref, uint64_t offset, Bytes data);
  Task<Result<>> flush(Context context);
  Task<Result<ObjectPage>> objects(std::string after, size_t limit);
  Task<Result<>> verify(Context context, HostCache::StepListener listener);
  Task<Result<uint64_t>> evict(std::optional<PoolId> pool, uint64_t bytes);
  // Null also where the disk is just taking long: it opens a file on the caller's thread.
  std::shared_ptr<BackingFile> backing(const FileRef& ref);
  std::shared_ptr<BackingFile> hold(const FileRef& ref);
  // The same of a disk that is just taking long.
  std::optional<StoredRange> stored(const FileRef& ref, ByteRange range);
  // Does not wait. Where it is not open, or fails or hangs, what was dropped is remembered (65,536
  // objects) until it is open again.
  uint64_t drop(const FileId& id);

  // Once, before the others. Where it fails, not_opened() makes it one that is opened later.
  Task<Result<>> open(Context context);
  void not_opened(const Status& why) { health_->not_opened(Clock::now(), why); }
  // In order where the disk answers.
  Task<> close();
  // Where it was down and a probe has succeeded: closes what is open, and opens it anew.
  Task<> reopen();

  // To be called about once a second, by one at a time: gives up what hangs as of `now`, which may
  // lie ahead, sends a probe where one is due, says into the log how it is. True where reopen() has
  // to be called.
  bool look(Clock::time_point now);
  // Only gives up what hangs from here on.
  void wind_down() { winding_down_ = true; }

 private:
  struct Opening : std::enable_shared_from_this<Opening> {
    explicit Opening(std::shared_ptr<WatchedDisk> watched) : disk(std::move(watched)) {}

    const std::shared_ptr<WatchedDisk> disk;
    const std::shared_ptr<DirectoryLock> lock = std::make_shared<DirectoryLock>();
    std::shared_ptr<DirectoryStore> store;  // set before others see it
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
  OpeningPtr active() const;  // whose calls are waited for
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
  OpeningPtr next_;  // being opened, or what will be
  bool opening_ = false;
  OpeningPtr leaving_;    // being closed before it is opened anew
  bool gave_up_ = false;  // and was not opened since
  std::vector<std::weak_ptr<WatchedDisk>> given_up_;
  std::vector<FileId> dropped_;  // while it was not open, or not sound
  // All that were open: whoever uses an earlier one at the moment does so to the end. As many as
  // DirectoryHealth lets it recover, and one.
  std::vector<OpeningPtr> openings_;

  DirectoryState told_ = DirectoryState::kNormal;  // of look() alone
  const Gauge state_gauge_;
};

}  // namespace leat
