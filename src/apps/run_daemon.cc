// SPDX-License-Identifier: Apache-2.0
#include "apps/run_daemon.h"

#include <sys/prctl.h>

#include "base/program_version.h"
#include "daemon/daemon.h"
#include "daemon/daemon_options.h"
#include "daemon/stop_signals.h"
#include "telemetry/log.h"

namespace leat {
namespace {

Result<std::unique_ptr<Daemon>> start(const DaemonRun& run, StopSignals& signals,
                                      FdStore& fd_store) {
  LEAT_TRY(Config config, read_daemon_config(run));
  log::set_up({.file = run.log_file});
  if (config.text("log.format") == "json") log::set_format(log::Format::kJson);
  apply_reloadable_options(config);
  DaemonOptions options{.runtime = run.runtime,
                        .log_file = run.log_file,
                        .stays_when_empty = run.stays_when_empty,
                        .fd_store = fd_store,
                        .restarts = run.restarts,
                        .on_stop = [&signals](std::string why) { signals.request(why); },
                        .read_config = [run] { return read_daemon_config(run); }};
  LEAT_TRY(std::unique_ptr<Daemon> daemon, Daemon::start(std::move(options), std::move(config)));
  // A successor has taken it over already.
  if (!run.first_mount || daemon->has_mount(run.first_mount->path)) return daemon;
  Result<MountView> mounted = daemon->mount_and_wait(*run.first_mount);
  if (mounted) return daemon;
  daemon->stop();
  return error(mounted.error());
}

void notify_supervisor(FdStore& fd_store, std::string_view what) {
  if (auto sent = fd_store.notify(what); !sent) log::warning("{}", sent.error().to_string());
}

}  // namespace

Result<DaemonEnd> run_daemon(DaemonRun run) {
  // First of all: later opens could take the numbers of inherited descriptors.
  FdStore fd_store = FdStore::from_environment();
  // After a start through /proc/self/exe, ps and top would show "exe".
  prctl(PR_SET_NAME, "leat");
  StopSignals signals;
  Result<std::unique_ptr<Daemon>> daemon = start(run, signals, fd_store);
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
  if (fd_store.available()) notify_supervisor(fd_store, "READY=1");
  std::string reason = signals.wait();
  // A signal meanwhile takes precedence over the takeover.
  if ((*daemon)->takeover_requested() && !signals.signalled()) {
    log::info("preparing the takeover: {}", reason);
    notify_supervisor(fd_store, "X_LEAT_HANDING_OVER=1");
    (*daemon)->prepare_takeover();
    log::info("ready for the takeover");
    // Not destroyed: a thread may wait in the kernel for a reply that only the successor gives.
    static_cast<void>(daemon->release());
    return DaemonEnd::kTakeover;
  }
  log::info("ending: {}", reason);
  if (fd_store.available()) notify_supervisor(fd_store, "STOPPING=1");
  (*daemon)->stop();
  log::info("ended");
  return DaemonEnd::kEnded;
}

}  // namespace leat
