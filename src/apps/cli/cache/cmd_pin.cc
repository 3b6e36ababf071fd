// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/cli/cache/job_command.h"
#include "apps/cli/client/daemon_client.h"
#include "apps/cli/client/mount_paths.h"
#include "apps/cli/command/command_table.h"
#include "base/text_table.h"
#include "base/units.h"
#include "config/paths.h"

namespace leat {
namespace {

class PinCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("PATH", path_, "Mount point, or a folder or file in a mount; none: list pins")
        ->type_name("PATH");
    app.add_flag("--load", load_, "Also load it into the cache");
  }

  CommandResult<> run() override {
    if (path_.empty()) return list();
    LEAT_TRY(const std::string path, path_in_mounts("pin", path_));
    LEAT_CHECK_OK(check_in_mounts(path));
    const MountChange change{.path = path, .set = {{"pin", "true"}}};
    DaemonClient client(runtime_directory());
    LEAT_CHECK_OK(check_there(client, path));
    LEAT_TRY(Json answer, client.post("/v1/mounts/change", to_json(change)));
    if (load_) {
      JobCommand load(JobRequest{.kind = "load", .path = change.path});
      load.json = json;
      return load.run();
    }
    if (json) {
      print_json(answer);
    } else {
      print("pinned " + change.path);
    }
    return {};
  }

 private:
  // Checks that the path exists, since a mistyped one would be pinned silently. Passes if the store
  // does not respond.
  CommandResult<> check_there(DaemonClient& client, const std::string& path) {
    const CommandResult<Json> found = client.get("/v1/stat", {{"path", path}});
    if (found || found.error().status.code() != StatusCode::kNotFound) return {};
    return failure(
        StatusCode::kNotFound,
        fmt::format("cannot pin {0}: {1}; 'leat mounts set {0} pin=true' pins a name that "
                    "is still to come",
                    path, found.error().status.to_string()));
  }

  // Lists pinned paths; each has a pool of its own in the cache.
  CommandResult<> list() {
    LEAT_TRY(DaemonStatus status,
             DaemonClient(runtime_directory()).get_as<DaemonStatus>("/v1/status"));
    Json pinned = Json::array();
    TextTable table("rl");
    for (const PoolStats& pool : status.cache.pools) {
      if (!pool.policy.pinned || pool.policy.name.empty()) continue;
      pinned.push_back({{"path", pool.policy.name}, {"cached_bytes", pool.used_bytes}});
      table.add({format_bytes(pool.used_bytes), pool.policy.name});
    }
    if (json) {
      print_json({{"pinned", pinned}});
    } else if (const std::string text = table.to_string(); !text.empty()) {
      print(text);
    }
    return {};
  }

  std::string path_;
  bool load_ = false;
};

class UnpinCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("PATH", path_, "A pinned folder or file, as 'leat pin' lists it")
        ->type_name("PATH")
        ->required();
  }

  CommandResult<> run() override {
    LEAT_TRY(std::string path, path_in_mounts("unpin", path_));
    LEAT_CHECK_OK(check_in_mounts(path));
    const MountChange change{.path = std::move(path), .unset = {"pin"}};
    LEAT_TRY(Json answer,
             DaemonClient(runtime_directory()).post("/v1/mounts/change", to_json(change)));
    if (json) {
      print_json(answer);
    } else {
      print("unpinned " + change.path);
    }
    return {};
  }

 private:
  std::string path_;
};

}  // namespace

std::unique_ptr<Command> make_pin_command() {
  return std::make_unique<PinCommand>();
}

std::unique_ptr<Command> make_unpin_command() {
  return std::make_unique<UnpinCommand>();
}

}  // namespace leat
