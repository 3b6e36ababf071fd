// SPDX-License-Identifier: Apache-2.0
// SnapshotRoutes: HTTP routes of the host's snapshots. Private to this module.
#pragma once

#include "frontends/admin/codec.h"
#include "http/router.h"

namespace leat {

class SnapshotRoutes {
 public:
  // The daemon must outlive the routes.
  explicit SnapshotRoutes(DaemonApi& daemon) : daemon_(daemon) {}

  void add_to(HttpRouter& router);

 private:
  Task<HttpResponse> list(Context context, HttpRequest request);
  Task<HttpResponse> use(Context context, HttpRequest request);
  Task<HttpResponse> remove(Context context, HttpRequest request);

  DaemonApi& daemon_;
};

}  // namespace leat
