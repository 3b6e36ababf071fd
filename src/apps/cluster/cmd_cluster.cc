// SPDX-License-Identifier: Apache-2.0
// Requests to a cluster through the worker on this host, and creation of its secrets and tokens.
#include <fmt/format.h>

#include <functional>
#include <thread>

#include "apps/cached/job_command.h"
#include "apps/client/daemon_client.h"
#include "apps/cluster/cluster_dev.h"
#include "apps/cluster/secret_files.h"
#include "apps/command_table.h"
#include "apps/paths.h"
#include "apps/progress.h"
#include "apps/reference/command_description.h"
#include "apps/text_table.h"
#include "base/counted.h"
#include "base/units.h"
#include "doors/admin/codec_cluster.h"
#include "peer/trust/cluster_secret.h"

namespace leat {
namespace {

constexpr auto kDrainLookedAt = std::chrono::milliseconds(200);

std::string describe(const ClusterDrainView& drain) {
  const std::string moved =
      fmt::format("{}, {}", counted(drain.objects_done, "object"), format_bytes(drain.bytes_done));
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
      moved, counted(drain.objects_failed, "object"));
}

class ClusterCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.require_subcommand(0, 1);
    app.fallthrough();
    auto add = [&](const char* name, const char* help, Attempt<> (ClusterCommand::*action)()) {
      CLI::App* sub = app.add_subcommand(name, help);
      sub->callback([this, action] { action_ = [this, action] { return (this->*action)(); }; });
      return sub;
    };
    add("status", "Workers, shares and mounts (also without a word)", &ClusterCommand::status);
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
    CLI::App* umount = add("umount", "Take such a mount away", &ClusterCommand::unmount);
    umount->add_option("PATH", path_, "In the cluster's namespace")
        ->type_name(value_name::kClusterMount)
        ->required();
    CLI::App* drain =
        add("drain", "Give this worker's share and what it has to the others, before it goes",
            &ClusterCommand::drain);
    drain->add_flag("--back", back_, "Take a share again");
    drain->add_option("--bandwidth", bandwidth_, "Others take at most so many bytes a second")
        ->type_name("SIZE");
    drain->add_flag("--background", background_,
                    "Return when the share is with the others, and not when all else is");
    CLI::App* secret =
        add("secret", "Make the file of what all workers share", &ClusterCommand::secret);
    secret->add_option("FILE", file_, "To be made")->type_name("FILE")->required();
    CLI::App* token = add("token", "Make a client's token", &ClusterCommand::token);
    token->add_option("FILE", file_, "To be made")->type_name("FILE")->required();
    token->add_option("--principal", principal_, "Whose it is, for logs")
        ->type_name("NAME")
        ->required();
    token
        ->add_option("--read", readable_,
                     "What it may read, with all below; may be given "
                     "several times (/)")
        ->type_name("NAME")
        ->allow_extra_args(false);
    token
        ->add_option("--jobs", job_paths_,
                     "Where it may order jobs of the cluster, with all below; may be given several "
                     "times")
        ->type_name("NAME")
        ->allow_extra_args(false);
    token
        ->add_option("--write", writable_,
                     "Where its jobs may copy to, with all below; may be given several times")
        ->type_name("NAME")
        ->allow_extra_args(false);
    token->add_flag("--admin", admin_, "Its jobs may copy to any store that workers can write to");
    token->add_option("--days", days_, "For how long; 0: for ever (365)")->type_name("NUMBER");
    token->add_option("--secret-file", secret_file_, "The workers' (/etc/leat/cluster.secret)")
        ->type_name("FILE");
    add_command(app, "load", "Bring files into the workers' caches, before they are needed", load_);
    add_command(app, "free", "Give the space of files back, on all workers", free_);
    add_command(app, "cp", "Copy files to another place of the namespace, or to a store", copy_);
    add_command(app, "verify", "Compare all that workers have cached with its checksums", verify_);
    add_command(app, "jobs", "The cluster's jobs, which its leader does", *jobs_);
    declare_dev(*add("dev", "Run a whole cluster on this machine, to try it, until Ctrl-C",
                     &ClusterCommand::dev));
  }

  Attempt<> run() override { return action_(); }

 private:
  Attempt<> status();
  Attempt<> mount();
  Attempt<> unmount();
  Attempt<> drain();
  Attempt<> secret();
  Attempt<> token();
  Attempt<> dev();
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
  Attempt<> done(const Json& document, const std::string& text) {
    if (json) {
      print_json(document);
    } else {
      print(text);
    }
    return {};
  }

  std::function<Attempt<>()> action_ = [this] { return status(); };
  std::string source_, path_, file_, principal_, secret_file_ = "/etc/leat/cluster.secret";
  std::vector<std::string> options_, readable_, writable_, job_paths_;
  bool admin_ = false;
  uint64_t days_ = 365;
  bool back_ = false, background_ = false;
  std::string bandwidth_;
  ClusterDevOptions dev_;
  JobCommand load_{"load", cluster_jobs()};
  JobCommand free_{"free", cluster_jobs()};
  JobCommand copy_{"copy", cluster_jobs()};
  JobCommand verify_{"verify", cluster_jobs()};
  const std::unique_ptr<Command> jobs_ = make_jobs_command(cluster_jobs());
};

