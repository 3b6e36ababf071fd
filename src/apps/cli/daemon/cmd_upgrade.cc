// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "apps/cli/client/daemon_client.h"
#include "apps/cli/command/command_table.h"
#include "base/pluralize.h"
#include "config/paths.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

// Much longer than a start with millions of cached objects.
constexpr auto kTimeout = 60s;
constexpr auto kPollInterval = 20ms;

class UpgradeCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("EXECUTABLE", executable_,
                   "Program that takes over (this one, at its present path)")
        ->type_name("FILE");
  }

  CommandResult<> run() override {
    UpgradeRequest request;
    if (!executable_.empty()) {
      request.executable = absolute_path(executable_);
      if (access(request.executable.c_str(), X_OK) != 0) {
        return failure(StatusCode::kInvalidArgument,
                       fmt::format("{} is no program that can be executed", request.executable));
      }
    }
    DaemonClient client(runtime_directory());
    LEAT_TRY(DaemonStatus before, client.get_as<DaemonStatus>("/v1/status"));
    LEAT_TRY([[maybe_unused]] Json begun, client.post("/v1/upgrade", to_json(request)));
    LEAT_TRY(DaemonStatus after, wait_for_next(client, before.pid));
    if (json) {
      print_json({{"from", {{"version", before.version}, {"pid", before.pid}}},
                  {"to", {{"version", after.version}, {"pid", after.pid}}}});
    } else {
      print(fmt::format("leat {} (pid {}) has taken over from {} (pid {}), {}", after.version,
                        after.pid, before.version, before.pid,
                        pluralize(after.mounts.size(), "mount")));
    }
    return {};
  }

 private:
  static CommandResult<DaemonStatus> wait_for_next(DaemonClient& client, int before) {
    const auto start = Clock::now();
    bool noted = false;
    while (Clock::now() - start < kTimeout) {
      CommandResult<DaemonStatus> status = client.get_as<DaemonStatus>("/v1/status");
      if (status && status->pid != before) return status;
      if (!noted && Clock::now() - start > 2s) {
        noted = true;
        note("waiting for the next daemon");
      }
      std::this_thread::sleep_for(kPollInterval);
    }
    return failure(StatusCode::kTimedOut,
                   fmt::format("no other daemon started within {} s; the reason is in {}",
                               kTimeout / 1s, daemon_log(client.runtime())));
  }

  std::string executable_;
};

}  // namespace

std::unique_ptr<Command> make_upgrade_command() {
  return std::make_unique<UpgradeCommand>();
}

}  // namespace leat
