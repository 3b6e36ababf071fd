// SPDX-License-Identifier: Apache-2.0
// SnapshotRoutes: the host's snapshots over HTTP. Private to this room.
#pragma once

#include "doors/admin/codec.h"
#include "http/router.h"

namespace leat {

class SnapshotRoutes {
 public:
  // The host outlives the routes.
  explicit SnapshotRoutes(Host& host) : host_(host) {}

  void add_to(HttpRouter& router);

 private:
  Task<HttpResponse> list(Context context, HttpRequest request);
  Task<HttpResponse> use(Context context, HttpRequest request);
  Task<HttpResponse> remove(Context context, HttpRequest request);

  Host& host_;
};

}  // namespace leat
