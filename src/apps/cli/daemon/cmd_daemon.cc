// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <unistd.h>

#include "apps/cli/client/daemon_start.h"
#include "apps/cli/command/command_table.h"
#include "apps/run_daemon.h"
#include "config/paths.h"
#include "supervisor/supervision.h"
#include "supervisor/supervisor.h"

namespace leat {
namespace {

Json options_of(const Config& config) {
  Json options = Json::object();
  for (const Option& option : config.schema().options()) {
    options[option.name] = format_value(config.value(option.name));
  }
  return options;
}

class DaemonCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("--runtime-dir", run_.runtime,
                   "Directory of the control socket, pid file and log")
        ->type_name("DIR");
    app.add_option("--config", run_.config, "Configuration file")->type_name("FILE");
    app.add_option("--set", settings_, "Set an option, name=value; overrides file and environment")
        ->type_name("OPTION=VALUE");
    app.add_option("--log-file", run_.log_file, "Log file instead of standard error")
        ->type_name("FILE");
    app.add_option("--ready-fd", ready_fd_, "Report the result of the start on this descriptor")
        ->type_name("NUMBER");
    app.add_flag("--dump-config", dump_, "Print every option with its value and origin");
  }

  CommandResult<> run() override {
    if (run_.runtime.empty()) run_.runtime = runtime_directory();
    for (const std::string& setting : settings_) {
      size_t equals = setting.find('=');
      if (equals == std::string::npos) {
        return failure(StatusCode::kInvalidArgument,
                       fmt::format("--set {} is not of the form name=value", setting));
      }
      run_.settings[setting.substr(0, equals)] = setting.substr(equals + 1);
    }
    if (dump_) {
      LEAT_TRY(Config config, read_daemon_config(run_));
      if (json) {
        print_json({{"options", options_of(config)}});
      } else {
        print(config.to_toml());
      }
      return {};
    }
    run_.restarts = restarts_so_far();
    // The first daemon has reported already, and the number now belongs to another file.
    if (run_.restarts > 0 && ready_fd_ >= 0) {
      ready_fd_ = -1;
      started_for_a_mount_ = true;
    }
    started_for_a_mount_ |= ready_fd_ >= 0;
    if (auto supervised = supervise_if_wanted(run_, ready_fd_); !supervised) {
      report_ready(ready_fd_, supervised);
      return std::unexpected(Failure(supervised.error()));
    }
    run_.on_ready = [fd = ready_fd_](const Result<>& outcome) { report_ready(fd, outcome); };
    // If a user started it, it waits for its first mount without a limit.
    run_.stays_when_empty = !started_for_a_mount_;
    LEAT_TRY(DaemonEnd end, run_daemon(run_));
    if (end == DaemonEnd::kTakeover) _exit(kExitTakeover);
    return {};
  }

 private:
  DaemonRun run_;
  std::vector<std::string> settings_;
  int ready_fd_ = -1;
  bool started_for_a_mount_ = false;
  bool dump_ = false;
};

}  // namespace

std::unique_ptr<Command> make_daemon_command() {
  return std::make_unique<DaemonCommand>();
}

}  // namespace leat
