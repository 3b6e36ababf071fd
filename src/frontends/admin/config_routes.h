// SPDX-License-Identifier: Apache-2.0
// ConfigRoutes: HTTP routes that list and reload the daemon's options.
#pragma once

#include "frontends/admin/daemon_api.h"
#include "http/router.h"

namespace leat {

class ConfigRoutes {
 public:
  explicit ConfigRoutes(DaemonApi& daemon) : daemon_(daemon) {}
  // The object must outlive the router.
  void add_to(HttpRouter& router);

 private:
  Task<HttpResponse> list(Context context, HttpRequest request);
  Task<HttpResponse> reload(Context context, HttpRequest request);

  DaemonApi& daemon_;
};

}  // namespace leat
