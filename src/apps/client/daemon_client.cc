// SPDX-License-Identifier: Apache-2.0
#include "apps/client/daemon_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "apps/client/wait_note.h"
#include "apps/daemon/supervision.h"
#include "apps/paths.h"

namespace leat {
namespace {

// Longer than any request: a mount's probe has its own deadline, and a lookup waits for its store
// for io_timeout, 5 minutes by default.
constexpr auto kPatience = std::chrono::minutes(10);
constexpr auto kStatusAnswer = std::chrono::seconds(1);
// A start takes well under a second, or some seconds with millions of cached objects.
constexpr auto kSuccessorPatience = std::chrono::seconds(30);
constexpr auto kLookAgain = std::chrono::milliseconds(20);
// A running daemon responds to its status in milliseconds.
constexpr auto kAnswer = std::chrono::seconds(10);
constexpr auto kLastLook = std::chrono::milliseconds(500);

HttpRequest make_request(std::string method, std::string path, Query query) {
  HttpRequest request{.method = std::move(method), .path = std::move(path)};
  request.query = std::move(query);
  return request;
}

bool nobody_listens(const Status& status) {
  return status.code() == StatusCode::kUnavailable &&
         status.message().starts_with("cannot connect");
}

bool may_repeat(const HttpRequest& request, const Status& failed) {
  const bool lost = request.method == "GET" && failed.code() == StatusCode::kUnavailable;
  return lost || nobody_listens(failed);
}

}  // namespace

DaemonClient::DaemonClient(std::string runtime)
    : runtime_(std::move(runtime)), http_(HttpEndpoint::unix_socket(control_socket(runtime_))) {}

bool DaemonClient::running(Clock::duration patience) {
  if (!check_place()) return false;
  const Clock::time_point until = Clock::now() + patience;
  return answers(until) || successor_answers(until);
}

// Waits for a daemon that did not respond at first.
bool DaemonClient::successor_answers(Clock::time_point until) {
  const auto start = Clock::now();
  bool said = false;
  while (is_supervised(runtime_) && Clock::now() < until) {
    if (answers(until)) return true;
    if (!said && Clock::now() - start > std::chrono::seconds(2)) {
      said = true;
      note("waiting for the next daemon");
    }
    std::this_thread::sleep_for(kLookAgain);
  }
  // A successor may have started at this moment.
  return answers(until);
}

bool DaemonClient::answers(Clock::time_point until) {
  const Clock::duration left = std::max<Clock::duration>(until - Clock::now(), kLastLook);
  auto context = Context::background().with_timeout(std::min<Clock::duration>(left, kAnswer));
  auto answer = executor_.wait(http_.request(context, make_request("GET", "/healthz", {})));
  return answer && answer->status == 200;
}

Attempt<Json> DaemonClient::get(std::string path, Query query) {
  return ask(make_request("GET", std::move(path), std::move(query)));
}

std::optional<Json> DaemonClient::glance(std::string path, Clock::duration patience) {
  if (!check_place()) return std::nullopt;
  auto context = Context::background().with_timeout(patience);
  auto answer = executor_.wait(http_.request(context, make_request("GET", std::move(path), {})));
  if (!answer || answer->status != 200) return std::nullopt;
  Result<Json> json = parse_json(answer->body, "the daemon's answer");
  if (!json) return std::nullopt;
  return *std::move(json);
}

Attempt<Json> DaemonClient::post(std::string path, const Json& body) {
  HttpRequest request = make_request("POST", std::move(path), {});
  request.headers.set("Content-Type", "application/json");
  request.body = dump_json(body);
  return ask(std::move(request));
}

Attempt<Json> DaemonClient::remove(std::string path, Query query) {
  return ask(make_request("DELETE", std::move(path), std::move(query)));
}

Attempt<> DaemonClient::stream(std::string path, Query query, BodySink sink) {
  LEAT_CHECK_OK(check_place());
  HttpRequest request = make_request("GET", std::move(path), std::move(query));
  auto answer = executor_.wait(
      http_.request_streamed(Context::background(), std::move(request), std::move(sink)));
  if (!answer) return std::unexpected(explain(answer.error()));
  if (answer->status / 100 != 2) return std::unexpected(Failure(status_of(*answer)));
  return {};
}

Attempt<Json> DaemonClient::ask(HttpRequest request) {
  LEAT_CHECK_OK(check_place());
  const WaitNote waits([this] { return glance("/v1/status", kStatusAnswer); });
  auto context = Context::background().with_timeout(kPatience);
  auto answer = executor_.wait(http_.request(context, request));
  // Retry with the next daemon if the request did not reach this one, or changes nothing.
  if (!answer && may_repeat(request, answer.error()) &&
      successor_answers(Clock::now() + kSuccessorPatience)) {
    answer = executor_.wait(http_.request(context, std::move(request)));
  }
  if (!answer) return std::unexpected(explain(answer.error()));
  if (answer->status / 100 != 2) return std::unexpected(Failure(status_of(*answer)));
  LEAT_TRY(Json json, parse_json(answer->body, "the daemon's answer"));
  return json;
}

Attempt<> DaemonClient::check_place() const {
  Result<> checked = check_runtime_directory(runtime_);
  if (checked) return {};
  if (checked.error().code() == StatusCode::kNotFound) return std::unexpected(no_daemon());
  return std::unexpected(Failure(checked.error()));
}

// The only failure that a user can fix without knowing the cause.
Failure DaemonClient::no_daemon() const {
  return {Status(StatusCode::kUnavailable,
                 fmt::format("no daemon runs at {}; 'leat mount SOURCE DIR' starts one, "
                             "LEAT_RUNTIME_DIR names another",
                             runtime_)),
          ExitCode::kNoDaemon};
}

// Explains a request without a complete response.
Failure DaemonClient::explain(Status status) {
  if (status.code() != StatusCode::kUnavailable) return status;
  if (nobody_listens(status)) return no_daemon();
  if (running()) return status;
  return {status.with_context(fmt::format("the daemon at {} has ended", runtime_)),
          ExitCode::kNoDaemon};
}

}  // namespace leat
