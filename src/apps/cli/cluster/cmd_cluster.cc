// SPDX-License-Identifier: Apache-2.0
// Requests to a cluster through the worker on this host, and creation of its secrets and tokens.
#include <fmt/format.h>

#include <functional>
#include <thread>

#include "apps/cli/cache/job_command.h"
#include "apps/cli/client/daemon_client.h"
#include "apps/cli/cluster/cluster_dev.h"
#include "apps/cli/cluster/secret_files.h"
#include "apps/cli/command/command_table.h"
#include "apps/cli/command/progress.h"
#include "apps/cli/help/command_description.h"
#include "auth/cluster_secret.h"
#include "base/pluralize.h"
#include "base/text_table.h"
#include "base/units.h"
#include "config/paths.h"
#include "frontends/admin/codec_cluster.h"

namespace leat {
namespace {

constexpr auto kDrainPollInterval = std::chrono::milliseconds(200);

std::string describe(const ClusterDrainView& drain) {
  const std::string moved = fmt::format("{}, {}", pluralize(drain.objects_done, "object"),
                                        format_bytes(drain.bytes_done));
  if (!drain.ended) {
    return fmt::format("draining: {} of about {}, {} are with others", moved, drain.objects_total,
                       format_bytes(drain.bytes_total));
  }
  if (drain.stopped) return "the drain was called off";
  if (drain.objects_failed == 0) {
    return fmt::format("all that this worker had is with others ({}); it can be ended", moved);
  }
  return fmt::format(
      "{} are with others, {} are not: those go with this worker, and are fetched "
      "from the store when they are wanted",
      moved, pluralize(drain.objects_failed, "object"));
}

class ClusterCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.require_subcommand(0, 1);
    app.fallthrough();
    auto add = [&](const char* name, const char* help,
                   CommandResult<> (ClusterCommand::*action)()) {
      CLI::App* sub = app.add_subcommand(name, help);
      sub->callback([this, action] { action_ = [this, action] { return (this->*action)(); }; });
      return sub;
    };
    add("status", "Show workers, shares and mounts (default)", &ClusterCommand::status);
    CLI::App* mount =
        add("mount", "Mount a store for all workers and clients", &ClusterCommand::mount);
    mount->add_option("SOURCE", source_, "Store URL (s3://bucket/prefix)")
        ->type_name("URL")
        ->required();
    mount->add_option("PATH", path_, "In the cluster's namespace: /data/train")
        ->type_name("NAME")
        ->required();
    mount->add_option("-o,--option", options_, "Option of the store or of the mount, name=value")
        ->type_name("NAME=VALUE");
    CLI::App* umount =
        add("umount", "Unmount a store for all workers and clients", &ClusterCommand::unmount);
    umount->add_option("PATH", path_, "In the cluster's namespace")
        ->type_name(value_name::kClusterMount)
        ->required();
    CLI::App* drain =
        add("drain", "Move this worker's share and cached data to others before it leaves",
            &ClusterCommand::drain);
    drain
        ->add_option("--bandwidth", bandwidth_, "Maximum bytes per second that other workers fetch")
        ->type_name("SIZE");
    drain->add_flag("--background", background_,
                    "Return when the ring has changed, without waiting for the data to move");
    add("undrain", "End a drain: this worker takes a share again", &ClusterCommand::undrain);
    CLI::App* secret =
        add("secret", "Create the secret file of a cluster", &ClusterCommand::secret);
    secret->add_option("FILE", file_, "File to create")->type_name("FILE")->required();
    CLI::App* token = add("token", "Create a client's token", &ClusterCommand::token);
    token->add_option("FILE", file_, "File to create")->type_name("FILE")->required();
    token->add_option("--principal", principal_, "User or service of the token, for logs")
        ->type_name("NAME")
        ->required();
    token->add_option("--read", readable_, "Path it may read, recursively; may be repeated (/)")
        ->type_name("NAME")
        ->allow_extra_args(false);
    token
        ->add_option("--jobs", job_paths_,
                     "Path on which it may run cluster jobs, recursively; may be repeated")
        ->type_name("NAME")
        ->allow_extra_args(false);
    token->add_option("--write", writable_, "Path it may write, recursively; may be repeated")
        ->type_name("NAME")
        ->allow_extra_args(false);
    token->add_flag("--admin", admin_, "Its jobs may copy to any store that workers can write to");
    token->add_option("--days", days_, "Validity in days; 0: no expiry (365)")->type_name("NUMBER");
    token
        ->add_option("--secret-file", secret_file_,
                     "Secret file of the workers (/etc/leat/cluster.secret)")
        ->type_name("FILE");
    add_command(app, "load", "Load files into the workers' caches", load_);
    add_command(app, "free", "Remove files from the caches of all workers", free_);
    add_command(app, "cp", "Copy files within the namespace or to a store", copy_);
    add_command(app, "verify", "Verify all cached data of the workers against its checksums",
                verify_);
    add_command(app, "jobs", "Jobs of the cluster, run by its leader", *jobs_);
    declare_dev(*add("dev", "Run a whole cluster on this machine, to try it, until Ctrl-C",
                     &ClusterCommand::dev));
  }

