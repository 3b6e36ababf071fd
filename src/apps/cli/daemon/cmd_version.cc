// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/cli/command/command_table.h"
#include "base/program_version.h"

namespace leat {
namespace {

class VersionCommand : public Command {
 public:
  void declare(CLI::App&) override {}
  CommandResult<> run() override {
    if (json) {
      print_json({{"version", program_version()}});
    } else {
      print(fmt::format("leat {}", program_version()));
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Command> make_version_command() {
  return std::make_unique<VersionCommand>();
}

}  // namespace leat
