// SPDX-License-Identifier: Apache-2.0
// ConfigRoutes: HTTP routes that list and reload the daemon's options.
#pragma once

#include "doors/admin/host.h"
#include "http/router.h"

namespace leat {

class ConfigRoutes {
 public:
  explicit ConfigRoutes(Host& host) : host_(host) {}
  // The object must outlive the router.
  void add_to(HttpRouter& router);

 private:
  Task<HttpResponse> list(Context context, HttpRequest request);
  Task<HttpResponse> reload(Context context, HttpRequest request);

  Host& host_;
};

}  // namespace leat
