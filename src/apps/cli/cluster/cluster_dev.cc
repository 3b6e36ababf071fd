// SPDX-License-Identifier: Apache-2.0
// Each process has a folder in the cluster's directory: DIR/etcd, DIR/w1 …, DIR/client. All are
// children of this process, without supervisors, so that they end with it.
#include "apps/cli/cluster/cluster_dev.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <future>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "apps/cli/client/daemon_client.h"
#include "apps/cli/cluster/child_process.h"
#include "apps/cli/cluster/dev_directory.h"
#include "apps/cli/cluster/dev_signals.h"
#include "apps/cli/cluster/etcd_process.h"
#include "apps/cli/command/progress.h"
#include "auth/cluster_secret.h"
#include "base/pluralize.h"
#include "base/read_file.h"
#include "base/units.h"
#include "config/paths.h"
#include "daemon/hung_daemon.h"
#include "daemon/mounts/mount_target.h"
#include "frontends/admin/codec_cluster.h"
#include "frontends/fuse/connection/connection_record.h"
#include "frontends/fuse/connection/mount_point.h"
#include "model/mount_entry.h"
#include "model/store_url.h"
#include "source/stores/schemes.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 60s;     // for each step of the start
constexpr auto kEndPatience = 15s;  // for a clean end
constexpr auto kLook = 50ms;
// A daemon as a child process.
struct DevDaemon {
  std::string folder{}, runtime{};
  std::string id{}, address{};  // of a worker, once it has started
  std::unique_ptr<ChildProcess> process{};
  std::unique_ptr<DaemonClient> client{};
  bool reported = false;  // its end was reported

  Json describe() const {
    return {{"pid", process->pid()}, {"runtime_directory", runtime}, {"log", process->log()}};
  }
};

class DevCluster {
 public:
  DevCluster(ClusterDevOptions options, bool json) : options_(std::move(options)), json_(json) {}

  // Runs until a signal; end() must follow in any case.
  CommandResult<> run();
  void end();

 private:
  // Preconditions.
  CommandResult<> check();
  // Start.
  CommandResult<> start_registry();
  CommandResult<std::vector<std::string>> worker_variables() const;
  CommandResult<> start_workers();
  CommandResult<> mount_source();
  CommandResult<> mount_folder();
  CommandResult<DevDaemon> start_daemon(const std::string& folder, const std::string& name,
                                        std::vector<std::string> words,
                                        const std::vector<std::string>& variables = {});
  CommandResult<> wait_for(const std::string& what, const std::function<bool()>& there);
  bool ring_is_there();
  // Output.
  void tell() const;
  Json describe() const;
  CommandResult<> watch();
  bool report_end(ChildProcess& process, bool& reported, const char* consequence);
  // End.
  void end_all(const std::vector<ChildProcess*>& processes);
  void clean_up_after(const DevDaemon& daemon);

  std::string seeds() const {
    std::vector<std::string> all;
    for (const DevDaemon& worker : workers_) all.push_back(worker.address);
    return fmt::format("leat://{}/", fmt::join(all, ","));
  }
  std::vector<ChildProcess*> processes() const;

  ClusterDevOptions options_;
  const bool json_;
  DevSignals signals_;
  Progress progress_;
  DevDirectory directory_;
  std::string source_path_, etcd_program_, registry_;
  EtcdProcess etcd_;
  bool etcd_reported_ = false;
  std::vector<DevDaemon> workers_;
  std::optional<DevDaemon> client_;
};

// --- preconditions -------------------------------------------------------------------------------

// Returns the last component: "/train" for "s3://bucket/data/train/", "/bucket" for "s3://bucket".
std::string path_for(const StoreUrl& url) {
  std::string words = url.bucket + "/" + url.prefix;
  while (words.ends_with('/')) words.pop_back();
  return "/" + words.substr(words.rfind('/') + 1);
}

CommandResult<> DevCluster::check() {
  if (options_.workers < 1 || options_.workers > kDevWorkersMax) {
    return failure(StatusCode::kInvalidArgument,
                   fmt::format("a cluster has 1 to {} workers here", kDevWorkersMax));
  }
  if (options_.registry == "file" && options_.workers > 1) {
    return failure(StatusCode::kInvalidArgument,
                   "a file is a registry for a single worker; leave --registry out for several");
  }
  if (!options_.source.empty()) {
    if (!is_store_url(options_.source)) options_.source = absolute_path(options_.source);
    LEAT_TRY(StoreUrl url, StoreUrl::parse(options_.source));
    LEAT_TRY(source_path_, normalise_path(path_for(url)));
  }
  if (!options_.mountpoint.empty()) {
    options_.mountpoint = absolute_path(options_.mountpoint);
    LEAT_TRY([[maybe_unused]] bool dead, prepare_mount_target(options_.mountpoint));
  }
  if (options_.registry == "etcd") {
    LEAT_TRY(etcd_program_, find_etcd());
  }
  return {};
}

