// SPDX-License-Identifier: Apache-2.0
// PythonServer: `python3 -m http.server` over a directory, on loopback for the life of the object.
// It has index pages and times, but no ranges and no ETags.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/server_process_test.h"

namespace leat::testing {

class PythonServer {
 public:
  static constexpr char kHowToGetIt[] = "python3 is not there, or its http.server did not start";

  // Serves an empty directory. Returns null if the server does not start.
  static std::shared_ptr<PythonServer> start() {
    auto server = std::shared_ptr<PythonServer>(new PythonServer());
    return server->launch() ? server : nullptr;
  }

  std::string endpoint() const { return process_.endpoint(); }
  std::filesystem::path folder() const { return process_.folder() / "data"; }
  void put(const std::string& key, std::string_view content) const {
    put_file(folder(), key, content);
  }

 private:
  PythonServer() { std::filesystem::create_directories(folder() / "files"); }
  bool launch() {
    std::string program = find_program("LEAT_PYTHON", "bin/python3");
    return !program.empty() &&
           process_.launch({program, "-m", "http.server", std::to_string(process_.port()), "--bind",
                            "127.0.0.1", "--directory", folder().string()});
  }

  ServerProcess process_{"python"};
};

}  // namespace leat::testing
