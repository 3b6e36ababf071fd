// SPDX-License-Identifier: Apache-2.0
// RegistryViewSource: the cluster's view from the registry, for workers. Follows changes; keeps the
// last view while the registry does not respond. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "cluster/cluster_view.h"
#include "runtime/executor.h"

namespace leat {

struct RegistryViewSourceOptions {
  // Called with a view, one at a time, on any thread; must not block.
  using Listener = std::function<void(const ClusterViewPtr&)>;

  std::string cluster{};  // the cluster's name
  Listener changed{};     // called with each new view
  Listener relisted{};    // called after that, if intermediate states were missed
};

class RegistryViewSource : public ClusterViewSource {
 public:
  // `registry` must outlive the source; stop() must have ended before destruction.
  static std::unique_ptr<RegistryViewSource> start(Registry& registry,
                                                   RegistryViewSourceOptions options,
                                                   Executor& executor);

  // Waits for the first view; an error of the context includes the cause.
  virtual Task<Result<>> first_view(Context context) = 0;
  // Returns why the registry could not be followed; nothing while all is well.
  virtual std::optional<Status> trouble() const = 0;
  virtual Task<> stop() = 0;
};

}  // namespace leat
