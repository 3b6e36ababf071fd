// SPDX-License-Identifier: Apache-2.0
// DaemonClient: requests on the control socket as blocking calls. For the single thread of the
// command line.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "apps/command.h"
#include "http/client.h"
#include "runtime/executor.h"

namespace leat {

using Query = std::map<std::string, std::string>;

class DaemonClient {
 public:
  // Requests go to the daemon with this runtime directory.
  explicit DaemonClient(std::string runtime);

  const std::string& runtime() const { return runtime_; }
  // Returns whether a daemon runs. Waits up to `patience` for one that has just died, hands over to
  // the next one, or does not respond.
  bool running(Clock::duration patience = std::chrono::seconds(30));

  // Each fails with ExitCode::kNoDaemon if none runs (any more), else with the daemon's error. Does
  // not use a socket that another user could have created.
  Attempt<Json> get(std::string path, Query query = {});
  // For optional information: returns nothing without a response within `patience`.
  std::optional<Json> glance(std::string path, Clock::duration patience);
  Attempt<Json> post(std::string path, const Json& body);
  Attempt<Json> remove(std::string path, Query query = {});
  Attempt<> stream(std::string path, Query query, BodySink sink);

  template <class T>
  Attempt<T> get_as(std::string path, Query query = {}) {
    LEAT_TRY(Json json, get(std::move(path), std::move(query)));
    LEAT_TRY(T value, from_json<T>(json));
    return value;
  }

 private:
  Attempt<Json> ask(HttpRequest request);
  bool answers(Clock::time_point until);
  bool successor_answers(Clock::time_point until);
  Attempt<> check_place() const;
  Failure no_daemon() const;
  Failure explain(Status status);

  const std::string runtime_;
  Executor executor_{{.threads = 1, .blocking_threads = 1}};
  HttpClient http_;
};

}  // namespace leat
