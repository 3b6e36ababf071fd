// SPDX-License-Identifier: Apache-2.0
// The host's daemon as a worker, in the foreground: flags for the options of cluster.registry.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>

#include "apps/cli/client/daemon_client.h"
#include "apps/cli/command/command_table.h"
#include "apps/run_daemon.h"
#include "config/paths.h"
#include "daemon/daemon_options.h"
#include "supervisor/supervision.h"
#include "supervisor/supervisor.h"

namespace leat {
namespace {

class WorkerCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    auto setting = [&](const char* flag, const char* name, const char* help, const char* type) {
      app.add_option(flag, settings_[name], help)->type_name(type);
    };
    setting("--registry", "cluster.registry",
            "etcd endpoints http://HOST:2379, comma-separated, or file:///PATH for one worker",
            "URL");
    setting("--name", "cluster.name", "Name of the cluster (default)", "NAME");
    setting("--secret-file", "cluster.secret_file",
            "Secret file of the cluster (/etc/leat/cluster.secret)", "FILE");
    setting("--listen", "worker.listen", "Listen address for clients and workers (127.0.0.1:7480)",
            "HOST:PORT");
    setting("--advertise", "worker.advertise", "Address published to the cluster (--listen)",
            "HOST:PORT");
    app.add_option("--cache-dir", cache_directories_, "Cache directory; may be repeated")
        ->type_name("DIR")
        ->allow_extra_args(false);
    setting("--cache-size", "cache.size", "Capacity of each cache directory", "SIZE");
    setting("--memory", "fetch.memory_size", "Memory for reads in flight", "SIZE");
    app.add_option("--config", config_, "Configuration file")->type_name("FILE");
  }

  CommandResult<> run() override {
    std::erase_if(settings_, [](const auto& one) { return one.second.empty(); });
    std::vector<std::string> cache;
    for (const std::string& one : cache_directories_) cache.push_back(absolute_path(one));
    if (!cache.empty()) settings_["cache.directory"] = fmt::format("{}", fmt::join(cache, ","));
    if (auto secret = settings_.find("cluster.secret_file"); secret != settings_.end()) {
      secret->second = absolute_path(secret->second);
    }
    DaemonRun run{.runtime = runtime_directory(), .config = config_, .settings = settings_};
    run.stays_when_empty = true;
    run.restarts = restarts_so_far();
    // Only in the first process: a supervisor's daemon has variables that it must not read.
    if (run.restarts == 0 && !has_supervisor()) LEAT_CHECK_OK(check(run));
    LEAT_CHECK_OK(supervise_if_wanted(run, -1));
    if (run.restarts == 0) {
      run.on_ready = [this, run](const Result<>& begun) {
        if (begun) say_ready(run);
      };
    }
    LEAT_TRY(DaemonEnd end, run_daemon(std::move(run)));
    if (end == DaemonEnd::kTakeover) _exit(kExitTakeover);
    return {};
  }

 private:
  static CommandResult<> check(const DaemonRun& run) {
    LEAT_TRY(Config config, read_daemon_config(run));
    if (config.text("cluster.registry").empty()) {
      return failure(StatusCode::kInvalidArgument,
                     "a worker needs to know its cluster's registry: give --registry, or "
                     "cluster.registry in the configuration");
    }
    if (!DaemonClient(run.runtime).running()) return {};
    return failure(StatusCode::kBusy,
                   fmt::format("a daemon runs already at {}; end it, or give the worker one of "
                               "its own with LEAT_RUNTIME_DIR",
                               run.runtime));
  }

  void say_ready(const DaemonRun& run) const {
    Result<Config> config = read_daemon_config(run);
    if (!config) return;
    const std::string& cluster = config->text("cluster.name");
    const std::string& listen = config->text("worker.listen");
    if (json) {
      print_json({{"cluster", cluster}, {"listen", listen}});
    } else {
      print(fmt::format("a worker of cluster '{}' listens at {}; Ctrl-C ends it", cluster, listen));
    }
    std::fflush(stdout);  // a reader may wait at the end of a pipe
  }

  std::map<std::string, std::string> settings_;
  std::vector<std::string> cache_directories_;
  std::string config_;
};

}  // namespace

std::unique_ptr<Command> make_worker_command() {
  return std::make_unique<WorkerCommand>();
}

}  // namespace leat
