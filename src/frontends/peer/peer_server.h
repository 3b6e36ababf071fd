// SPDX-License-Identifier: Apache-2.0
// PeerServer: the peer protocol server of a worker (docs/formats/peer-protocol.md). Every request
// is signed; read permissions are checked here, before any page is accessed.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "auth/request_verifier.h"
#include "cluster/cluster_view.h"
#include "frontends/peer/peer_snapshot_routes.h"
#include "frontends/peer/peer_staging_routes.h"
#include "frontends/peer/peer_write_routes.h"
#include "frontends/peer/response_memory_limiter.h"
#include "http/router.h"
#include "peer/fd_passing/fd_server.h"
#include "peer/invalidation/invalidation_log.h"
#include "worker/worker_service.h"

namespace leat {

struct PeerServerDeps {
  WorkerService& service;
  ClusterViewSource& views;
  InvalidationLog& changes;
  RequestVerifier& verifier;
  // Returns true if `views` is known to equal the registry.
  std::function<bool()> view_is_current;
  // Long-poll timeout: a request for the view is answered after it even without a change, as a sign
  // of life.
  Clock::duration poll_timeout = std::chrono::seconds(8);
  // Handles invalidations from another worker, for this one's clients.
  std::function<void(Invalidations)> on_invalidations;
  WorkerSnapshotService* snapshots = nullptr;
  ResponseMemoryLimiterOptions response_memory{};
};

class PeerServer {
 public:
  // All of `deps` must outlive the object; the object must outlive servers that use its router.
  explicit PeerServer(PeerServerDeps deps);

  HttpRouter router();
  // Handler of a FdServer: passes the whole file if the reader may read it.
  Task<Result<PassedFd>> descriptor(Context context, HttpRequest request);

  // For other routes of the server: returns the rejection of a badly signed request; else sets the
  // principal.
  std::optional<HttpResponse> reject_unsigned(const HttpRequest& request, PrincipalPtr* who) const {
    return rejection(request, "", who);
  }

 private:
  Task<HttpResponse> ping(Context context, HttpRequest request);
  Task<HttpResponse> bytes(Context context, HttpRequest request);
  Task<HttpResponse> batch(Context context, HttpRequest request);
  Task<HttpResponse> list(Context context, HttpRequest request);
  Task<HttpResponse> stat(Context context, HttpRequest request);
  Task<HttpResponse> cluster(Context context, HttpRequest request);
  Task<HttpResponse> changes(Context context, HttpRequest request);
  Task<HttpResponse> post_changes(Context context, HttpRequest request);
  Task<HttpResponse> cache_op(Context context, HttpRequest request);
  Task<HttpResponse> drop(Context context, HttpRequest request);
  Task<HttpResponse> verify(Context context, HttpRequest request);
  Task<HttpResponse> copy(Context context, HttpRequest request);

  // Returns the answer to a request that must be rejected; nothing if it may proceed. Sets the
  // principal, if requested.
  std::optional<HttpResponse> rejection(const HttpRequest& request, const std::string& mount,
                                        PrincipalPtr* who = nullptr) const;
  // The same for requests between workers; `what` describes them: "publish invalidations".
  std::optional<HttpResponse> worker_only(const HttpRequest& request, std::string_view what) const;
  std::optional<HttpResponse> missing_right(const HttpRequest& request, const Principal& who,
                                            const std::string& path, Right right) const;
  Result<PrincipalPtr> verified(const HttpRequest& request) const;
  HttpResponse unauthorised(const Status& why) const;
  void set_epoch(HttpResponse& response) const;

  // Returns the document of the whole view, encoded once for all waiters: 5 ms of CPU for a
  // thousand workers.
  std::shared_ptr<const std::string> document_of(const ClusterViewPtr& view);

  const PeerServerDeps deps_;
  ResponseMemoryLimiter response_memory_;
  PeerSnapshotRoutes snapshots_;
  PeerWriteRoutes writes_;
  PeerStagingRoutes staging_;
  std::mutex mutex_;        // leaf
  ClusterViewPtr written_;  // view of document_
  std::shared_ptr<const std::string> document_;
};

}  // namespace leat
