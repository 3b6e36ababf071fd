// SPDX-License-Identifier: Apache-2.0
// RemoteMap: a client's view of a cluster, as a worker tells it: asked again and again, each answer
// coming when there is something new. When a worker does not answer, another one is asked; what is
// known stays as it was meanwhile. Thread-safe.
//
// A view of a lower revision than that which is known is one of a worker that is behind, and passed
// over; unless the same worker has it twice in a row: by then it knows that it is behind, if it is,
// and says nothing. So the registry was restored from a backup.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/cluster_view.h"
#include "runtime/executor.h"

namespace leat {

struct RemoteMapOptions {
  // Addresses at which a worker is to be found, to begin with and where all others fail.
  std::vector<std::string> seeds{};
  // One question at one address: the view once its revision is above `after`, or after some seconds
  // one that is below; null where the worker has nothing to say for so long that it answers all the
  // same. An error: the next one is asked.
  using Ask = std::function<Task<Result<ClusterViewPtr>>(Context, std::string address,
                                                         RegistryRevision after)>;
  Ask ask{};
  // Told of each new view, one after the other; must not wait.
  std::function<void(const ClusterViewPtr&)> changed{};
  // Between attempts, doubled with each that fails.
  Clock::duration pause_min = std::chrono::milliseconds(50);
  Clock::duration pause_max = std::chrono::seconds(2);
};

class RemoteMap : public ClusterMap {
 public:
  static std::unique_ptr<RemoteMap> start(RemoteMapOptions options, Executor& executor);

  // Waits until anything is known; an error of the context says why nothing is. kPermissionDenied
  // or kInvalidArgument, at once, where every worker that was asked, one after the other, refuses:
  // a token, a certificate, a clock or a want of TLS does not become right by waiting.
  virtual Task<Result<>> first_view(Context context) = 0;
  // Why the last question failed; nothing while all is well.
  virtual std::optional<Status> trouble() const = 0;
  // The next answer is taken whatever its revision is: who asks may see something else from now on.
  virtual void ask_anew() = 0;
  // Must have ended before it goes.
  virtual Task<> stop() = 0;
};

}  // namespace leat
