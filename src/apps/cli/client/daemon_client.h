// SPDX-License-Identifier: Apache-2.0
// DaemonClient: requests on the control socket as blocking calls. For the single thread of the
// command line.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "apps/cli/command/command.h"
#include "http/client.h"
#include "runtime/executor.h"

namespace leat {

using Query = std::map<std::string, std::string>;

class DaemonClient {
 public:
  // Requests go to the daemon with this runtime directory.
  explicit DaemonClient(std::string runtime);

  const std::string& runtime() const { return runtime_; }
  // Returns whether a daemon runs. Waits up to `timeout` for one that has just died, is being
  // replaced by the next one, or does not respond.
  bool running(Clock::duration timeout = std::chrono::seconds(30));

  // Each fails with ExitCode::kNoDaemon if none runs (any more), else with the daemon's error. Does
  // not use a socket that another user could have created.
  CommandResult<Json> get(std::string path, Query query = {});
  // For optional information: returns nothing without a response within `timeout`.
  std::optional<Json> try_get(std::string path, Clock::duration timeout);
  CommandResult<Json> post(std::string path, const Json& body);
  CommandResult<Json> remove(std::string path, Query query = {});
  CommandResult<> stream(std::string path, Query query, BodySink sink);

  template <class T>
  CommandResult<T> get_as(std::string path, Query query = {}) {
    LEAT_TRY(Json json, get(std::move(path), std::move(query)));
    LEAT_TRY(T value, from_json<T>(json));
    return value;
  }

 private:
  CommandResult<Json> send(HttpRequest request);
  bool is_responding(Clock::time_point until);
  bool wait_for_successor(Clock::time_point until);
  CommandResult<> check_runtime() const;
  Failure no_daemon() const;
  Failure to_failure(Status status);

  const std::string runtime_;
  Executor executor_{{.threads = 1, .blocking_threads = 1}};
  HttpClient http_;
};

}  // namespace leat
