// SPDX-License-Identifier: Apache-2.0
#include "doors/admin/admin_door.h"

#include <fmt/format.h>

#include "doors/admin/request_body.h"
#include "doors/admin/trace_routes.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// As many as each mount keeps (vfs/error_memory.h).
constexpr size_t kErrorsMax = 1000;

template <class T>
HttpResponse answer(int status, const T& value) {
  return HttpResponse::json(status, dump_json(to_json(value)));
}

Task<HttpResponse> metrics(Context, HttpRequest) {
  HttpResponse response = HttpResponse::text(200, metrics_text());
  response.headers.set("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
  co_return response;
}

Task<HttpResponse> healthy(Context, HttpRequest) {
  co_return HttpResponse::text(200, "ok\n");
}

void add_public_routes(HttpRouter& router) {
  router.add("GET", "/metrics", &metrics);
  router.add("GET", "/healthz", &healthy);
}

}  // namespace

HttpRouter AdminDoor::control_router() {
  HttpRouter router;
  add_public_routes(router);
  router.add("GET", "/v1/status", this, &AdminDoor::status);
  router.add("GET", "/v1/history", this, &AdminDoor::history);
  router.add("GET", "/v1/findings", this, &AdminDoor::findings);
  router.add("GET", "/v1/errors", this, &AdminDoor::errors);
  router.add("GET", "/v1/jobs", this, &AdminDoor::list_jobs);
  router.add("POST", "/v1/jobs", this, &AdminDoor::start_job);
  router.add("GET", "/v1/jobs/{id}", this, &AdminDoor::show_job);
  router.add("DELETE", "/v1/jobs/{id}", this, &AdminDoor::cancel_job);
  router.add("POST", "/v1/shutdown", this, &AdminDoor::shut_down);
  router.add("POST", "/v1/upgrade", this, &AdminDoor::upgrade);
  mounts_.add_to(router);
  tree_.add_to(router);
  cache_.add_to(router);
  snapshots_.add_to(router);
  config_.add_to(router);
  cluster_.add_to(router);
  add_trace_routes(router);
  return router;
}

HttpRouter AdminDoor::metrics_router() {
  HttpRouter router;
  add_public_routes(router);
  return router;
}

Task<HttpResponse> AdminDoor::status(Context, HttpRequest) {
  co_return answer(200, host_.status());
}

Task<HttpResponse> AdminDoor::history(Context, HttpRequest) {
  co_return answer(200, host_.history());
}

Task<HttpResponse> AdminDoor::findings(Context, HttpRequest) {
  Json list = Json::array();
  for (const Finding& finding : host_.findings()) list.push_back(to_json(finding));
  co_return HttpResponse::json(200, dump_json({{"findings", list}}));
}

Task<HttpResponse> AdminDoor::errors(Context, HttpRequest) {
  Json list = Json::array();
  for (const ErrorView& failed : host_.errors()) {
    if (list.size() == kErrorsMax) break;
    list.push_back(to_json(failed));
  }
  co_return HttpResponse::json(200, dump_json({{"errors", list}}));
}

Task<HttpResponse> AdminDoor::start_job(Context, HttpRequest request) {
  Result<JobRequest> wanted = body_of(request, &JobRequest::path);
  if (!wanted) co_return error_response(wanted.error());
  Result<JobView> job = host_.start_job(std::move(*wanted));
  if (!job) co_return error_response(job.error());
  co_return answer(202, *job);
}

Task<HttpResponse> AdminDoor::list_jobs(Context, HttpRequest) {
  Json list = Json::array();
  for (const JobView& job : host_.jobs()) list.push_back(to_json(job));
  co_return HttpResponse::json(200, dump_json({{"jobs", list}}));
}

Task<HttpResponse> AdminDoor::show_job(Context, HttpRequest request) {
  Result<uint64_t> id = job_number_of(request);
  if (!id) co_return error_response(id.error());
  Result<JobView> job = host_.job(*id);
  if (!job) co_return error_response(job.error());
  co_return answer(200, *job);
}

Task<HttpResponse> AdminDoor::cancel_job(Context, HttpRequest request) {
  Result<uint64_t> id = job_number_of(request);
  if (!id) co_return error_response(id.error());
  Result<JobView> cancelled = host_.cancel_job(*id);
  if (!cancelled) co_return error_response(cancelled.error());
  co_return answer(200, *cancelled);
}

Task<HttpResponse> AdminDoor::shut_down(Context, HttpRequest) {
  host_.shut_down();
  co_return HttpResponse::json(202, "{}");
}

Task<HttpResponse> AdminDoor::upgrade(Context, HttpRequest request) {
  Result<Json> body = parse_json(request.body, "the request's body");
  if (!body) co_return error_response(body.error());
  Result<UpgradeRequest> wanted = from_json<UpgradeRequest>(*body);
  if (!wanted) co_return error_response(wanted.error());
  Result<> begun = host_.upgrade(*std::move(wanted));
  if (!begun) co_return error_response(begun.error());
  co_return HttpResponse::json(202, "{}");
}

}  // namespace leat
