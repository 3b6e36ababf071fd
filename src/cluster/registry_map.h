// SPDX-License-Identifier: Apache-2.0
// RegistryMap: the cluster's view as the registry has it, for workers. Follows changes; while the
// registry does not answer it stays as it was. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "cluster/cluster_view.h"
#include "runtime/executor.h"

namespace leat {

struct RegistryMapOptions {
  // Told of a view, one after the other, on any thread; must not wait.
  using Listener = std::function<void(const ClusterViewPtr&)>;

  std::string cluster{};   // its name
  Listener changed{};      // of each new one
  Listener listed_anew{};  // after that, where what the registry held in between is not known
};

class RegistryMap : public ClusterMap {
 public:
  // `registry` must outlive it, and stop() must have ended before it goes.
  static std::unique_ptr<RegistryMap> start(Registry& registry, RegistryMapOptions options,
                                            Executor& executor);

  // Waits until anything is known; an error of the context says why nothing is.
  virtual Task<Result<>> first_view(Context context) = 0;
  // Why the registry could not be followed last; nothing while all is well.
  virtual std::optional<Status> trouble() const = 0;
  virtual Task<> stop() = 0;
};

}  // namespace leat
