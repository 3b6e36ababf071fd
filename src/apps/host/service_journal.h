// SPDX-License-Identifier: Apache-2.0
// What the service wrote to systemd's journal, where its daemon has no log file.
#pragma once

#include <cstdint>
#include <string>

namespace leat {

// The journal's last lines of the unit "leat" (of root's service, else of this user's), by
// journalctl: `bytes_max` at most, the newest kept. Empty where there is no journalctl, where it
// may not be read, or where it takes longer than ten seconds. Blocks.
std::string service_journal(uint64_t bytes_max);

}  // namespace leat
