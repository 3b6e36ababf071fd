// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <thread>

#include "apps/cli/client/daemon_client.h"
#include "apps/cli/client/daemon_start.h"
#include "apps/cli/command/command_table.h"
#include "apps/cli/help/command_description.h"
#include "apps/run_daemon.h"
#include "config/config.h"
#include "config/paths.h"
#include "daemon/mounts/mount_service.h"
#include "daemon/mounts/mount_target.h"
#include "model/mount_entry.h"
#include "model/profile.h"
#include "source/stores/schemes.h"
#include "supervisor/supervision.h"
#include "supervisor/supervisor.h"

namespace leat {
namespace {

class MountCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("SOURCE", source_,
                   "Store URL (s3://bucket/prefix), local directory, or cluster (leat://worker)")
        ->type_name("DIR")
        ->required();
    app.add_option("DIR", directory_, "An existing directory")->type_name("DIR")->required();
    app.add_option("-o,--option", options_,
                   "Option of the store (endpoint, region …) or of the mount (quota, ttl, pin …), "
                   "name=value")
        ->type_name("NAME=VALUE");
    app.add_option("--path-option", path_options_,
                   "Option of a path below DIR, PATH:name=value (train/labels:pin=true)")
        ->type_name("PATH:NAME=VALUE")
        ->allow_extra_args(false);
    app.add_option("--snapshot", request_.snapshot,
                   "Use the names of this snapshot ('leat snapshot ls')")
        ->type_name("SNAPSHOT");
    CLI::Option* writable = app.add_flag(
        "--writable", writable_, "Take writes; the store has a file when its close returns");
    app.add_flag("--read-only", read_only_, "Take no writes (the default)")->excludes(writable);
    app.add_flag("--allow-other", request_.allow_other,
                 "Allow access by other users, subject to file modes");
    app.add_option("--uid", request_.uid, "Owner of all files (you)")->type_name("NUMBER");
    app.add_option("--gid", request_.gid, "Group of all files (yours)")->type_name("NUMBER");
    app.add_option("--umask", umask_, "Mode bits removed from 0666 and 0777, octal (022)")
        ->type_name("MODE");
    app.add_option("--freshness", request_.freshness,
                   "max-age=DURATION, immutable or validate (max-age=60s)")
        ->type_name("FRESHNESS");
    std::vector<std::string> names;
    for (const Profile& profile : profiles()) names.emplace_back(profile.name);
    one_of(app.add_option("--profile", profile_, "Named set of options; given options win"), names);
    app.add_flag("--no-passthrough", no_passthrough_,
                 "Serve all reads through the daemon, without passthrough");
    app.add_flag("--no-inspection", no_inspection_,
                 "Hide .leat in the root, the status and errors of the mount");
    app.add_flag("--no-probe", no_probe_, "Do not list the source first");
    app.add_option("--cache-dir", cache_directories_,
                   "Cache directory of the daemon; may be repeated")
        ->type_name("DIR")
        ->allow_extra_args(false);
    app.add_option("--cache-size", settings_["cache.size"],
                   "Capacity of each cache directory of the daemon")
        ->type_name("SIZE");
    app.add_option("--memory", settings_["fetch.memory_size"],
                   "Memory of the daemon for reads in flight")
        ->type_name("SIZE");
    app.add_option("--config", config_, "Configuration file of the daemon")->type_name("FILE");
    app.add_flag("--foreground", foreground_,
                 "Run the daemon in the foreground, until umount or a signal; prints nothing");
  }

  CommandResult<> run() override;

 private:
  CommandResult<> fill_request();
  CommandResult<> check_running(DaemonClient& client);
  CommandResult<> ensure_daemon(DaemonClient& client);
  CommandResult<MountView> mount_by(DaemonClient& client);
  CommandResult<> run_in_foreground();

  std::string source_, directory_, umask_ = "022", config_, profile_;
  std::vector<std::string> options_, path_options_, cache_directories_;
  bool writable_ = false, read_only_ = false, no_passthrough_ = false, no_probe_ = false,
       no_inspection_ = false;
  bool foreground_ = false;
  std::map<std::string, std::string> settings_;  // only options given on the command line
  MountRequest request_{.uid = geteuid(), .gid = getegid()};
};

// Removes the options, one of which may be a secret.
std::string shown_url(const std::string& text) {
  return text.substr(0, text.find('?'));
}

