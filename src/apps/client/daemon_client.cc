// SPDX-License-Identifier: Apache-2.0
#include "apps/client/daemon_client.h"

#include <fmt/format.h>

#include "apps/paths.h"

namespace leat {
namespace {

// Longer than anything the daemon does before it answers: a mount's probe has its own deadline.
constexpr auto kPatience = std::chrono::minutes(3);

HttpRequest make_request(std::string method, std::string path, Query query) {
  HttpRequest request{.method = std::move(method), .path = std::move(path)};
  request.query = std::move(query);
  return request;
}

}  // namespace

DaemonClient::DaemonClient(std::string runtime)
    : runtime_(std::move(runtime)), http_(HttpEndpoint::unix_socket(control_socket(runtime_))) {}

bool DaemonClient::running() {
  auto context = Context::background().with_timeout(std::chrono::seconds(10));
  auto answer = executor_.wait(http_.request(context, make_request("GET", "/healthz", {})));
  return answer && answer->status == 200;
}

Attempt<Json> DaemonClient::get(std::string path, Query query) {
  return ask(make_request("GET", std::move(path), std::move(query)));
}

Attempt<Json> DaemonClient::post(std::string path, const Json& body) {
  HttpRequest request = make_request("POST", std::move(path), {});
  request.headers.set("Content-Type", "application/json");
  request.body = dump_json(body);
  return ask(std::move(request));
}

Attempt<> DaemonClient::remove(std::string path, Query query) {
  LEAT_TRY([[maybe_unused]] Json answer,
           ask(make_request("DELETE", std::move(path), std::move(query))));
  return {};
}

Attempt<> DaemonClient::stream(std::string path, Query query, BodySink sink) {
  HttpRequest request = make_request("GET", std::move(path), std::move(query));
  auto answer = executor_.wait(
      http_.request_streamed(Context::background(), std::move(request), std::move(sink)));
  if (!answer) return std::unexpected(explain(answer.error()));
  if (answer->status / 100 != 2) return std::unexpected(Failure(status_of(*answer)));
  return {};
}

Attempt<Json> DaemonClient::ask(HttpRequest request) {
  auto context = Context::background().with_timeout(kPatience);
  auto answer = executor_.wait(http_.request(context, std::move(request)));
  if (!answer) return std::unexpected(explain(answer.error()));
  if (answer->status / 100 != 2) return std::unexpected(Failure(status_of(*answer)));
  LEAT_TRY(Json json, parse_json(answer->body, "the daemon's answer"));
  return json;
}

// Nobody listening is the one failure that a user can mend without knowing the reason.
Failure DaemonClient::explain(Status status) const {
  if (status.code() != StatusCode::kUnavailable ||
      !status.message().starts_with("cannot connect")) {
    return status;
  }
  return {Status(StatusCode::kUnavailable,
                 fmt::format("no daemon runs at {}; 'leat mount SOURCE DIR' starts one, "
                             "LEAT_RUNTIME_DIR names another",
                             runtime_)),
          ExitCode::kNoDaemon};
}

}  // namespace leat
