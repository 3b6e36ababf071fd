// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/cached/job_command.h"
#include "apps/client/daemon_client.h"
#include "apps/client/mount_paths.h"
#include "apps/command_table.h"
#include "apps/paths.h"
#include "apps/text_table.h"
#include "base/units.h"

namespace leat {
namespace {

class PinCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("PATH", path_, "A mount's folder, or a folder or file in one; nothing: list")
        ->type_name("PATH");
    app.add_flag("--off", off_, "Not any more");
    app.add_flag("--load", load_, "Fetch it into the cache, too");
  }

  Attempt<> run() override {
    if (path_.empty()) return list();
    if (off_ && load_) {
      return failure(StatusCode::kInvalidArgument, "--off and --load exclude each other");
    }
    LEAT_TRY(const std::string path, path_in_mounts("pin", path_));
    LEAT_CHECK_OK(check_in_mounts(path));
    MountChange change{.path = path};
    if (off_) {
      change.unset = {"pin"};
    } else {
      change.set = {{"pin", "true"}};
    }
    DaemonClient client(runtime_directory());
    if (!off_) LEAT_CHECK_OK(check_there(client, path));
    LEAT_TRY(Json answer, client.post("/v1/mounts/change", to_json(change)));
    if (load_) {
      JobCommand load(JobRequest{.kind = "load", .path = change.path});
      load.json = json;
      return load.run();
    }
    if (json) {
      print_json(answer);
    } else {
      print(fmt::format("{} {}", off_ ? "unpinned" : "pinned", change.path));
    }
    return {};
  }

 private:
  // Checks that the path exists, since a mistyped one would be pinned silently. Passes if the store
  // does not respond.
  Attempt<> check_there(DaemonClient& client, const std::string& path) {
    const Attempt<Json> found = client.get("/v1/stat", {{"path", path}});
    if (found || found.error().status.code() != StatusCode::kNotFound) return {};
    return failure(
        StatusCode::kNotFound,
        fmt::format("cannot pin {0}: {1}; 'leat mounts set {0} pin=true' pins a name that "
                    "is still to come",
                    path, found.error().status.to_string()));
  }

  // Lists pinned paths; each has a pool of its own in the cache.
  Attempt<> list() {
    LEAT_TRY(HostStatus status, DaemonClient(runtime_directory()).get_as<HostStatus>("/v1/status"));
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
  bool off_ = false, load_ = false;
};

}  // namespace

std::unique_ptr<Command> make_pin_command() {
  return std::make_unique<PinCommand>();
}

}  // namespace leat
