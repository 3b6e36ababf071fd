// SPDX-License-Identifier: Apache-2.0
// MountRoutes: HTTP routes of the mount table. Private to this module.
#pragma once

#include "frontends/admin/codec.h"
#include "http/router.h"

namespace leat {

class MountRoutes {
 public:
  // The daemon must outlive the routes.
  explicit MountRoutes(DaemonApi& daemon) : daemon_(daemon) {}

  void add_to(HttpRouter& router);

 private:
  Task<HttpResponse> list(Context context, HttpRequest request);
  Task<HttpResponse> mount(Context context, HttpRequest request);
  Task<HttpResponse> unmount(Context context, HttpRequest request);
  Task<HttpResponse> change(Context context, HttpRequest request);
  Task<HttpResponse> move(Context context, HttpRequest request);
  Task<HttpResponse> flush(Context context, HttpRequest request);

  DaemonApi& daemon_;
};

}  // namespace leat
