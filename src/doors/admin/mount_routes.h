// SPDX-License-Identifier: Apache-2.0
// MountRoutes: HTTP routes of the mount table. Private to this module.
#pragma once

#include "doors/admin/codec.h"
#include "http/router.h"

namespace leat {

class MountRoutes {
 public:
  // The host must outlive the routes.
  explicit MountRoutes(Host& host) : host_(host) {}

  void add_to(HttpRouter& router);

 private:
  Task<HttpResponse> list(Context context, HttpRequest request);
  Task<HttpResponse> mount(Context context, HttpRequest request);
  Task<HttpResponse> unmount(Context context, HttpRequest request);
  Task<HttpResponse> change(Context context, HttpRequest request);
  Task<HttpResponse> move(Context context, HttpRequest request);

  Host& host_;
};

}  // namespace leat
