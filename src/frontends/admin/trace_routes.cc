// SPDX-License-Identifier: Apache-2.0
#include "frontends/admin/trace_routes.h"

#include <fmt/format.h>

#include <charconv>

#include "frontends/admin/trace_view.h"
#include "http/json_fields.h"

namespace leat {
namespace {

Error no_such_trace(const std::string& id) {
  return error(StatusCode::kNotFound, fmt::format("there is no trace {}", id));
}

uint64_t id_of(const HttpRequest& request) {
  const std::string& text = request.params.at("id");
  uint64_t id = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), id);
  return failed == std::errc() && end == text.data() + text.size() ? id : 0;
}

Task<HttpResponse> slow(Context, HttpRequest) {
  Json list = Json::array();
  for (const SlowOperation& operation : slow_log().operations()) {
    list.push_back(to_json(view_of(operation)));
  }
  co_return HttpResponse::json(200, dump_json({{"operations", list}}));
}

Task<HttpResponse> begin(Context, HttpRequest request) {
  Result<Json> body = parse_json(request.body, "the request's body");
  if (!body) co_return error_response(body.error());
  std::string path;
  if (body->is_object()) get_bytes(*body, "path", path);
  if (!path.starts_with('/')) {
    co_return error_response(
        Status(StatusCode::kInvalidArgument, "a trace needs the absolute path of a file"));
  }
  const uint64_t id = trace_registry().subscribe(std::move(path));
  co_return HttpResponse::json(201, dump_json(to_json(TraceView{.id = id})));
}

Task<HttpResponse> show(Context, HttpRequest request) {
  TraceView view{.id = id_of(request)};
  const auto requests = trace_registry().requests(view.id);
  if (!requests) co_return error_response(no_such_trace(request.params.at("id")).error());
  for (const TracedRequest& traced : *requests) view.requests.push_back(view_of(traced));
  co_return HttpResponse::json(200, dump_json(to_json(view)));
}

Task<HttpResponse> end(Context, HttpRequest request) {
  if (!trace_registry().unsubscribe(id_of(request))) {
    co_return error_response(no_such_trace(request.params.at("id")).error());
  }
  co_return HttpResponse::json(200, "{}");
}

}  // namespace

void add_trace_routes(HttpRouter& router) {
  router.add("GET", "/v1/slow", &slow);
  router.add("POST", "/v1/traces", &begin);
  router.add("GET", "/v1/traces/{id}", &show);
  router.add("DELETE", "/v1/traces/{id}", &end);
}

}  // namespace leat