CommandResult<> MountCommand::fill_request() {
  std::erase_if(settings_, [](const auto& setting) { return setting.second.empty(); });
  // The daemon has another working directory.
  std::vector<std::string> cache;
  for (const std::string& directory : cache_directories_) cache.push_back(absolute_path(directory));
  if (!cache.empty()) settings_["cache.directory"] = fmt::format("{}", fmt::join(cache, ","));
  if (is_store_url(directory_)) {
    return failure(StatusCode::kInvalidArgument,
                   is_store_url(source_)
                       ? fmt::format("DIR is a local directory, not a store's URL such as {}",
                                     shown_url(directory_))
                       : fmt::format("SOURCE comes first: 'leat mount {} {}'",
                                     shown_url(directory_), source_));
  }
  request_.source = is_store_url(source_) ? source_ : absolute_path(source_);
  LEAT_TRY([[maybe_unused]] StoreUrl url, StoreUrl::parse(request_.source));
  request_.path = absolute_path(directory_);
  LEAT_TRY(request_.options, parse_options(options_));
  if (!profile_.empty()) request_.options["folder_profile"] = profile_;
  if (writable_) request_.options["writable"] = "true";
  for (const std::string& option : path_options_) {
    // Values contain no colon; file names may.
    const size_t colon = option.rfind(':');
    if (colon == std::string::npos || colon == 0) {
      return failure(StatusCode::kInvalidArgument,
                     fmt::format("--path-option {} is not of the form PATH:name=value", option));
    }
    LEAT_TRY(std::string below, normalise_path("/" + option.substr(0, colon)));
    LEAT_TRY(OptionValues values, parse_options({option.substr(colon + 1)}));
    request_.paths[below.substr(1)].merge(values);
  }
  LEAT_TRY(request_.umask, parse_umask(umask_));
  request_.passthrough = !no_passthrough_;
  request_.inspection = !no_inspection_;
  request_.probe = !no_probe_;
  return {};
}

// A second mount cannot change the daemon's options; ignoring them silently would be wrong.
CommandResult<> MountCommand::check_running(DaemonClient& client) {
  if (settings_.empty() && config_.empty()) return {};
  LEAT_TRY(DaemonStatus status, client.get_as<DaemonStatus>("/v1/status"));
  Config wanted{daemon_schema()};
  if (!config_.empty()) LEAT_CHECK_OK(wanted.read_file(config_));
  for (const auto& [name, value] : settings_) LEAT_CHECK_OK(wanted.set(name, value, "--" + name));
  for (const Option& option : wanted.schema().options()) {
    const std::string& name = option.name;
    if (wanted.source(name).origin == OptionOrigin::kDefault) continue;
    std::string text = format_value(wanted.value(name));
    std::string has = status.options.contains(name) ? status.options.at(name) : "";
    if (text == has) continue;
    return failure(
        StatusCode::kBusy,
        fmt::format("the daemon that runs here (pid {}) has {} = {}, not {} ({}); "
                    "leave that out, unmount everything so that the daemon ends, or give this "
                    "mount a daemon of its own with LEAT_RUNTIME_DIR",
                    status.pid, name, has, text, wanted.source(name).location));
  }
  return {};
}

CommandResult<> MountCommand::ensure_daemon(DaemonClient& client) {
  if (client.running()) return check_running(client);
  // Without a daemon this cannot be inside another mount: report faults of the directory before a
  // daemon starts.
  LEAT_TRY(bool dead, prepare_mount_target(request_.path));
  if (dead) note(request_.path + " was the folder of a daemon that died; it was unmounted");
  DaemonStart start{client.runtime(), config_.empty() ? "" : absolute_path(config_), settings_};
  return start_daemon(start);
}

// Waits until an ending daemon has removed its socket.
void wait_until_gone(DaemonClient& client) {
  auto deadline = Clock::now() + std::chrono::seconds(10);
  while (client.running() && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// A daemon may be ending after its last umount; then another one is started.
CommandResult<MountView> MountCommand::mount_by(DaemonClient& client) {
  constexpr int kTries = 3;
  for (int i = 1;; ++i) {
    LEAT_CHECK_OK(ensure_daemon(client));
    CommandResult<Json> answer = client.post("/v1/mounts", to_json(request_));
    if (answer) {
      LEAT_TRY(MountView view, from_json<MountView>(*answer));
      return view;
    }
    bool ending = answer.error().code == ExitCode::kNoDaemon ||
                  answer.error().status.message().starts_with(kDaemonEnding);
    if (!ending || i == kTries) return std::unexpected(answer.error());
    wait_until_gone(client);
  }
}

CommandResult<> MountCommand::run_in_foreground() {
  DaemonRun run{.runtime = runtime_directory(), .config = config_, .settings = settings_};
  run.restarts = restarts_so_far();
  // A client has threads, and a daemon must start without any, since its signals are its own.
  // Skipped for a supervisor that took over: it would wait for the daemon that it must start
  // itself.
  if (run.restarts == 0 && !has_supervisor() && DaemonClient(run.runtime).running()) {
    return failure(StatusCode::kBusy,
                   fmt::format("a daemon runs already at {}; leave --foreground out to mount "
                               "through it",
                               run.runtime));
  }
  run.first_mount = request_;
  LEAT_CHECK_OK(supervise_if_wanted(run, -1));
  LEAT_TRY(DaemonEnd end, run_daemon(std::move(run)));
  if (end == DaemonEnd::kTakeover) _exit(kExitTakeover);
  return {};
}

CommandResult<> MountCommand::run() {
  LEAT_CHECK_OK(fill_request());
  if (foreground_) return run_in_foreground();
  DaemonClient client(runtime_directory());
  LEAT_TRY(MountView view, mount_by(client));
  if (json) {
    print_json(to_json(view));
  } else {
    print(fmt::format("mounted {} at {}", view.source, view.path));
    if (view.empty) {
      note(
          fmt::format("nothing is there under {}: the folder is empty; check the prefix with "
                      "'leat ls', letter by letter",
                      view.source));
    }
  }
  return {};
}

}  // namespace

std::unique_ptr<Command> make_mount_command() {
  return std::make_unique<MountCommand>();
}

}  // namespace leat