void ClusterCommand::declare_dev(CLI::App& dev) {
  dev.add_option("N", dev_.workers, "Workers")->type_name("NUMBER")->required();
  dev.add_option("MOUNTPOINT", path_,
                 "An existing directory, at which the cluster's namespace is mounted")
      ->type_name("DIR");
  dev.add_option("--dir", dev_.directory,
                 "Where it keeps all it has, also for the next time (a temporary one)")
      ->type_name("DIR");
  dev.add_option("--mount", source_, "Store URL (s3://bucket/prefix), mounted for all")
      ->type_name("URL");
  dev.add_option("-o,--option", options_, "Option of that store or mount, name=value")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  one_of(dev.add_option("--registry", dev_.registry, "file is for a single worker (etcd)"),
         {"etcd", "file"});
}

Attempt<> ClusterCommand::status() {
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
  }
  if (view.drain) print(describe(*view.drain));
  return {};
}

Attempt<> ClusterCommand::mount() {
  ClusterMountRequest request{.path = path_, .source = source_};
  LEAT_TRY(request.options, parse_options(options_));
  DaemonClient client(runtime_directory());
  LEAT_TRY(Json answer, client.post("/v1/cluster/mounts", to_json(request)));
  return done(answer, fmt::format("mounted {} at {} of the cluster", source_, path_));
}

Attempt<> ClusterCommand::unmount() {
  DaemonClient client(runtime_directory());
  LEAT_TRY(Json answer, client.remove("/v1/cluster/mounts", {{"path", path_}}));
  return done(Json{{"path", path_}}, fmt::format("{} is no mount of the cluster any more", path_));
}

// The worker drains by itself; this command only waits.
Attempt<> ClusterCommand::drain() {
  DaemonClient client(runtime_directory());
  ClusterDrainRequest request{.back = back_};
  if (!bandwidth_.empty()) {
    LEAT_TRY(request.bandwidth, parse_bytes(bandwidth_));
  }
  LEAT_TRY(Json answer, client.post("/v1/cluster/drain", to_json(request)));
  if (back_) return done(Json{{"back", true}}, "this worker has a share again");
  if (background_) {
    return done(Json{{"back", false}},
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
    std::this_thread::sleep_for(kDrainLookedAt);
  }
  progress.clear();
  if (!view.drain || view.drain->stopped) {
    return failure(StatusCode::kCancelled,
                   "the drain was called off ('leat cluster drain --back')");
  }
  Json document = to_json(*view.drain);
  document["back"] = false;
  if (view.drain->objects_failed == 0) return done(document, describe(*view.drain));
  for (const std::string& error : view.drain->errors) note(printable(error));
  Failure some(Status(StatusCode::kUnavailable, describe(*view.drain)), ExitCode::kFailed);
  some.document = std::move(document);
  return std::unexpected(std::move(some));
}

Attempt<> ClusterCommand::secret() {
  LEAT_CHECK_OK(write_secret_file(file_, make_secret()));
  return done(Json{{"file", file_}},
              fmt::format("wrote {}; copy it to each worker (mode 0600)", file_));
}

Attempt<> ClusterCommand::token() {
  TokenOrder order{.secret_file = secret_file_,
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

Attempt<> ClusterCommand::dev() {
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
