// SPDX-License-Identifier: Apache-2.0
// DaemonClient: the control socket as plain calls that wait. For the command line's one thread.
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
  // Of the daemon whose runtime directory is `runtime`.
  explicit DaemonClient(std::string runtime);

  const std::string& runtime() const { return runtime_; }
  // One that has just died or makes way for the next one is waited for, as long as the patience
  // lasts; so is one that says nothing.
  bool running(Clock::duration patience = std::chrono::seconds(30));

  // Each fails with ExitCode::kNoDaemon when none runs, or not any more, else with what the daemon
  // said. A socket that someone else could have made is not talked to.
  Attempt<Json> get(std::string path, Query query = {});
  // For what is only nice to know: nothing where there is no answer within `patience`.
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