// --- start ---------------------------------------------------------------------------------------

std::vector<ChildProcess*> DevCluster::processes() const {
  std::vector<ChildProcess*> all;
  if (etcd_.process) all.push_back(etcd_.process.get());
  for (const DevDaemon& worker : workers_) all.push_back(worker.process.get());
  if (client_) all.push_back(client_->process.get());
  return all;
}

CommandResult<> DevCluster::wait_for(const std::string& what, const std::function<bool()>& there) {
  const auto until = Clock::now() + kPatience;
  while (!there()) {
    if (signals_.stop_requested(kLook)) {
      return failure(StatusCode::kCancelled, "ended while it waited for " + what);
    }
    for (ChildProcess* process : processes()) {
      if (process->running()) continue;
      return failure(
          StatusCode::kUnavailable,
          fmt::format("{} {} before there was a cluster; its last output: {}", process->name(),
                      process->exit_description(), process->last_line()));
    }
    if (Clock::now() > until) {
      return failure(StatusCode::kTimedOut,
                     fmt::format("waited {} s in vain for {}; the logs are in {}",
                                 std::chrono::seconds(kPatience).count(), what, directory_.path()));
    }
    progress_.show("waiting for " + what);
  }
  progress_.clear();
  return {};
}

CommandResult<> DevCluster::start_registry() {
  if (options_.registry == "file") {
    registry_ = "file://" + directory_.registry();
    return {};
  }
  const std::string folder = directory_.path() + "/etcd";
  LEAT_CHECK_OK(make_runtime_directory(folder));
  LEAT_TRY(etcd_, EtcdProcess::start(etcd_program_, folder));
  registry_ = etcd_.url;
  LEAT_CHECK_OK(wait_for("etcd", [this] { return etcd_.responds(); }));
  LEAT_TRY(const std::string password, read_secret_file(directory_.password(), "etcd's password"));
  return etcd_.require_users(password.substr(0, password.find('\n')));
}

// Returns the environment of the workers.
CommandResult<std::vector<std::string>> DevCluster::worker_variables() const {
  std::string local;
  if (!options_.source.empty()) {
    LEAT_TRY(const StoreUrl url, StoreUrl::parse(options_.source));
    if (url.scheme == "file") local = "/" + url.prefix;
    while (local.size() > 1 && local.ends_with('/')) local.pop_back();
  }
  LEAT_TRY(const std::string paths, directory_.local_paths(local));
  std::vector<std::string> variables = {"LEAT_WORKER_LOCAL_PATHS=" + paths};
  if (!etcd_.process) return variables;
  variables.push_back(fmt::format("LEAT_CLUSTER_REGISTRY_USER={}", EtcdProcess::kUser));
  variables.push_back("LEAT_CLUSTER_REGISTRY_PASSWORD_FILE=" + directory_.password());
  return variables;
}

CommandResult<DevDaemon> DevCluster::start_daemon(const std::string& folder,
                                                  const std::string& name,
                                                  std::vector<std::string> words,
                                                  const std::vector<std::string>& variables) {
  DevDaemon daemon{.folder = directory_.path() + "/" + folder};
  daemon.runtime = daemon.folder + "/run";
  LEAT_CHECK_OK(make_runtime_directory(daemon.folder));
  LEAT_CHECK_OK(make_runtime_directory(daemon.runtime));
  words.insert(words.begin(), "leat");
  words.insert(words.end(),
               {"--cache-dir", daemon.folder + "/cache", "--config", directory_.options()});
  ChildStart start{.name = name,
                   .executable = "/proc/self/exe",
                   .arguments = std::move(words),
                   .environment = child_environment({"LEAT_"}),
                   .log = daemon_log(daemon.runtime)};
  start.environment.push_back("LEAT_RUNTIME_DIR=" + daemon.runtime);
  start.environment.push_back("LEAT_SNAPSHOT_DIRECTORY=" + daemon.folder + "/snapshots");
  start.environment.emplace_back("LEAT_DAEMON_SUPERVISED=false");
  start.environment.insert(start.environment.end(), variables.begin(), variables.end());
  LEAT_TRY(daemon.process, ChildProcess::start(start));
  daemon.client = std::make_unique<DaemonClient>(daemon.runtime);
  return daemon;
}

