// SPDX-License-Identifier: Apache-2.0
#include "apps/command_table.h"

namespace leat {
namespace {

class VersionCommand : public Command {
 public:
  void declare(CLI::App&) override {}
  Attempt<> run() override {
    if (json) {
      print_json({{"version", LEAT_VERSION}});
    } else {
      print("leat " LEAT_VERSION);
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Command> make_version_command() {
  return std::make_unique<VersionCommand>();
}

}  // namespace leat
