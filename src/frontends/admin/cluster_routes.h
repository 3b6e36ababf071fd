// SPDX-License-Identifier: Apache-2.0
// Control socket routes of a worker's cluster: /v1/cluster and below. Private to this module.
#pragma once

#include "frontends/admin/cluster_api.h"
#include "http/router.h"

namespace leat {

class ClusterRoutes {
 public:
  explicit ClusterRoutes(ClusterApi& cluster) : cluster_(cluster) {}

  void add_to(HttpRouter& router);

 private:
  Task<HttpResponse> status(Context context, HttpRequest request);
  Task<HttpResponse> mount(Context context, HttpRequest request);
  Task<HttpResponse> unmount(Context context, HttpRequest request);
  Task<HttpResponse> drain(Context context, HttpRequest request);
  Task<HttpResponse> list_snapshots(Context context, HttpRequest request);
  Task<HttpResponse> remove_snapshot(Context context, HttpRequest request);
  Task<HttpResponse> start_job(Context context, HttpRequest request);
  Task<HttpResponse> list_jobs(Context context, HttpRequest request);
  Task<HttpResponse> show_job(Context context, HttpRequest request);
  Task<HttpResponse> cancel_job(Context context, HttpRequest request);

  ClusterApi& cluster_;
};

}  // namespace leat
