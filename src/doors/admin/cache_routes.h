// SPDX-License-Identifier: Apache-2.0
// CacheRoutes: HTTP routes that list the cached objects and evict some. Private to this module.
#pragma once

#include "doors/admin/codec.h"
#include "http/router.h"

namespace leat {

class CacheRoutes {
 public:
  // The host must outlive the routes.
  explicit CacheRoutes(Host& host) : host_(host) {}

  void add_to(HttpRouter& router);

 private:
  Task<HttpResponse> list(Context context, HttpRequest request);
  Task<HttpResponse> evict(Context context, HttpRequest request);

  Host& host_;
};

}  // namespace leat
