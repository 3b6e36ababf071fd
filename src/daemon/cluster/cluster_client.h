// SPDX-License-Identifier: Apache-2.0
// ClusterClient: the client side of a mounted cluster: the view, the workers, and invalidations. A
// client needs the address of one worker and a token; it uses neither the registry nor stores.
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "peer/client/peer_client.h"
#include "peer/invalidation/invalidation_subscriber.h"
#include "peer/peer_table.h"
#include "peer/routing/remote_view_source.h"
#include "peer/snapshots/shared_snapshots.h"
#include "peer/sources/cluster_source.h"
#include "runtime/executor.h"
#include "source/io_timeout.h"

namespace leat {

struct ClusterClientOptions {
  std::vector<std::string> seeds{};  // "10.0.0.1:7480"
  // Distinguishes this client and its source from others. Contains the cluster's address, since two
  // clusters may have one name, and the token, since two tokens may have different rights.
  std::string identity{};
  std::shared_ptr<RequestSigner> signer{};
  // The file of its token, which is read again when it changes; empty: the creator of the signer
  // refreshes it.
  std::string token_file{};
  std::shared_ptr<const HttpTls> tls{};
  // Identifies this machine, like WorkerInfo::host_id.
  std::string host_id{};
  // Timeout of a read or a lookup while workers do not respond.
  Clock::duration io_timeout = kIoTimeoutDefault;
  bool hedges = true;  // hedged reads: a second worker with the data may receive the request, too
  // Returns the worker of this process, which replaces a connection to itself; null for others.
  std::function<PeerPtr(const WorkerInfo&)> local{};
  // The same for the files in its cache.
  std::function<FdProviderPtr(const WorkerInfo&)> local_files{};
  // Called with invalidations, one call at a time.
  std::function<Task<>(Invalidations)> on_invalidations{};
};

class ClusterClient {
 public:
  static std::unique_ptr<ClusterClient> start(ClusterClientOptions options, Executor& executor);
  virtual ~ClusterClient() = default;

  // Waits for the first view. kUnavailable if no worker responds in time; the message has the last
  // error.
  virtual Task<Result<>> first_view(Context context) = 0;
  virtual ClusterViewSource& views() = 0;
  // Sends a request about the cluster's jobs, as PeerClient::jobs(), to any worker that responds.
  virtual Task<Result<std::string>> request_jobs(Context context, std::string method,
                                                 std::string below, std::string body) = 0;
  virtual const SharedSnapshots& snapshots() = 0;
  // Returns the cluster's namespace. Its requests fail before there is a view.
  virtual SourcePtr source() = 0;
  // Returns why the view is not current.
  virtual std::optional<Status> trouble() const = 0;
  // Returns the number of workers that receive no requests now because they do not respond.
  virtual size_t unresponsive() const = 0;
  // Returns whether source() was called.
  virtual bool used() const = 0;
  // Returns whether no user of the source is left.
  virtual bool unused() const = 0;
  // Must have ended before the destruction.
  virtual Task<> stop() = 0;
};

}  // namespace leat
