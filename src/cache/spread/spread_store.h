// SPDX-License-Identifier: Apache-2.0
// SpreadStore: a HostCache as one DirectoryStore for each directory, and who of them has what.
// Thread-safe.
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
#include "cache/spread/directory_health.h"
#include "telemetry/metrics.h"

namespace leat {

class SpreadStore : public HostCache {
 public:
  SpreadStore(std::vector<PageStoreOptions> directories, Executor& executor,
              const DiskMaker& make_disk, HealthTimes times = {});
  ~SpreadStore() override { stopping_.request_stop(); }

  // Opens the directories and begins to look after them.
  Task<Result<>> start(Context context);
  Task<> close() override;

  std::optional<Bytes> try_read(const FileRef& ref, ByteRange range) override;
  Task<Result<Bytes>> read(Context context, FileRefPtr ref, ByteRange range) override;
  std::vector<ByteRange> missing(const FileRef& ref, ByteRange range) override;
  Task<Result<>> write(Context context, FileRefPtr ref, uint64_t offset, Bytes data) override;
  std::shared_ptr<BackingFile> backing(const FileRef& ref) override;
  bool packed(const FileRef& ref) const override;
  uint64_t cached_bytes(const FileRef& ref) override;
  uint64_t drop(const FileId& id) override;
  Task<Result<>> flush(Context context) override;
  void set_pool_policy(PoolId id, const PoolPolicy& policy) override;
  PageStoreStats stats() const override;
  std::vector<PoolStats> pools() const override;
  std::vector<DirectoryStats> directories() const override;
  Task<Result<ObjectPage>> objects(Context context, std::string after, size_t limit) override;
  Task<Result<>> verify(Context context, StepListener listener) override;
  Task<uint64_t> evict(std::optional<PoolId> pool, uint64_t bytes) override;

 private:
  struct Member {
    Member(PageStoreOptions of, const std::shared_ptr<Disk>& plain, HealthTimes times);

    const PageStoreOptions options;
    const std::shared_ptr<DirectoryHealth> health;
    const std::shared_ptr<Disk> disk;
    // Null until it opened once. After a failure another takes its place; whoever uses the earlier
    // one at the moment does so to the end, therefore all are kept.
    std::atomic<DirectoryStore*> store = nullptr;
    std::vector<std::unique_ptr<DirectoryStore>>
        stores;  // the last one is in use; of watch() alone
    const Gauge state_gauge;

    // Null while it is down.
    DirectoryStore* usable() const {
      return health->state() == DirectoryState::kDown ? nullptr : store.load();
    }
  };
  using MemberPtr = std::unique_ptr<Member>;

  // Those that can be asked, the one where the object belongs first.
  struct Order {
    std::array<Member*, kCacheDirectoriesMax> members;
    size_t count = 0;

    Member* const* begin() const { return members.data(); }
    Member* const* end() const { return members.data() + count; }
  };
  Order in_order(const FileId& id) const;
  // Who has any of the object, or null.
  DirectoryStore* holder(const FileId& id) const;
  // Who would take it in; null where nobody does.
  DirectoryStore* taker(const FileId& id) const;
  std::vector<DirectoryStore*> usable() const;

  Task<Result<>> open(Context context, Member& member);
  Task<> reopen(Member& member);
  void apply_policies();
  Task<> watch();
  static Task<> probe(Executor& executor, std::shared_ptr<DirectoryHealth> health,
                      std::shared_ptr<Disk> disk, std::string directory);

  Executor& executor_;
  const Clock::duration look_every_;
  std::vector<MemberPtr> members_;
  const std::shared_ptr<Background> background_ = std::make_shared<Background>();
  std::stop_source stopping_;

  std::mutex applying_mutex_;              // before mutex_
  mutable std::mutex mutex_;               // leaf
  std::map<PoolId, PoolPolicy> policies_;  // as they were set, for all directories together
};

}  // namespace leat
