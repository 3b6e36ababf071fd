// SPDX-License-Identifier: Apache-2.0
// What is asked of a cluster by way of the worker that runs here, and what its workers and clients
// know each other by: secrets and tokens.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "apps/client/daemon_client.h"
#include "apps/command_table.h"
#include "apps/paths.h"
#include "apps/text_table.h"
#include "base/units.h"
#include "doors/admin/codec_cluster.h"
#include "model/mount_entry.h"
#include "peer/trust/token.h"
#include "runtime/disk.h"

namespace leat {
namespace {

// A new file that only its owner may read; never over one that is there.
Result<> write_secret(const std::string& path, const std::string& text) {
  File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.fd() < 0 && errno == EEXIST) {
    return error(StatusCode::kExists,
                 fmt::format("{} is there already; remove it, or name another file", path));
  }
  if (file.fd() < 0) return error(status_from_errno(errno, "cannot make " + path));
  const ssize_t written = ::write(file.fd(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) {
    return error(status_from_errno(errno, "cannot write " + path));
  }
  return {};
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
    umount->add_option("PATH", path_, "In the cluster's namespace")->type_name("NAME")->required();
    CLI::App* drain = add("drain", "Give this worker's share to the others, before it goes",
                          &ClusterCommand::drain);
    drain->add_flag("--back", back_, "Take a share again");
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
    token->add_option("--days", days_, "For how long; 0: for ever (365)")->type_name("NUMBER");
    token->add_option("--secret-file", secret_file_, "The workers' (/etc/leat/cluster.secret)")
        ->type_name("FILE");
  }

  Attempt<> run() override { return action_(); }

 private:
  Attempt<> status();
  Attempt<> mount();
  Attempt<> unmount();
  Attempt<> drain();
  Attempt<> secret();
  Attempt<> token();
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
  std::vector<std::string> options_, readable_;
  uint64_t days_ = 365;
  bool back_ = false;
};

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
  for (const ClusterMountView& mount : view.mounts) {
    print(fmt::format(
        "{} from {}{}", printable(mount.path), mount.source,
        mount.trouble.empty() ? "" : ", not served by this worker: " + printable(mount.trouble)));
  }
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

Attempt<> ClusterCommand::drain() {
  DaemonClient client(runtime_directory());
  LEAT_TRY(Json answer,
           client.post("/v1/cluster/drain", to_json(ClusterDrainRequest{.back = back_})));
  return done(Json{{"back", back_}},
              back_ ? "this worker has a share again"
                    : "this worker's share is with the others; what it has cached they ask it "
                      "for as long as it runs");
}

Attempt<> ClusterCommand::secret() {
  LEAT_CHECK_OK(write_secret(file_, make_secret()));
  return done(Json{{"file", file_}},
              fmt::format("wrote {}; copy it to each worker (mode 0600)", file_));
}

Attempt<> ClusterCommand::token() {
  LEAT_TRY(auto secrets, SecretFile::open(secret_file_));
  TokenClaims claims;
  claims.principal = principal_;
  claims.id = Id128::random();
  if (readable_.empty()) readable_.emplace_back("/");
  for (const std::string& one : readable_) {
    LEAT_TRY(std::string path, normalise_path(one));
    claims.rights.add(std::move(path), {Right::kRead});
  }
  constexpr int64_t kDay = 24 * 3600;
  if (days_ > 0) {
    claims.expires = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()) +
                     static_cast<int64_t>(std::min<uint64_t>(days_, 100'000)) * kDay;
  }
  LEAT_TRY(Token token, issue(secrets->current()->signing(), claims));
  LEAT_CHECK_OK(write_secret(file_, token.to_line()));
  return done(
      Json{{"file", file_}, {"principal", principal_}, {"expires", claims.expires}},
      fmt::format("wrote {}; 'leat mount leat://HOST:PORT DIR -o token={}' uses it", file_, file_));
}

}  // namespace

std::unique_ptr<Command> make_cluster_command() {
  return std::make_unique<ClusterCommand>();
}

}  // namespace leat
