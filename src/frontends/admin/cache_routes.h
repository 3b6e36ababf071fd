// SPDX-License-Identifier: Apache-2.0
// CacheRoutes: HTTP routes that list the cached objects and evict some. Private to this module.
#pragma once

#include "frontends/admin/codec.h"
#include "http/router.h"

namespace leat {

class CacheRoutes {
 public:
  // The daemon must outlive the routes.
  explicit CacheRoutes(DaemonApi& daemon) : daemon_(daemon) {}

  void add_to(HttpRouter& router);

 private:
  Task<HttpResponse> list(Context context, HttpRequest request);
  Task<HttpResponse> evict(Context context, HttpRequest request);

  DaemonApi& daemon_;
};

}  // namespace leat