  CommandResult<> run() override { return action_(); }

 private:
  CommandResult<> status();
  CommandResult<> mount();
  CommandResult<> unmount();
  CommandResult<> drain();
  CommandResult<> undrain();
  CommandResult<> secret();
  CommandResult<> token();
  CommandResult<> dev();
  void declare_dev(CLI::App& dev);
  void add_command(CLI::App& app, const char* name, const char* help, Command& command) {
    CLI::App* sub = app.add_subcommand(name, help);
    command.declare(*sub);
    sub->callback([this, &command] {
      action_ = [this, &command] {
        command.json = json;
        return command.run();
      };
    });
  }
  CommandResult<> done(const Json& document, const std::string& text) {
    if (json) {
      print_json(document);
    } else {
      print(text);
    }
    return {};
  }

  std::function<CommandResult<>()> action_ = [this] { return status(); };
  std::string source_, path_, file_, principal_, secret_file_ = "/etc/leat/cluster.secret";
  std::vector<std::string> options_, readable_, writable_, job_paths_;
  bool admin_ = false;
  uint64_t days_ = 365;
  bool background_ = false;
  std::string bandwidth_;
  ClusterDevOptions dev_;
  JobCommand load_{"load", cluster_job_endpoints()};
  JobCommand free_{"free", cluster_job_endpoints()};
  JobCommand copy_{"copy", cluster_job_endpoints()};
  JobCommand verify_{"verify", cluster_job_endpoints()};
  const std::unique_ptr<Command> jobs_ = make_jobs_command(cluster_job_endpoints());
};

void ClusterCommand::declare_dev(CLI::App& dev) {
  dev.add_option("N", dev_.workers, "Workers")->type_name("NUMBER")->required();
  dev.add_option("MOUNTPOINT", path_,
                 "An existing directory, at which the cluster's namespace is mounted")
      ->type_name("DIR");
  dev.add_option("--dir", dev_.directory,
                 "Directory of the cluster's state, kept between runs (temporary)")
      ->type_name("DIR");
  dev.add_option("--mount", source_, "Store URL (s3://bucket/prefix), mounted for all")
      ->type_name("URL");
  dev.add_option("-o,--option", options_, "Option of that store or mount, name=value")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  one_of(dev.add_option("--registry", dev_.registry, "file is for a single worker (etcd)"),
         {"etcd", "file"});
}

CommandResult<> ClusterCommand::status() {
  LEAT_TRY(Json answer, DaemonClient(runtime_directory()).get("/v1/cluster"));
  if (json) {
    print_json(answer);
    return {};
  }
  LEAT_TRY(ClusterStatusView view, from_json<ClusterStatusView>(answer));
  print(fmt::format("cluster {}, ring {}", view.name.empty() ? "(not known yet)" : view.name,
                    view.epoch));
  if (!view.trouble.empty()) print("registry: " + printable(view.trouble));
  TextTable table("lllrrl");
  for (const ClusterWorkerView& worker : view.workers) {
    std::string notes = worker.state;
    if (worker.id == view.leader) notes += ", leads";
    if (worker.id == view.self) notes += ", this one";
    table.add({worker.id.substr(0, 8), worker.host.empty() ? "-" : worker.host,
               worker.address.empty() ? "-" : worker.address, format_bytes(worker.capacity_bytes),
               fmt::format("{:.1f} %", worker.share * 100), notes});
  }
  if (std::string text = table.to_string(); !text.empty()) print(text);
  for (const ClusterWorkerView& worker : view.workers) {
    if (worker.trouble.empty()) continue;
    print(fmt::format("worker {} is {}: {}", worker.id.substr(0, 8), worker.state,
                      printable(worker.trouble)));
  }
  for (const ClusterMountView& mount : view.mounts) {
    print(fmt::format(
        "{} from {}{}", printable(mount.path), mount.source,
        mount.trouble.empty() ? "" : ", not served by this worker: " + printable(mount.trouble)));
    if (mount.unsent_changes == 0) continue;
    print(fmt::format("    {} writes with {} are on workers, and not in the store yet{}",
                      mount.unsent_changes, format_bytes(mount.unsent_bytes),
                      mount.unsent_trouble.empty() ? "" : ": " + printable(mount.unsent_trouble)));
  }
  if (view.drain) print(describe(*view.drain));
  return {};
}

