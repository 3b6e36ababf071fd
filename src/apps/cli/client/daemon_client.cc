// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/client/daemon_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "apps/cli/client/wait_note.h"
#include "config/paths.h"
#include "supervisor/supervision.h"

namespace leat {
namespace {

// Longer than any request: a mount's probe has its own deadline, and a lookup waits for its store
// for io_timeout, 5 minutes by default.
constexpr auto kRequestTimeout = std::chrono::minutes(10);
constexpr auto kStatusTimeout = std::chrono::seconds(1);
// A start takes well under a second, or some seconds with millions of cached objects.
constexpr auto kSuccessorTimeout = std::chrono::seconds(30);
constexpr auto kPollInterval = std::chrono::milliseconds(20);
// A running daemon responds to its status in milliseconds.
constexpr auto kHealthTimeout = std::chrono::seconds(10);
constexpr auto kHealthTimeoutMin = std::chrono::milliseconds(500);

HttpRequest make_request(std::string method, std::string path, Query query) {
  HttpRequest request{.method = std::move(method), .path = std::move(path)};
  request.query = std::move(query);
  return request;
}

bool is_refused_connection(const Status& status) {
  return status.code() == StatusCode::kUnavailable &&
         status.message().starts_with("cannot connect");
}

bool may_repeat(const HttpRequest& request, const Status& failed) {
  const bool lost = request.method == "GET" && failed.code() == StatusCode::kUnavailable;
  return lost || is_refused_connection(failed);
}

}  // namespace

DaemonClient::DaemonClient(std::string runtime)
    : runtime_(std::move(runtime)), http_(HttpEndpoint::unix_socket(control_socket(runtime_))) {}

bool DaemonClient::running(Clock::duration timeout) {
  if (!check_runtime()) return false;
  const Clock::time_point until = Clock::now() + timeout;
  return is_responding(until) || wait_for_successor(until);
}

// Waits for a daemon that did not respond at first.
bool DaemonClient::wait_for_successor(Clock::time_point until) {
  const auto start = Clock::now();
  bool noted = false;
  while (is_supervised(runtime_) && Clock::now() < until) {
    if (is_responding(until)) return true;
    if (!noted && Clock::now() - start > std::chrono::seconds(2)) {
      noted = true;
      note("waiting for the next daemon");
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  // A successor may have started at this moment.
  return is_responding(until);
}

bool DaemonClient::is_responding(Clock::time_point until) {
  const Clock::duration left = std::max<Clock::duration>(until - Clock::now(), kHealthTimeoutMin);
  auto context =
      Context::background().with_timeout(std::min<Clock::duration>(left, kHealthTimeout));
  auto answer = executor_.block_on(http_.request(context, make_request("GET", "/healthz", {})));
  return answer && answer->status == 200;
}

CommandResult<Json> DaemonClient::get(std::string path, Query query) {
  return send(make_request("GET", std::move(path), std::move(query)));
}

std::optional<Json> DaemonClient::try_get(std::string path, Clock::duration timeout) {
  if (!check_runtime()) return std::nullopt;
  auto context = Context::background().with_timeout(timeout);
  auto answer =
      executor_.block_on(http_.request(context, make_request("GET", std::move(path), {})));
  if (!answer || answer->status != 200) return std::nullopt;
  Result<Json> json = parse_json(answer->body, "the daemon's answer");
  if (!json) return std::nullopt;
  return *std::move(json);
}

CommandResult<Json> DaemonClient::post(std::string path, const Json& body) {
  HttpRequest request = make_request("POST", std::move(path), {});
  request.headers.set("Content-Type", "application/json");
  request.body = dump_json(body);
  return send(std::move(request));
}

CommandResult<Json> DaemonClient::remove(std::string path, Query query) {
  return send(make_request("DELETE", std::move(path), std::move(query)));
}

CommandResult<> DaemonClient::stream(std::string path, Query query, BodySink sink) {
  LEAT_CHECK_OK(check_runtime());
  HttpRequest request = make_request("GET", std::move(path), std::move(query));
  auto answer = executor_.block_on(
      http_.request_streamed(Context::background(), std::move(request), std::move(sink)));
  if (!answer) return std::unexpected(to_failure(answer.error()));
  if (answer->status / 100 != 2) return std::unexpected(Failure(status_of(*answer)));
  return {};
}

CommandResult<Json> DaemonClient::send(HttpRequest request) {
  LEAT_CHECK_OK(check_runtime());
  const WaitNote waits([this] { return try_get("/v1/status", kStatusTimeout); });
  auto context = Context::background().with_timeout(kRequestTimeout);
  auto answer = executor_.block_on(http_.request(context, request));
  // Retry with the next daemon if the request did not reach this one, or changes nothing.
  if (!answer && may_repeat(request, answer.error()) &&
      wait_for_successor(Clock::now() + kSuccessorTimeout)) {
    answer = executor_.block_on(http_.request(context, std::move(request)));
  }
  if (!answer) return std::unexpected(to_failure(answer.error()));
  if (answer->status / 100 != 2) return std::unexpected(Failure(status_of(*answer)));
  LEAT_TRY(Json json, parse_json(answer->body, "the daemon's answer"));
  return json;
}

CommandResult<> DaemonClient::check_runtime() const {
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
Failure DaemonClient::to_failure(Status status) {
  if (status.code() != StatusCode::kUnavailable) return status;
  if (is_refused_connection(status)) return no_daemon();
  if (running()) return status;
  return {status.with_context(fmt::format("the daemon at {} has ended", runtime_)),
          ExitCode::kNoDaemon};
}

}  // namespace leat
