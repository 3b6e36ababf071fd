// SPDX-License-Identifier: Apache-2.0
#include "apps/daemon/daemon.h"

#include <sys/prctl.h>

#include "apps/daemon/daemon_options.h"
#include "apps/daemon/host_daemon.h"
#include "apps/daemon/stop_signals.h"
#include "apps/program_version.h"
#include "telemetry/log.h"

namespace leat {
namespace {

Result<std::unique_ptr<HostDaemon>> start(const DaemonRun& run, StopSignals& signals,
                                          KeptDescriptors& keeper) {
  LEAT_TRY(Config config, read_daemon_config(run));
  log::set_up({.file = run.log_file});
  if (config.text("log.format") == "json") log::set_format(log::Format::kJson);
  apply_hot_options(config);
  HostDaemonOptions options{.runtime = run.runtime,
                            .log_file = run.log_file,
                            .stays_when_empty = run.stays_when_empty,
                            .keeper = keeper,
                            .restarts = run.restarts,
                            .on_stop = [&signals](std::string why) { signals.request(why); },
                            .read_config = [run] { return read_daemon_config(run); }};
  LEAT_TRY(std::unique_ptr<HostDaemon> daemon,
           HostDaemon::start(std::move(options), std::move(config)));
  // A successor has taken it over already.
  if (!run.first_mount || daemon->has_mount(run.first_mount->path)) return daemon;
  Result<MountView> mounted = daemon->mount_and_wait(*run.first_mount);
  if (mounted) return daemon;
  daemon->stop();
  return error(mounted.error());
}

void say(KeptDescriptors& keeper, std::string_view what) {
  if (auto said = keeper.say(what); !said) log::warning("{}", said.error().to_string());
}

}  // namespace

Result<DaemonEnd> run_daemon(DaemonRun run) {
  // First of all: later opens could take the numbers of inherited descriptors.
  KeptDescriptors keeper = KeptDescriptors::from_environment();
  // After a start through /proc/self/exe, ps and top would show "exe".
  prctl(PR_SET_NAME, "leat");
  StopSignals signals;
  Result<std::unique_ptr<HostDaemon>> daemon = start(run, signals, keeper);
  if (!daemon) {
    // Without a log file the parent prints the error on the same standard error.
    if (!run.log_file.empty()) {
      log::error("the daemon did not start: {}", daemon.error().to_string());
    }
    if (run.on_ready) run.on_ready(error(daemon.error()));
    return error(daemon.error());
  }
  log::info("leat {} serves {}", program_version(), run.runtime);
  if (run.on_ready) run.on_ready({});
  if (keeper.kept()) say(keeper, "READY=1");
  std::string reason = signals.wait();
  // A signal meanwhile takes precedence over the hand-over.
  if ((*daemon)->handing_over() && !signals.signalled()) {
    log::info("handing over: {}", reason);
    say(keeper, "X_LEAT_HANDING_OVER=1");
    (*daemon)->hand_over();
    log::info("handed over");
    // Not destroyed: a thread may wait in the kernel for a reply that only the successor gives.
    static_cast<void>(daemon->release());
    return DaemonEnd::kHandedOver;
  }
  log::info("ending: {}", reason);
  if (keeper.kept()) say(keeper, "STOPPING=1");
  (*daemon)->stop();
  log::info("ended");
  return DaemonEnd::kEnded;
}

}  // namespace leat
