// SPDX-License-Identifier: Apache-2.0
// AdminDoor: the control socket and the metrics address, as routes. The socket's file mode is its
// authentication; the metrics routes may be read by anyone on this host.
#pragma once

#include "cache/page_store.h"
#include "catalog/catalog.h"
#include "doors/admin/cache_routes.h"
#include "doors/admin/cluster_routes.h"
#include "doors/admin/config_routes.h"
#include "doors/admin/host.h"
#include "doors/admin/mount_routes.h"
#include "doors/admin/snapshot_routes.h"
#include "doors/admin/tree_routes.h"
#include "fetch/fetcher.h"
#include "http/router.h"

namespace leat {

class AdminDoor {
 public:
  // All of them outlive the servers that use the routers.
  AdminDoor(Host& host, ClusterHost& cluster, Catalog& catalog, Fetcher& fetcher, PageStore* store)
      : host_(host),
        cluster_(cluster),
        mounts_(host),
        tree_(host, catalog, fetcher, store),
        cache_(host),
        snapshots_(host),
        config_(host) {}

  // Everything: /v1/…, /metrics, /healthz. The door outlives the router's use.
  HttpRouter control_router();
  // /metrics and /healthz alone, for whoever is on this host.
  static HttpRouter metrics_router();

 private:
  Task<HttpResponse> status(Context context, HttpRequest request);
  Task<HttpResponse> history(Context context, HttpRequest request);
  Task<HttpResponse> findings(Context context, HttpRequest request);
  Task<HttpResponse> errors(Context context, HttpRequest request);
  Task<HttpResponse> shut_down(Context context, HttpRequest request);
  Task<HttpResponse> upgrade(Context context, HttpRequest request);
  Task<HttpResponse> start_job(Context context, HttpRequest request);
  Task<HttpResponse> list_jobs(Context context, HttpRequest request);
  Task<HttpResponse> show_job(Context context, HttpRequest request);
  Task<HttpResponse> cancel_job(Context context, HttpRequest request);

  Host& host_;
  ClusterRoutes cluster_;
  MountRoutes mounts_;
  TreeRoutes tree_;
  CacheRoutes cache_;
  SnapshotRoutes snapshots_;
  ConfigRoutes config_;
};

}  // namespace leat
