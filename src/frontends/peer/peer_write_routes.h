// SPDX-License-Identifier: Apache-2.0
// PeerWriteRoutes: HTTP routes of changes of stores (docs/formats/peer-protocol.md). Each path that
// a request changes needs the right to write there. Private to this module.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "auth/request_verifier.h"
#include "cluster/cluster_view.h"
#include "http/router.h"
#include "peer/writing/write_peer.h"

namespace leat {

struct PeerWriteRoutesDeps {
  WritePeer* writes = nullptr;  // null: this worker takes no writes
  ClusterViewSource& views;
  // Returns the rejection of an unauthenticated request; else sets the principal.
  std::function<std::optional<HttpResponse>(const HttpRequest&, PrincipalPtr*)> rejection;
  // Returns the rejection of a principal without that right on a path of the namespace.
  std::function<std::optional<HttpResponse>(const HttpRequest&, const Principal&,
                                            const std::string&, Right)>
      missing_right;
};

class PeerWriteRoutes {
 public:
  // All of `deps` must outlive the object; the object must outlive servers that use its router.
  explicit PeerWriteRoutes(PeerWriteRoutesDeps deps) : deps_(std::move(deps)) {}

  void add_to(HttpRouter& router);

 private:
  Task<HttpResponse> write(Context context, HttpRequest request);
  Task<HttpResponse> change(Context context, HttpRequest request);

  HttpResponse failure(const Status& why) const;
  HttpResponse answer(const PeerReply<SourceObject>& reply) const;
  // Returns the path of a key in the namespace; that of the mount if the key is not below it.
  std::string path_of(const std::string& mount, std::string_view key) const;

  const PeerWriteRoutesDeps deps_;
};

}  // namespace leat
