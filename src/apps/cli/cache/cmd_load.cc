// SPDX-License-Identifier: Apache-2.0
// The commands that run one job over a path.
#include "apps/cli/cache/job_command.h"
#include "apps/cli/command/command_table.h"

namespace leat {

std::unique_ptr<Command> make_load_command() {
  return std::make_unique<JobCommand>("load");
}

std::unique_ptr<Command> make_free_command() {
  return std::make_unique<JobCommand>("free");
}

std::unique_ptr<Command> make_refresh_command() {
  return std::make_unique<JobCommand>("refresh");
}

}  // namespace leat
