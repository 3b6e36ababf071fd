// SPDX-License-Identifier: Apache-2.0
// PeerSnapshotRoutes: HTTP routes of a worker's snapshots (docs/formats/peer-protocol.md). Private
// to this module.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "auth/request_verifier.h"
#include "http/router.h"
#include "worker/snapshots/worker_snapshot_service.h"

namespace leat {

struct PeerSnapshotRoutesDeps {
  WorkerSnapshotService* snapshots = nullptr;  // null: no snapshots here
  ClusterViewSource& views;
  // Returns the rejection of an unauthenticated request; else sets the principal.
  std::function<std::optional<HttpResponse>(const HttpRequest&, PrincipalPtr*)> rejection;
  std::function<std::optional<HttpResponse>(const HttpRequest&)> worker_only;
};

class PeerSnapshotRoutes {
 public:
  // All of `deps` must outlive the object; the object must outlive servers that use its router.
  explicit PeerSnapshotRoutes(PeerSnapshotRoutesDeps deps) : deps_(std::move(deps)) {}

  void add_to(HttpRouter& router);

 private:
  Task<HttpResponse> list(Context context, HttpRequest request);
  Task<HttpResponse> build(Context context, HttpRequest request);
  Task<HttpResponse> remove(Context context, HttpRequest request);
  Task<HttpResponse> hold(Context context, HttpRequest request);
  Task<HttpResponse> file(Context context, HttpRequest request);

  HttpResponse failure(const Status& why) const;
  std::optional<HttpResponse> missing() const;

  const PeerSnapshotRoutesDeps deps_;
};

}  // namespace leat
