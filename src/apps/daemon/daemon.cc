// SPDX-License-Identifier: Apache-2.0
#include "apps/daemon/daemon.h"

#include <sys/prctl.h>

#include "apps/daemon/host_daemon.h"
#include "apps/daemon/stop_signals.h"
#include "telemetry/log.h"

namespace leat {
namespace {

Result<log::Level> parse_level(const std::string& text) {
  if (text == "debug") return log::Level::kDebug;
  if (text == "info") return log::Level::kInfo;
  if (text == "warning") return log::Level::kWarning;
  if (text == "error") return log::Level::kError;
  return error(StatusCode::kInvalidArgument,
               "log.level '" + text + "' is none of debug, info, warning and error");
}

Result<std::unique_ptr<HostDaemon>> start(const DaemonRun& run, StopSignals& signals) {
  LEAT_TRY(Config config, read_daemon_config(run));
  LEAT_TRY(log::Level level, parse_level(config.text("log.level")));
  log::set_up({level, run.log_file});
  HostDaemonOptions options{.runtime = run.runtime,
                            .log_file = run.log_file,
                            .stays_when_empty = run.stays_when_empty,
                            .on_stop = [&signals](std::string why) { signals.request(why); }};
  LEAT_TRY(std::unique_ptr<HostDaemon> daemon,
           HostDaemon::start(std::move(options), std::move(config)));
  if (!run.first_mount) return daemon;
  Result<MountView> mounted = daemon->mount_and_wait(*run.first_mount);
  if (mounted) return daemon;
  daemon->stop();
  return error(mounted.error());
}

}  // namespace

Result<> run_daemon(DaemonRun run) {
  // Started through /proc/self/exe it would be "exe" to ps and top.
  prctl(PR_SET_NAME, "leat");
  StopSignals signals;
  Result<std::unique_ptr<HostDaemon>> daemon = start(run, signals);
  if (!daemon) {
    // Without a log file whoever called says it on the same standard error.
    if (!run.log_file.empty()) {
      log::error("the daemon did not start: {}", daemon.error().to_string());
    }
    if (run.on_ready) run.on_ready(error(daemon.error()));
    return error(daemon.error());
  }
  log::info("leat {} serves {}", LEAT_VERSION, run.runtime);
  if (run.on_ready) run.on_ready({});
  std::string reason = signals.wait();
  log::info("ending: {}", reason);
  (*daemon)->stop();
  log::info("ended");
  return {};
}

}  // namespace leat
