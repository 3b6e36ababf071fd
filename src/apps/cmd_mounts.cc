// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/client/daemon_client.h"
#include "apps/command_table.h"
#include "apps/paths.h"
#include "apps/text_table.h"

namespace leat {
namespace {

std::string features_of(const MountView& mount) {
  std::vector<std::string> words;
  if (!mount.door) words.emplace_back("nested");
  if (mount.read_only) words.emplace_back("read-only");
  if (mount.allow_other) words.emplace_back("allow-other");
  for (const auto& [name, on] : mount.features) {
    if (on) words.push_back(name);
  }
  return fmt::format("{}", fmt::join(words, ","));
}

class MountsCommand : public Command {
 public:
  void declare(CLI::App&) override {}

  Attempt<> run() override {
    LEAT_TRY(Json answer, DaemonClient(runtime_directory()).get("/v1/mounts"));
    if (json) {
      print_json(answer);
      return {};
    }
    TextTable table("llll");
    for (const Json& item : answer["mounts"]) {
      LEAT_TRY(MountView mount, from_json<MountView>(item));
      table.add({mount.path, mount.source, mount.freshness, features_of(mount)});
    }
    std::string text = table.to_string();
    if (!text.empty()) print(text);
    return {};
  }
};

}  // namespace

std::unique_ptr<Command> make_mounts_command() {
  return std::make_unique<MountsCommand>();
}

}  // namespace leat
