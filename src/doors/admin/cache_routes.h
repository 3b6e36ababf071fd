// SPDX-License-Identifier: Apache-2.0
// CacheRoutes: the cache over HTTP: what is there, and that some of it goes. Private to this room.
#pragma once

#include "doors/admin/codec.h"
#include "http/router.h"

namespace leat {

class CacheRoutes {
 public:
  // The host outlives the routes.
  explicit CacheRoutes(Host& host) : host_(host) {}

  void add_to(HttpRouter& router);

 private:
  Task<HttpResponse> list(Context context, HttpRequest request);
  Task<HttpResponse> evict(Context context, HttpRequest request);

  Host& host_;
};

}  // namespace leat
