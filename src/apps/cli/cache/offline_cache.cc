// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/cache/offline_cache.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/units.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr size_t kPageObjects = 10'000;
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

}  // namespace

CommandResult<std::unique_ptr<OfflineCache>> OfflineCache::open(const std::string& directory) {
  struct stat info;
  if (stat(directory.c_str(), &info) != 0) {
    return failure(StatusCode::kNotFound,
                   fmt::format("{} is not there; 'leat cache format {}' makes a cache directory",
                               directory, directory));
  }
  std::unique_ptr<OfflineCache> offline(new OfflineCache());
  const PageStoreOptions options{.directory = directory,
                                 .capacity_bytes = kNoLimit,
                                 .free_bytes_min = 1,
                                 .eviction_disabled = true};
  auto make = [&] { return make_disk(offline->executor_); };
  LEAT_TRY(offline->cache_, offline->executor_.block_on(HostCache::open(
                                Context::background(), {options}, offline->executor_, make)));
  return offline;
}

OfflineCache::~OfflineCache() {
  if (cache_) executor_.block_on(cache_->close());
}

CommandResult<ObjectPage> OfflineCache::objects(std::string after) {
  LEAT_TRY(ObjectPage page, executor_.block_on(cache_->objects(Context::background(),
                                                               std::move(after), kPageObjects)));
  return page;
}

CommandResult<> OfflineCache::verify(HostCache::StepListener listener) {
  LEAT_CHECK_OK(executor_.block_on(cache_->verify(Context::background(), std::move(listener))));
  return {};
}

uint64_t OfflineCache::evict(std::optional<PoolId> pool, uint64_t bytes) {
  return executor_.block_on(cache_->evict(pool, bytes));
}

std::string OfflineCache::name_of(PoolId pool) const {
  if (pool == PoolId::kNone) return "";
  return fmt::format("pool {:016x}", static_cast<uint64_t>(pool));
}

}  // namespace leat