CommandResult<> DevCluster::start_workers() {
  LEAT_TRY(const std::vector<std::string> variables, worker_variables());
  for (unsigned i = 1; i <= options_.workers; ++i) {
    LEAT_TRY(DevDaemon worker,
             start_daemon(fmt::format("w{}", i), fmt::format("worker {}", i),
                          {"worker", "--registry", registry_, "--name", "dev", "--secret-file",
                           directory_.secret(), "--listen", "127.0.0.1:0"},
                          variables));
    workers_.push_back(std::move(worker));
  }
  return wait_for(pluralize(options_.workers, "worker"), [this] { return ring_is_there(); });
}

// Every worker sees all others in the ring, with a share.
bool DevCluster::ring_is_there() {
  std::vector<ClusterStatusView> views;
  std::set<std::string> ids;
  for (DevDaemon& worker : workers_) {
    const std::optional<Json> answer = worker.client->try_get("/v1/cluster", 1s);
    if (!answer) return false;
    Result<ClusterStatusView> view = from_json<ClusterStatusView>(*answer);
    if (!view) return false;
    worker.id = view->self;
    ids.insert(view->self);
    views.push_back(*std::move(view));
  }
  for (const ClusterStatusView& view : views) {
    size_t there = 0;
    for (const ClusterWorkerView& one : view.workers) {
      if (!ids.contains(one.id) || one.state != "active" || one.share == 0) continue;
      ++there;
      for (DevDaemon& worker : workers_) {
        if (worker.id == one.id) worker.address = one.address;
      }
    }
    if (there != workers_.size()) return false;
  }
  return true;
}

// Returns whether a worker serves the mount; `view` receives its state.
bool serves(DaemonClient& client, const std::string& path, ClusterMountView& view) {
  const std::optional<Json> answer = client.try_get("/v1/cluster", 1s);
  if (!answer) return false;
  Result<ClusterStatusView> status = from_json<ClusterStatusView>(*answer);
  if (!status) return false;
  for (ClusterMountView& mount : status->mounts) {
    if (mount.path != path) continue;
    view = mount;
    return mount.trouble.empty();
  }
  return false;
}

CommandResult<> DevCluster::mount_source() {
  if (options_.source.empty()) return {};
  ClusterMountView before;
  serves(*workers_.front().client, source_path_, before);
  if (before.path.empty()) {
    ClusterMountRequest request{
        .path = source_path_, .source = options_.source, .options = options_.options};
    // In a separate thread, so that a store that does not respond does not block the shutdown.
    std::future<CommandResult<Json>> answer = std::async(std::launch::async, [&] {
      return DaemonClient(workers_.front().runtime).post("/v1/cluster/mounts", to_json(request));
    });
    CommandResult<> waited =
        wait_for(options_.source, [&] { return answer.wait_for(0s) == std::future_status::ready; });
    if (!waited) end_all(processes());  // the request then ends
    CommandResult<Json> mounted = answer.get();
    if (!waited) return waited;
    if (!mounted) return std::unexpected(mounted.error());
  }
  return wait_for("the mount at all workers", [this] {
    ClusterMountView view;
    return std::ranges::all_of(
        workers_, [&](DevDaemon& worker) { return serves(*worker.client, source_path_, view); });
  });
}

CommandResult<> DevCluster::mount_folder() {
  if (options_.mountpoint.empty()) return {};
  LEAT_TRY(client_, start_daemon("client", "the folder's daemon",
                                 {"mount", seeds(), options_.mountpoint, "--option",
                                  "token=" + directory_.token(), "--foreground"}));
  return wait_for("the folder", [this] {
    const std::optional<Json> answer = client_->client->try_get("/v1/mounts", 1s);
    return answer && answer->contains("mounts") && !answer->at("mounts").empty();
  });
}

// --- output --------------------------------------------------------------------------------------

Json DevCluster::describe() const {
  Json document = {
      {"directory", directory_.path()}, {"registry", registry_}, {"secret", directory_.secret()},
      {"token", directory_.token()},    {"url", seeds()},        {"workers", Json::array()}};
  for (const DevDaemon& worker : workers_) {
    Json one = worker.describe();
    one["address"] = worker.address;
    document["workers"].push_back(std::move(one));
  }
  if (etcd_.process) {
    document["etcd"] = {{"pid", etcd_.process->pid()},
                        {"log", etcd_.process->log()},
                        {"user", EtcdProcess::kUser},
                        {"password_file", directory_.password()}};
  }
  if (!source_path_.empty()) {
    document["mount"] = {{"path", source_path_}, {"source", options_.source}};
  }
  if (client_) {
    document["folder"] = client_->describe();
    document["folder"]["path"] = options_.mountpoint;
  }
  return document;
}

