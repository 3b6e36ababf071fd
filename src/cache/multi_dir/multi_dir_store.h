// SPDX-License-Identifier: Apache-2.0
// MultiDirStore: a HostCache with one DirectoryStore for each directory; chooses the directory of
// each object. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "cache/cache_directory.h"
#include "cache/directory/directory_store.h"
#include "cache/host_cache.h"
#include "cache/multi_dir/managed_directory.h"
#include "runtime/shared_promise.h"

namespace leat {

class MultiDirStore : public HostCache {
 public:
  MultiDirStore(std::vector<PageStoreOptions> directories, Executor& executor,
                const DiskMaker& make_disk, HealthTimes times = {});
  ~MultiDirStore() override { stopping_.request_stop(); }

  // Opens the directories and begins to monitor them.
  Task<Result<>> start(Context context);
  Task<> close() override;
  // Checks one directory; runs about once a second. A hang is judged as of `now`, which may lie
  // ahead.
  void poll_health(size_t index, Clock::time_point now);

  std::optional<Bytes> try_read(const FileRef& ref, ByteRange range) override;
  Task<Result<Bytes>> read(Context context, FileRefPtr ref, ByteRange range) override;
  void readahead(std::vector<FileRefPtr> refs, ReadaheadListener listener) override;
  std::vector<ByteRange> missing(const FileRef& ref, ByteRange range) override;
  Task<Result<>> write(Context context, FileRefPtr ref, uint64_t offset, Bytes data) override;
  std::shared_ptr<BackingFile> backing(const FileRef& ref) override;
  std::shared_ptr<BackingFile> backing_unverified(const FileRef& ref) override;
  std::optional<SendfileRange> sendfile_range(const FileRef& ref, ByteRange range) override;
  bool packed(const FileRef& ref) const override;
  uint64_t cached_bytes(const FileRef& ref) override;
  uint64_t drop(const FileId& id) override;
  Task<Result<>> flush(Context context) override;
  void set_pool_policy(PoolId id, const PoolPolicy& policy) override;
  PageStoreStats stats() const override;
  std::vector<PoolStats> pools() const override;
  std::vector<DirectoryStats> directories() const override;
  WorkerId worker() const override;
  Task<Result<ObjectPage>> objects(Context context, std::string after, size_t limit) override;
  Task<Result<>> verify(Context context, StepListener listener) override;
  Task<uint64_t> evict(std::optional<PoolId> pool, uint64_t bytes) override;

 private:
  using DirectoryPtr = std::unique_ptr<ManagedDirectory>;

  // The usable directories, the object's own directory first.
  struct Candidates {
    std::array<ManagedDirectory*, kCacheDirectoriesMax> directories;
    size_t count = 0;

    ManagedDirectory* const* begin() const { return directories.data(); }
    ManagedDirectory* const* end() const { return directories.data() + count; }
  };
  Candidates candidates(const FileId& id) const;
  // Returns the directory that has any part of the object, or null.
  ManagedDirectory* holder(const FileId& id) const;
  // Returns that directory's open store.
  DirectoryStore* holding_store(const FileId& id) const;
  // Returns the directory that would accept the object; null if none does.
  ManagedDirectory* write_target(const FileId& id) const;
  std::vector<ManagedDirectory*> usable() const;

  Task<> open(Context context, ManagedDirectory& directory,
              std::shared_ptr<SharedPromise<bool>> outcome);
  Task<> close(ManagedDirectory& directory);
  Task<> reopen(ManagedDirectory& directory);
  void apply_policies();
  Task<> monitor();

  Executor& executor_;
  const Clock::duration poll_interval_;
  std::vector<DirectoryPtr> directories_;
  const std::shared_ptr<Background> background_ = std::make_shared<Background>();
  const std::shared_ptr<Background> monitor_task_ = std::make_shared<Background>();
  std::stop_source stopping_;  // stops the monitor, last

  std::mutex poll_mutex_;  // before all others

  std::mutex applying_mutex_;              // before mutex_
  mutable std::mutex mutex_;               // leaf
  std::map<PoolId, PoolPolicy> policies_;  // as set, for all directories together
};

}  // namespace leat
