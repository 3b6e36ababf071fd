// SPDX-License-Identifier: Apache-2.0
// PeerStagingRoutes: HTTP routes of staged changes, for workers only
// (docs/formats/peer-protocol.md). Private to this module.
#pragma once

#include <functional>
#include <optional>

#include "cluster/cluster_view.h"
#include "http/router.h"
#include "peer/staging/staging_peer.h"

namespace leat {

struct PeerStagingRoutesDeps {
  StagingPeer* staging = nullptr;  // null: this worker keeps no staged changes
  ClusterViewSource& views;
  // Returns the rejection of a request that is not a worker's.
  std::function<std::optional<HttpResponse>(const HttpRequest&)> worker_only;
};

class PeerStagingRoutes {
 public:
  // All of `deps` must outlive the object; the object must outlive servers that use its router.
  explicit PeerStagingRoutes(PeerStagingRoutesDeps deps) : deps_(std::move(deps)) {}

  void add_to(HttpRouter& router);

 private:
  Task<HttpResponse> append(Context context, HttpRequest request);
  Task<HttpResponse> events(Context context, HttpRequest request);
  Task<HttpResponse> wait(Context context, HttpRequest request);
  Task<HttpResponse> replicate(Context context, HttpRequest request);
  Task<HttpResponse> put_content(Context context, HttpRequest request);
  Task<HttpResponse> drop_content(Context context, HttpRequest request);
  Task<HttpResponse> read_content(Context context, HttpRequest request);
  Task<HttpResponse> send(Context context, HttpRequest request);

  std::optional<HttpResponse> rejection(const HttpRequest& request) const;
  HttpResponse failure(const Status& why) const;
  template <class T>
  HttpResponse answer(const PeerReply<T>& reply, std::string (*encode)(const T&)) const;

  const PeerStagingRoutesDeps deps_;
};

}  // namespace leat
