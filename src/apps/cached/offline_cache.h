// SPDX-License-Identifier: Apache-2.0
// OfflineCache: a cache directory that this process opens because no daemon has it. For the command
// line's one thread; every call waits.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/command.h"
#include "cache/host_cache.h"
#include "runtime/executor.h"

namespace leat {

class OfflineCache {
 public:
  // Nothing is evicted by opening it, whatever it holds. kNotFound where there is none (an empty
  // directory becomes one), kBusy where a daemon has it.
  static Attempt<std::unique_ptr<OfflineCache>> open(const std::string& directory);
  ~OfflineCache();  // closes it in order

  Attempt<ObjectPage> objects(std::string after);
  Attempt<> verify(HostCache::StepListener listener);
  uint64_t evict(std::optional<PoolId> pool, uint64_t bytes);
  PageStoreStats stats() const { return cache_->stats(); }
  // Nobody knows here which mount a pool was: its number.
  std::string name_of(PoolId pool) const;

 private:
  OfflineCache() = default;

  Executor executor_{{.threads = 1}};
  std::unique_ptr<HostCache> cache_;
};

}  // namespace leat
