// SPDX-License-Identifier: Apache-2.0
// RegistryCache: a local copy of the registry entries below a prefix, for readers that cannot
// wait. It follows changes until stop(). After any end of its watch it lists again and continues
// from there. While the registry does not respond, it keeps its content. It follows a registry
// restored from a backup to lower revisions. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cluster/registry.h"
#include "runtime/executor.h"

namespace leat {

struct RegistryCacheOptions {
  // Back-off, doubled with each failure. Random jitter shortens it by up to a half, so that many
  // caches do not retry at once.
  Clock::duration backoff_min = std::chrono::milliseconds(100);
  Clock::duration backoff_max = std::chrono::seconds(5);
  // Called with each new state, one at a time; must not block.
  std::function<void(const RegistryView&)> changed{};
  // Called after `changed` if the state came from a new listing: intermediate states were missed.
  std::function<void()> relisted{};
};

class RegistryCache {
 public:
  // `registry` must outlive the cache; stop() must have ended before destruction.
  static std::unique_ptr<RegistryCache> start(Registry& registry, std::string prefix,
                                              RegistryCacheOptions options, Executor& executor);
  virtual ~RegistryCache() = default;

  // Returns the last known state; revision 0 before the first listing.
  virtual std::shared_ptr<const RegistryView> view() const = 0;
  // Returns why the last attempt failed; nothing while changes are followed.
  virtual std::optional<Status> trouble() const = 0;
  // Waits for the first listing; an error of the context includes the cause.
  virtual Task<Result<>> first_view(Context context) = 0;
  // After its end there are no callbacks and no changes.
  virtual Task<> stop() = 0;
};

}  // namespace leat
