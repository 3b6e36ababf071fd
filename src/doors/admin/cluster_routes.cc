// SPDX-License-Identifier: Apache-2.0
#include "doors/admin/cluster_routes.h"

#include "doors/admin/codec_cluster.h"
#include "doors/admin/request_body.h"

namespace leat {

void ClusterRoutes::add_to(HttpRouter& router) {
  router.add("GET", "/v1/cluster", [this](Context context, HttpRequest request) {
    return status(std::move(context), std::move(request));
  });
  router.add("POST", "/v1/cluster/mounts", [this](Context context, HttpRequest request) {
    return mount(std::move(context), std::move(request));
  });
  router.add("DELETE", "/v1/cluster/mounts", [this](Context context, HttpRequest request) {
    return unmount(std::move(context), std::move(request));
  });
  router.add("POST", "/v1/cluster/drain", [this](Context context, HttpRequest request) {
    return drain(std::move(context), std::move(request));
  });
}

Task<HttpResponse> ClusterRoutes::status(Context, HttpRequest) {
  Result<ClusterStatusView> status = host_.cluster_status();
  if (!status) co_return error_response(status.error());
  co_return HttpResponse::json(200, dump_json(to_json(*status)));
}

Task<HttpResponse> ClusterRoutes::mount(Context context, HttpRequest request) {
  Result<ClusterMountRequest> wanted = body_of(request, &ClusterMountRequest::path);
  if (!wanted) co_return error_response(wanted.error());
  Result<ClusterMountView> mount =
      co_await host_.add_cluster_mount(std::move(context), *std::move(wanted));
  if (!mount) co_return error_response(mount.error());
  co_return HttpResponse::json(200, dump_json(to_json(*mount)));
}

Task<HttpResponse> ClusterRoutes::unmount(Context context, HttpRequest request) {
  Result<std::string> path = normalise_path(request.query["path"]);
  if (!path) co_return error_response(path.error());
  Result<> gone = co_await host_.remove_cluster_mount(std::move(context), *std::move(path));
  if (!gone) co_return error_response(gone.error());
  co_return HttpResponse::json(200, "{}");
}

Task<HttpResponse> ClusterRoutes::drain(Context context, HttpRequest request) {
  Result<Json> json = parse_json(request.body, "the request's body");
  if (!json) co_return error_response(json.error());
  Result<ClusterDrainRequest> wanted = from_json<ClusterDrainRequest>(*json);
  if (!wanted) co_return error_response(wanted.error());
  Result<> drained = co_await host_.drain_worker(std::move(context), *wanted);
  if (!drained) co_return error_response(drained.error());
  co_return HttpResponse::json(200, "{}");
}

}  // namespace leat
