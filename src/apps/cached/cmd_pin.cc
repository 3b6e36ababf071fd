// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/cached/job_command.h"
#include "apps/client/daemon_client.h"
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
    if (is_store_url(path_)) {
      return failure(
          StatusCode::kInvalidArgument,
          fmt::format("pin works on folders of a mount, not on {}; mount it first", path_));
    }
    if (off_ && load_) {
      return failure(StatusCode::kInvalidArgument, "--off and --load exclude each other");
    }
    MountChange change{.path = absolute_path(path_)};
    if (off_) {
      change.unset = {"pin"};
    } else {
      change.set = {{"pin", "true"}};
    }
    DaemonClient client(runtime_directory());
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
  // What is pinned has a pool of its own in the cache.
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
