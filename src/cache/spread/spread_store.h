// SPDX-License-Identifier: Apache-2.0
// SpreadStore: a HostCache with one DirectoryStore for each directory; chooses the directory of
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
#include "cache/directory_store.h"
#include "cache/host_cache.h"
#include "cache/spread/directory_member.h"
#include "runtime/shared_result.h"

namespace leat {

class SpreadStore : public HostCache {
 public:
  SpreadStore(std::vector<PageStoreOptions> directories, Executor& executor,
              const DiskMaker& make_disk, HealthTimes times = {});
  ~SpreadStore() override { stopping_.request_stop(); }

  // Opens the directories and begins to monitor them.
  Task<Result<>> start(Context context);
  Task<> close() override;
  // Checks one directory; runs about once a second. A hang is judged as of `now`, which may lie
  // ahead.
  void look(size_t directory, Clock::time_point now);

  std::optional<Bytes> try_read(const FileRef& ref, ByteRange range) override;
  Task<Result<Bytes>> read(Context context, FileRefPtr ref, ByteRange range) override;
  void will_read(std::vector<FileRefPtr> refs, AheadListener told) override;
  std::vector<ByteRange> missing(const FileRef& ref, ByteRange range) override;
  Task<Result<>> write(Context context, FileRefPtr ref, uint64_t offset, Bytes data) override;
  std::shared_ptr<BackingFile> backing(const FileRef& ref) override;
  std::shared_ptr<BackingFile> hold(const FileRef& ref) override;
  std::optional<StoredRange> stored(const FileRef& ref, ByteRange range) override;
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
  using MemberPtr = std::unique_ptr<DirectoryMember>;

  // The usable members, the object's own directory first.
  struct Order {
    std::array<DirectoryMember*, kCacheDirectoriesMax> members;
    size_t count = 0;

    DirectoryMember* const* begin() const { return members.data(); }
    DirectoryMember* const* end() const { return members.data() + count; }
  };
  Order in_order(const FileId& id) const;
  // Returns the member that has any part of the object, or null.
  DirectoryMember* holder(const FileId& id) const;
  // Returns that member's open store.
  DirectoryStore* holding(const FileId& id) const;
  // Returns the member that would accept the object; null if none does.
  DirectoryMember* taker(const FileId& id) const;
  std::vector<DirectoryMember*> usable() const;

  Task<> open(Context context, DirectoryMember& member,
              std::shared_ptr<SharedResult<bool>> outcome);
  Task<> close(DirectoryMember& member);
  Task<> reopen(DirectoryMember& member);
  void apply_policies();
  Task<> watch();

  Executor& executor_;
  const Clock::duration look_every_;
  std::vector<MemberPtr> members_;
  const std::shared_ptr<Background> background_ = std::make_shared<Background>();
  const std::shared_ptr<Background> watching_ = std::make_shared<Background>();
  std::stop_source stopping_;  // stops the monitor, last

  std::mutex looking_mutex_;  // before all others

  std::mutex applying_mutex_;              // before mutex_
  mutable std::mutex mutex_;               // leaf
  std::map<PoolId, PoolPolicy> policies_;  // as set, for all directories together
};

}  // namespace leat