void DevCluster::tell() const {
  if (json_) {
    print_json(describe());
    std::fflush(stdout);
    return;
  }
  std::string text = fmt::format("a cluster of {} runs on this machine; Ctrl-C ends it\n",
                                 pluralize(workers_.size(), "worker"));
  text += fmt::format("  files     {}{}\n", directory_.path(),
                      directory_.temporary() ? ", removed at the end" : "");
  text += fmt::format("  registry  {}\n", registry_);
  for (const DevDaemon& worker : workers_) {
    text += fmt::format("  {:<9} {}, pid {}\n", worker.process->name(), worker.address,
                        worker.process->pid());
  }
  if (!source_path_.empty()) {
    text += fmt::format("  mount     {} from {}\n", source_path_, options_.source);
  }
  if (client_) text += fmt::format("  folder    {}\n", options_.mountpoint);
  text += fmt::format(
      "In another shell:\n"
      "  export LEAT_RUNTIME_DIR={}   # what worker 1 is asked by\n"
      "  leat cluster\n"
      "  leat mount {} DIR -o token={}",
      workers_.front().runtime, seeds(), directory_.token());
  print(text);
  std::fflush(stdout);
}

// Reports the end of a process once; returns true then.
bool DevCluster::report_end(ChildProcess& process, bool& reported, const char* consequence) {
  if (reported || process.running()) return false;
  reported = true;
  note(fmt::format("{} (pid {}) {}; {}. Its log is {}", process.name(), process.pid(),
                   process.exit_description(), consequence, process.log()));
  return true;
}

CommandResult<> DevCluster::watch() {
  while (!signals_.stop_requested(1s)) {
    if (etcd_.process) {
      report_end(*etcd_.process, etcd_reported_,
                 "reads continue, but no worker can join or leave, and no mount can be added");
    }
    size_t left = workers_.size();
    for (DevDaemon& worker : workers_) {
      report_end(*worker.process, worker.reported, "requests fail over to the others");
      if (worker.reported) --left;
    }
    if (client_) report_end(*client_->process, client_->reported, "its mount was removed");
    if (left == 0) return failure(StatusCode::kUnavailable, "no worker is left");
  }
  return {};
}

CommandResult<> DevCluster::run() {
  LEAT_CHECK_OK(check());
  LEAT_TRY(directory_, DevDirectory::open(options_.directory));
  LEAT_CHECK_OK(start_registry());
  LEAT_CHECK_OK(start_workers());
  LEAT_CHECK_OK(mount_source());
  LEAT_CHECK_OK(mount_folder());
  tell();
  return watch();
}

// --- end -----------------------------------------------------------------------------------------

void DevCluster::end_all(const std::vector<ChildProcess*>& processes) {
  for (ChildProcess* process : processes) process->signal(SIGTERM);
  const auto until = Clock::now() + kEndPatience;
  for (ChildProcess* process : processes) {
    while (process->running()) {
      progress_.show(fmt::format("waiting for the end of {}", process->name()));
      // A second signal: the user does not want to wait for a clean end.
      if (!signals_.stop_requested(kLook) && Clock::now() < until) continue;
      note(fmt::format("{} (pid {}) is ended by force", process->name(), process->pid()));
      process->signal(SIGKILL);
      static_cast<void>(process->ends_within(2s));
      break;
    }
  }
  progress_.clear();
}

// Unmounts what a killed daemon left, including mounts of other commands.
void DevCluster::clean_up_after(const DevDaemon& daemon) {
  Result<> cleared = abort_hung_daemon(daemon.runtime, [](const std::string& what) { note(what); });
  if (!cleared) note(cleared.error().to_string());
  Result<std::string> text = read_file(connection_record(daemon.runtime), kMiB);
  if (!text) return;
  Result<RecordedConnections> record = parse_connections(*text);
  if (!record) return;
  for (const MountinfoLine& mount : record->mounts) {
    Result<bool> gone = remove_dead_mount(unescape_mount(mount.point));
    if (!gone) note(gone.error().to_string());
  }
}

// The client first, then the workers, then the registry.
void DevCluster::end() {
  progress_.clear();
  if (client_) end_all({client_->process.get()});
  std::vector<ChildProcess*> workers;
  for (const DevDaemon& worker : workers_) workers.push_back(worker.process.get());
  end_all(workers);
  if (etcd_.process) end_all({etcd_.process.get()});
  if (client_) clean_up_after(*client_);
  for (const DevDaemon& worker : workers_) clean_up_after(worker);
  Result<> removed = directory_.remove_if_temporary();
  if (!removed) note(removed.error().to_string());
}

}  // namespace

CommandResult<> run_cluster_dev(ClusterDevOptions options, bool json) {
  DevCluster cluster(std::move(options), json);
  CommandResult<> done = cluster.run();
  cluster.end();
  return done;
}

}  // namespace leat
