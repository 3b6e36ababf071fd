// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/cli/client/daemon_client.h"
#include "apps/cli/client/mount_paths.h"
#include "apps/cli/command/command_table.h"
#include "config/paths.h"
#include "daemon/mounts/mount_target.h"

namespace leat {
namespace {

class UmountCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("DIR", directory_, "The folder")->type_name("MOUNT")->required();
    app.add_flag("-l,--lazy", lazy_, "Unmount now; open files are served until they are closed");
  }

  CommandResult<> run() override {
    LEAT_TRY(std::string path, path_in_mounts("umount", directory_));
    DaemonClient client(runtime_directory());
    CommandResult<Json> gone =
        client.remove("/v1/mounts", {{"path", path}, {"lazy", lazy_ ? "1" : "0"}});
    if (!gone) {
      // A killed daemon left a mount that does not respond.
      LEAT_TRY(bool stale, remove_dead_mount(path));
      if (!stale) return std::unexpected(gone.error());
    }
    if (json) {
      print_json(Json{{"path", path}});
    } else {
      print(fmt::format("unmounted {}", path));
    }
    return {};
  }

 private:
  std::string directory_;
  bool lazy_ = false;
};

}  // namespace

std::unique_ptr<Command> make_umount_command() {
  return std::make_unique<UmountCommand>();
}

}  // namespace leat
