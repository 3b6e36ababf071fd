// SPDX-License-Identifier: Apache-2.0
#include "frontends/admin/admin_server.h"

#include <fmt/format.h>

#include "frontends/admin/request_body.h"
#include "frontends/admin/trace_routes.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// As many as each mount keeps (vfs/recent_errors.h).
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

HttpRouter AdminServer::control_router() {
  HttpRouter router;
  add_public_routes(router);
  router.add("GET", "/v1/status", this, &AdminServer::status);
  router.add("GET", "/v1/history", this, &AdminServer::history);
  router.add("GET", "/v1/findings", this, &AdminServer::findings);
  router.add("GET", "/v1/errors", this, &AdminServer::errors);
  router.add("GET", "/v1/jobs", this, &AdminServer::list_jobs);
  router.add("POST", "/v1/jobs", this, &AdminServer::start_job);
  router.add("GET", "/v1/jobs/{id}", this, &AdminServer::show_job);
  router.add("DELETE", "/v1/jobs/{id}", this, &AdminServer::cancel_job);
  router.add("POST", "/v1/shutdown", this, &AdminServer::shut_down);
  router.add("POST", "/v1/upgrade", this, &AdminServer::upgrade);
  mounts_.add_to(router);
  tree_.add_to(router);
  cache_.add_to(router);
  snapshots_.add_to(router);
  config_.add_to(router);
  cluster_.add_to(router);
  add_trace_routes(router);
  return router;
}

HttpRouter AdminServer::metrics_router() {
  HttpRouter router;
  add_public_routes(router);
  return router;
}

Task<HttpResponse> AdminServer::status(Context, HttpRequest) {
  co_return answer(200, daemon_.status());
}

Task<HttpResponse> AdminServer::history(Context, HttpRequest) {
  co_return answer(200, daemon_.history());
}

Task<HttpResponse> AdminServer::findings(Context, HttpRequest) {
  Json list = Json::array();
  for (const Finding& finding : daemon_.findings()) list.push_back(to_json(finding));
  co_return HttpResponse::json(200, dump_json({{"findings", list}}));
}

Task<HttpResponse> AdminServer::errors(Context, HttpRequest) {
  Json list = Json::array();
  for (const ErrorView& failed : daemon_.errors()) {
    if (list.size() == kErrorsMax) break;
    list.push_back(to_json(failed));
  }
  co_return HttpResponse::json(200, dump_json({{"errors", list}}));
}

Task<HttpResponse> AdminServer::start_job(Context, HttpRequest request) {
  Result<JobRequest> wanted = body_of(request, &JobRequest::path);
  if (!wanted) co_return error_response(wanted.error());
  Result<JobView> job = daemon_.start_job(std::move(*wanted));
  if (!job) co_return error_response(job.error());
  co_return answer(202, *job);
}

Task<HttpResponse> AdminServer::list_jobs(Context, HttpRequest) {
  Json list = Json::array();
  for (const JobView& job : daemon_.jobs()) list.push_back(to_json(job));
  co_return HttpResponse::json(200, dump_json({{"jobs", list}}));
}

Task<HttpResponse> AdminServer::show_job(Context, HttpRequest request) {
  Result<uint64_t> id = job_number_of(request);
  if (!id) co_return error_response(id.error());
  Result<JobView> job = daemon_.job(*id);
  if (!job) co_return error_response(job.error());
  co_return answer(200, *job);
}

Task<HttpResponse> AdminServer::cancel_job(Context, HttpRequest request) {
  Result<uint64_t> id = job_number_of(request);
  if (!id) co_return error_response(id.error());
  Result<JobView> cancelled = daemon_.cancel_job(*id);
  if (!cancelled) co_return error_response(cancelled.error());
  co_return answer(200, *cancelled);
}

Task<HttpResponse> AdminServer::shut_down(Context, HttpRequest) {
  daemon_.shut_down();
  co_return HttpResponse::json(202, "{}");
}

Task<HttpResponse> AdminServer::upgrade(Context, HttpRequest request) {
  Result<Json> body = parse_json(request.body, "the request's body");
  if (!body) co_return error_response(body.error());
  Result<UpgradeRequest> wanted = from_json<UpgradeRequest>(*body);
  if (!wanted) co_return error_response(wanted.error());
  Result<> begun = daemon_.upgrade(*std::move(wanted));
  if (!begun) co_return error_response(begun.error());
  co_return HttpResponse::json(202, "{}");
}

}  // namespace leat
