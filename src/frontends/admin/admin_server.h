// SPDX-License-Identifier: Apache-2.0
// AdminServer: HTTP routes of the control socket and of the metrics address. The socket's file mode
// is its authentication; the metrics routes are open to all programs of this host.
#pragma once

#include "cache/page_store.h"
#include "catalog/catalog.h"
#include "fetch/fetcher.h"
#include "frontends/admin/cache_routes.h"
#include "frontends/admin/cluster_routes.h"
#include "frontends/admin/config_routes.h"
#include "frontends/admin/daemon_api.h"
#include "frontends/admin/mount_routes.h"
#include "frontends/admin/snapshot_routes.h"
#include "frontends/admin/tree_routes.h"
#include "http/router.h"

namespace leat {

class AdminServer {
 public:
  // All arguments must outlive the servers that use the routers.
  AdminServer(DaemonApi& daemon, ClusterApi& cluster, Catalog& catalog, Fetcher& fetcher,
              PageStore* store)
      : daemon_(daemon),
        cluster_(cluster),
        mounts_(daemon),
        tree_(daemon, catalog, fetcher, store),
        cache_(daemon),
        snapshots_(daemon),
        config_(daemon) {}

  // Returns all routes: /v1/…, /metrics, /healthz. The object must outlive the router.
  HttpRouter control_router();
  // Returns only /metrics and /healthz, for all programs of this host.
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

  DaemonApi& daemon_;
  ClusterRoutes cluster_;
  MountRoutes mounts_;
  TreeRoutes tree_;
  CacheRoutes cache_;
  SnapshotRoutes snapshots_;
  ConfigRoutes config_;
};

}  // namespace leat
