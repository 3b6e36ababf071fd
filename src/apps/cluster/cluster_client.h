// SPDX-License-Identifier: Apache-2.0
// ClusterClient: this host's side of a cluster that it mounts: the view, the workers, and what
// changes. Clients need the address of one worker and a token; they know neither the registry nor
// stores. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "peer/change_follower.h"
#include "peer/cluster_source.h"
#include "peer/peer_client.h"
#include "peer/peer_table.h"
#include "peer/remote_map.h"
#include "peer/snapshots/shared_snapshots.h"
#include "runtime/executor.h"
#include "source/io_timeout.h"

namespace leat {

struct ClusterClientOptions {
  std::vector<std::string> seeds{};  // "10.0.0.1:7480"
  // What tells this client from another one, and its source: where the cluster is, since two may
  // have one name; by which token, since two may have other rights.
  std::string identity{};
  std::shared_ptr<RequestSigner> signer{};
  // Where its token comes from, and is read again; empty: whoever made it looks after it.
  std::string token_file{};
  std::shared_ptr<const HttpTls> tls{};
  // Of this machine, as workers say theirs (WorkerInfo::host_id).
  std::string host_id{};
  // How long a read or a lookup waits for workers that do not answer.
  Clock::duration io_timeout = kIoTimeoutDefault;
  bool hedges = true;  // reads of what several workers have may be asked of a second one
  // In place of a connection to oneself: the worker that this process is; null for others.
  std::function<PeerPtr(const WorkerInfo&)> local{};
  // The same for the files in its cache.
  std::function<FileGiverPtr(const WorkerInfo&)> local_files{};
  // What is not as it was; the next is told after its end.
  std::function<Task<>(PeerChanges)> changed{};
};

class ClusterClient {
 public:
  static std::unique_ptr<ClusterClient> start(ClusterClientOptions options, Executor& executor);
  virtual ~ClusterClient() = default;

  // kUnavailable where no worker answers in time; says what came of asking.
  virtual Task<Result<>> first_view(Context context) = 0;
  virtual ClusterMap& map() = 0;
  // Of the cluster's jobs, as PeerClient::jobs(): by any worker that answers.
  virtual Task<Result<std::string>> ask_jobs(Context context, std::string method, std::string below,
                                             std::string body) = 0;
  virtual const SharedSnapshots& snapshots() = 0;
  // The cluster's namespace, of which nothing can be had before there is a view.
  virtual SourcePtr source() = 0;
  // Why it knows nothing new of its cluster.
  virtual std::optional<Status> trouble() const = 0;
  // Workers that are not asked now, since they did not answer.
  virtual size_t unanswering() const = 0;
  // Whether somebody has asked for its source.
  virtual bool used() const = 0;
  // Whether nobody has that any more.
  virtual bool left() const = 0;
  // Must have ended before it goes.
  virtual Task<> stop() = 0;
};

}  // namespace leat
