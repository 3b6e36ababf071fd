// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/cli/client/daemon_client.h"
#include "apps/cli/client/mount_paths.h"
#include "apps/cli/command/command_table.h"
#include "apps/cli/mount/flush_wait.h"
#include "config/paths.h"
#include "daemon/mounts/mount_target.h"

namespace leat {
namespace {

class UmountCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("DIR", directory_, "The folder")->type_name("MOUNT")->required();
    app.add_flag("-l,--lazy", lazy_, "Unmount now; open files are served until they are closed");
    app.add_flag(
        "--no-flush", no_flush_,
        "Leave what the store does not have (write=back) on this host; it is sent when the "
        "folder is mounted again");
  }

  CommandResult<> run() override {
    LEAT_TRY(std::string path, path_in_mounts("umount", directory_));
    DaemonClient client(runtime_directory());
    if (!no_flush_) LEAT_CHECK_OK(flush(client, path));
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
  // Without a daemon, or a mount, the request to unmount says so.
  static CommandResult<> flush(DaemonClient& client, const std::string& path) {
    const CommandResult<UnsentView> sent = wait_for_flush(client, path);
    if (sent || sent.error().code == ExitCode::kNoDaemon) return {};
    const std::string stays = fmt::format(
        "{} stays mounted, since its store does not have all that was written; 'leat umount "
        "--no-flush {}' leaves that on this host until it is mounted again",
        path, path);
    return std::unexpected(Failure(sent.error().status.with_context(stays), sent.error().code));
  }

  std::string directory_;
  bool lazy_ = false, no_flush_ = false;
};

}  // namespace

std::unique_ptr<Command> make_umount_command() {
  return std::make_unique<UmountCommand>();
}

}  // namespace leat
