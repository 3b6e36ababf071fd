// SPDX-License-Identifier: Apache-2.0
// OfflineCache: a cache directory that this process opens because no daemon uses it. For the single
// thread of the command line; every call blocks.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/cli/command/command.h"
#include "cache/host_cache.h"
#include "runtime/executor.h"

namespace leat {

class OfflineCache {
 public:
  // Evicts nothing, whatever the cache holds. kNotFound if there is none (an empty directory
  // becomes one), kBusy if a daemon has it.
  static CommandResult<std::unique_ptr<OfflineCache>> open(const std::string& directory);
  ~OfflineCache();  // closes it cleanly

  CommandResult<ObjectPage> objects(std::string after);
  CommandResult<> verify(HostCache::StepListener listener);
  uint64_t evict(std::optional<PoolId> pool, uint64_t bytes);
  PageStoreStats stats() const { return cache_->stats(); }
  // Returns the pool's number, since its mount is not known here.
  std::string name_of(PoolId pool) const;

 private:
  OfflineCache() = default;

  Executor executor_{{.threads = 1}};
  std::unique_ptr<HostCache> cache_;
};

}  // namespace leat
