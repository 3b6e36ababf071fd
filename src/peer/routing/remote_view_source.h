// SPDX-License-Identifier: Apache-2.0
// RemoteViewSource: a client's cluster view, received from a worker by long polls. If a worker does
// not respond, another one is tried; the last view stays valid meanwhile. Thread-safe.
//
// A view with a lower revision comes from a worker that lags behind and is ignored. If the same
// worker sends it twice in a row, it is accepted: a worker that lags would have noticed by then and
// stopped answering. So the registry was restored from a backup.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/cluster_view.h"
#include "runtime/executor.h"

namespace leat {

struct RemoteViewSourceOptions {
  // Worker addresses to start with, and to use if all others fail.
  std::vector<std::string> seeds{};
  // One long poll at one address. Returns the view once its revision is above `after`, or after
  // some seconds one that is below. Returns null if there was no news until the worker's timeout.
  // After an error the next address is tried.
  using Poll = std::function<Task<Result<ClusterViewPtr>>(Context, std::string address,
                                                          RegistryRevision after)>;
  Poll poll{};
  // Called with each new view, one at a time; must not block.
  std::function<void(const ClusterViewPtr&)> changed{};
  // Back-off between attempts; doubles with each failure.
  Clock::duration backoff_min = std::chrono::milliseconds(50);
  Clock::duration backoff_max = std::chrono::seconds(2);
};

class RemoteViewSource : public ClusterViewSource {
 public:
  static std::unique_ptr<RemoteViewSource> start(RemoteViewSourceOptions options,
                                                 Executor& executor);

  // Waits for the first view; an error of the context includes the cause. Returns
  // kPermissionDenied or kInvalidArgument at once if every worker in turn rejects: waiting repairs
  // no token, certificate, clock or missing TLS.
  virtual Task<Result<>> first_view(Context context) = 0;
  // Returns why the last poll failed; nothing while polls succeed.
  virtual std::optional<Status> trouble() const = 0;
  // Accepts the next view whatever its revision, because the credentials may see other mounts now.
  virtual void force_refresh() = 0;
  // Must have ended before destruction.
  virtual Task<> stop() = 0;
};

}  // namespace leat
