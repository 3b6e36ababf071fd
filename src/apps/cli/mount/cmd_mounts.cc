// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>

#include "apps/cli/client/daemon_client.h"
#include "apps/cli/client/mount_paths.h"
#include "apps/cli/command/command_table.h"
#include "base/text_table.h"
#include "base/units.h"
#include "config/paths.h"

namespace leat {
namespace {

std::string features_of(const MountView& mount) {
  std::vector<std::string> words;
  if (!mount.own_fuse_mount) words.emplace_back("nested");
  if (mount.allow_other) words.emplace_back("allow-other");
  for (const auto& [name, on] : mount.features) {
    if (on) words.push_back(name);
  }
  if (mount.unsent && mount.unsent->changes > 0) {
    words.push_back(fmt::format("unsent:{}", format_bytes(mount.unsent->bytes)));
  }
  return fmt::format("{}", fmt::join(words, ","));
}

std::string values_of(const OptionValues& options) {
  std::vector<std::string> words;
  for (const auto& [name, value] : options) words.push_back(fmt::format("{}={}", name, value));
  return fmt::format("{}", fmt::join(words, ","));
}

class MountsCommand : public Command {
 public:
  void declare(CLI::App& app) override;
  CommandResult<> run() override { return action_(); }

 private:
  CommandResult<> list();
  CommandResult<> mount() { return run_other(*mount_); }
  CommandResult<> umount() { return run_other(*umount_); }
  CommandResult<> run_other(Command& command) {
    command.json = json;
    return command.run();
  }
  CommandResult<> set();
  CommandResult<> unset();
  CommandResult<> move();
  CommandResult<> change(MountChange change);

  std::function<CommandResult<>()> action_ = [this] { return list(); };
  const std::unique_ptr<Command> mount_ = make_mount_command();
  const std::unique_ptr<Command> umount_ = make_umount_command();
  std::string path_, to_;
  std::vector<std::string> words_;
};

void MountsCommand::declare(CLI::App& app) {
  app.require_subcommand(0, 1);
  app.fallthrough();
  auto add = [&](const char* name, const char* help, CommandResult<> (MountsCommand::*action)()) {
    CLI::App* sub = app.add_subcommand(name, help);
    sub->callback([this, action] { action_ = [this, action] { return (this->*action)(); }; });
    return sub;
  };
  add("ls", "List the mounts (default)", &MountsCommand::list)->alias("list");
  mount_->declare(*add("add", "As 'leat mount'", &MountsCommand::mount));
  CLI::App* remove = add("rm", "As 'leat umount'", &MountsCommand::umount);
  remove->alias("remove");
  umount_->declare(*remove);
  CLI::App* set = add("set", "Change options of a mount or of a path in it, while mounted",
                      &MountsCommand::set);
  set->add_option("PATH", path_, "Mount point, or a folder or file in the mount")
      ->type_name("PATH")
      ->required();
  set->add_option("NAME=VALUE", words_,
                  "freshness, negative_ttl, cache, write, quota, ttl, priority, pin; of a whole "
                  "mount also uid, gid, umask")
      ->type_name("NAME=VALUE")
      ->required();
  set->alias("update");
  CLI::App* unset = add("unset", "Restore the defaults of options", &MountsCommand::unset);
  unset->add_option("PATH", path_, "As for set")->type_name("PATH")->required();
  unset->add_option("NAME", words_, "Options")->type_name("NAME")->required();
  CLI::App* move = add("move", "Move a mount to another mount point", &MountsCommand::move);
  move->add_option("FROM", path_, "Mount point; no file in it may be open")
      ->type_name("MOUNT")
      ->required();
  move->add_option("TO", to_, "An existing folder")->type_name("DIR")->required();
}

CommandResult<> MountsCommand::list() {
  LEAT_TRY(Json answer, DaemonClient(runtime_directory()).get("/v1/mounts"));
  if (json) {
    print_json(answer);
    return {};
  }
  TextTable table("llll");
  for (const Json& item : answer["mounts"]) {
    LEAT_TRY(MountView mount, from_json<MountView>(item));
    table.add({mount.path, mount.source, mount.freshness, features_of(mount)});
    for (const auto& [below, options] : mount.paths) {
      table.add({"  " + below, "", "", values_of(options)});
    }
  }
  std::string text = table.to_string();
  if (!text.empty()) print(text);
  return {};
}

CommandResult<> MountsCommand::set() {
  MountChange wanted;
  LEAT_TRY(wanted.path, path_in_mounts("mounts set", path_));
  LEAT_TRY(wanted.set, parse_options(words_));
  return change(std::move(wanted));
}

CommandResult<> MountsCommand::unset() {
  LEAT_TRY(std::string path, path_in_mounts("mounts unset", path_));
  return change({.path = std::move(path), .unset = words_});
}

CommandResult<> MountsCommand::change(MountChange change) {
  LEAT_CHECK_OK(check_in_mounts(change.path));
  LEAT_TRY(Json answer,
           DaemonClient(runtime_directory()).post("/v1/mounts/change", to_json(change)));
  if (json) {
    print_json(answer);
  } else {
    print("changed " + change.path);
  }
  return {};
}

CommandResult<> MountsCommand::move() {
  LEAT_TRY(std::string from, path_in_mounts("mounts move", path_));
  const MountMove move{.from = std::move(from), .to = absolute_path(to_)};
  LEAT_TRY(Json answer, DaemonClient(runtime_directory()).post("/v1/mounts/move", to_json(move)));
  if (json) {
    print_json(answer);
  } else {
    print(fmt::format("moved {} to {}", move.from, move.to));
  }
  return {};
}

}  // namespace

std::unique_ptr<Command> make_mounts_command() {
  return std::make_unique<MountsCommand>();
}

}  // namespace leat
