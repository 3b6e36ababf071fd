// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/command_table.h"
#include "apps/program_version.h"

namespace leat {
namespace {

class VersionCommand : public Command {
 public:
  void declare(CLI::App&) override {}
  Attempt<> run() override {
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
