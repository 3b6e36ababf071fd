// SPDX-License-Identifier: Apache-2.0
#include "apps/command_table.h"
#include "apps/job_command.h"

namespace leat {

std::unique_ptr<Command> make_load_command() {
  return std::make_unique<JobCommand>("load");
}

}  // namespace leat