CommandResult<> ClusterCommand::mount() {
  ClusterMountRequest request{.path = path_, .source = source_};
  LEAT_TRY(request.options, parse_options(options_));
  DaemonClient client(runtime_directory());
  LEAT_TRY(Json answer, client.post("/v1/cluster/mounts", to_json(request)));
  return done(answer, fmt::format("mounted {} at {} of the cluster", source_, path_));
}

CommandResult<> ClusterCommand::unmount() {
  DaemonClient client(runtime_directory());
  LEAT_TRY(Json answer, client.remove("/v1/cluster/mounts", {{"path", path_}}));
  return done(Json{{"path", path_}}, fmt::format("{} is no mount of the cluster any more", path_));
}

// The worker drains by itself; this command only waits.
CommandResult<> ClusterCommand::drain() {
  DaemonClient client(runtime_directory());
  ClusterDrainRequest request;
  if (!bandwidth_.empty()) {
    LEAT_TRY(request.bandwidth, parse_bytes(bandwidth_));
  }
  LEAT_TRY(Json answer, client.post("/v1/cluster/drain", to_json(request)));
  if (background_) {
    return done(Json{{"undrained", false}},
                "this worker's share is with the others, and they take what it has cached; 'leat "
                "cluster' says how far that is");
  }
  Progress progress(std::chrono::milliseconds(500));
  ClusterStatusView view;
  while (true) {
    LEAT_TRY(answer, client.get("/v1/cluster"));
    LEAT_TRY(view, from_json<ClusterStatusView>(answer));
    if (!view.drain || view.drain->ended) break;
    progress.show({.bytes_done = view.drain->bytes_done,
                   .bytes_total = view.drain->bytes_total,
                   .files_done = view.drain->objects_done,
                   .files_total = view.drain->objects_total});
    std::this_thread::sleep_for(kDrainPollInterval);
  }
  progress.clear();
  if (!view.drain || view.drain->stopped) {
    return failure(StatusCode::kCancelled, "the drain was called off ('leat cluster undrain')");
  }
  Json document = to_json(*view.drain);
  document["undrained"] = false;
  if (view.drain->objects_failed == 0) return done(document, describe(*view.drain));
  for (const std::string& error : view.drain->errors) note(printable(error));
  Failure some(Status(StatusCode::kUnavailable, describe(*view.drain)), ExitCode::kFailed);
  some.document = std::move(document);
  return std::unexpected(std::move(some));
}

CommandResult<> ClusterCommand::undrain() {
  DaemonClient client(runtime_directory());
  const ClusterDrainRequest request{.undrain = true};
  LEAT_TRY(Json answer, client.post("/v1/cluster/drain", to_json(request)));
  return done(Json{{"undrained", true}}, "this worker has a share again");
}

CommandResult<> ClusterCommand::secret() {
  LEAT_CHECK_OK(write_secret_file(file_, make_secret()));
  return done(Json{{"file", file_}},
              fmt::format("wrote {}; copy it to each worker (mode 0600)", file_));
}

CommandResult<> ClusterCommand::token() {
  TokenRequest order{.secret_file = secret_file_,
                     .principal = principal_,
                     .readable = readable_,
                     .writable = writable_,
                     .jobs = job_paths_,
                     .admin = admin_,
                     .days = days_};
  LEAT_TRY(TokenClaims claims, write_token(file_, order));
  return done(
      Json{{"file", file_}, {"principal", principal_}, {"expires", claims.expires}},
      fmt::format("wrote {}; 'leat mount leat://HOST:PORT DIR -o token={}' uses it", file_, file_));
}

CommandResult<> ClusterCommand::dev() {
  dev_.source = source_;
  dev_.mountpoint = path_;
  LEAT_TRY(dev_.options, parse_options(options_));
  return run_cluster_dev(std::move(dev_), json);
}

}  // namespace

std::unique_ptr<Command> make_cluster_command() {
  return std::make_unique<ClusterCommand>();
}

}  // namespace leat
