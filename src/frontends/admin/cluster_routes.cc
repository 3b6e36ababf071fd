// SPDX-License-Identifier: Apache-2.0
#include "frontends/admin/cluster_routes.h"

#include "frontends/admin/codec_cluster.h"
#include "frontends/admin/request_body.h"

namespace leat {

void ClusterRoutes::add_to(HttpRouter& router) {
  router.add("GET", "/v1/cluster", this, &ClusterRoutes::status);
  router.add("POST", "/v1/cluster/mounts", this, &ClusterRoutes::mount);
  router.add("DELETE", "/v1/cluster/mounts", this, &ClusterRoutes::unmount);
  router.add("POST", "/v1/cluster/drain", this, &ClusterRoutes::drain);
  router.add("GET", "/v1/cluster/snapshots", this, &ClusterRoutes::list_snapshots);
  router.add("DELETE", "/v1/cluster/snapshots", this, &ClusterRoutes::remove_snapshot);
  router.add("GET", "/v1/cluster/jobs", this, &ClusterRoutes::list_jobs);
  router.add("POST", "/v1/cluster/jobs", this, &ClusterRoutes::start_job);
  router.add("GET", "/v1/cluster/jobs/{id}", this, &ClusterRoutes::show_job);
  router.add("DELETE", "/v1/cluster/jobs/{id}", this, &ClusterRoutes::cancel_job);
}

Task<HttpResponse> ClusterRoutes::status(Context, HttpRequest) {
  Result<ClusterStatusView> status = co_await cluster_.cluster_status();
  if (!status) co_return error_response(status.error());
  co_return HttpResponse::json(200, dump_json(to_json(*status)));
}

Task<HttpResponse> ClusterRoutes::mount(Context context, HttpRequest request) {
  Result<ClusterMountRequest> wanted = body_of(request, &ClusterMountRequest::path);
  if (!wanted) co_return error_response(wanted.error());
  Result<ClusterMountView> mount =
      co_await cluster_.add_cluster_mount(std::move(context), *std::move(wanted));
  if (!mount) co_return error_response(mount.error());
  co_return HttpResponse::json(200, dump_json(to_json(*mount)));
}

Task<HttpResponse> ClusterRoutes::unmount(Context context, HttpRequest request) {
  Result<std::string> path = normalise_path(request.query["path"]);
  if (!path) co_return error_response(path.error());
  Result<> gone = co_await cluster_.remove_cluster_mount(std::move(context), *std::move(path));
  if (!gone) co_return error_response(gone.error());
  co_return HttpResponse::json(200, "{}");
}

Task<HttpResponse> ClusterRoutes::drain(Context context, HttpRequest request) {
  Result<Json> json = parse_json(request.body, "the request's body");
  if (!json) co_return error_response(json.error());
  Result<ClusterDrainRequest> wanted = from_json<ClusterDrainRequest>(*json);
  if (!wanted) co_return error_response(wanted.error());
  Result<> drained = co_await cluster_.drain_worker(std::move(context), *wanted);
  if (!drained) co_return error_response(drained.error());
  co_return HttpResponse::json(200, "{}");
}

Task<HttpResponse> ClusterRoutes::list_snapshots(Context context, HttpRequest request) {
  Result<std::string> path = normalise_path(request.query["path"]);
  if (!path) co_return error_response(path.error());
  Result<std::vector<SnapshotView>> all =
      co_await cluster_.cluster_snapshots(std::move(context), *std::move(path));
  if (!all) co_return error_response(all.error());
  Json list = Json::array();
  for (const SnapshotView& snapshot : *all) list.push_back(to_json(snapshot));
  co_return HttpResponse::json(200, dump_json({{"snapshots", list}}));
}

Task<HttpResponse> ClusterRoutes::remove_snapshot(Context context, HttpRequest request) {
  Result<std::string> path = normalise_path(request.query["path"]);
  if (!path) co_return error_response(path.error());
  Result<> removed = co_await cluster_.remove_cluster_snapshot(std::move(context), *std::move(path),
                                                               request.query["name"]);
  if (!removed) co_return error_response(removed.error());
  co_return HttpResponse::json(200, "{}");
}

// --- jobs ----------------------------------------------------------------------------------------

Task<HttpResponse> ClusterRoutes::start_job(Context context, HttpRequest request) {
  Result<Json> json = parse_json(request.body, "the request's body");
  if (!json) co_return error_response(json.error());
  Result<ClusterJobRequest> wanted = from_json<ClusterJobRequest>(*json);
  if (!wanted) co_return error_response(wanted.error());
  Result<ClusterJobView> job =
      co_await cluster_.start_cluster_job(std::move(context), *std::move(wanted));
  if (!job) co_return error_response(job.error());
  co_return HttpResponse::json(202, dump_json(to_json(*job)));
}

Task<HttpResponse> ClusterRoutes::list_jobs(Context context, HttpRequest) {
  Result<std::vector<ClusterJobView>> jobs = co_await cluster_.cluster_jobs(std::move(context));
  if (!jobs) co_return error_response(jobs.error());
  Json list = Json::array();
  for (const ClusterJobView& job : *jobs) list.push_back(to_json(job));
  co_return HttpResponse::json(200, dump_json({{"jobs", list}}));
}

Task<HttpResponse> ClusterRoutes::show_job(Context context, HttpRequest request) {
  Result<uint64_t> id = job_number_of(request);
  if (!id) co_return error_response(id.error());
  Result<ClusterJobView> job = co_await cluster_.cluster_job(std::move(context), *id);
  if (!job) co_return error_response(job.error());
  co_return HttpResponse::json(200, dump_json(to_json(*job)));
}

Task<HttpResponse> ClusterRoutes::cancel_job(Context context, HttpRequest request) {
  Result<uint64_t> id = job_number_of(request);
  if (!id) co_return error_response(id.error());
  Result<ClusterJobView> job = co_await cluster_.cancel_cluster_job(std::move(context), *id);
  if (!job) co_return error_response(job.error());
  co_return HttpResponse::json(200, dump_json(to_json(*job)));
}

}  // namespace leat
