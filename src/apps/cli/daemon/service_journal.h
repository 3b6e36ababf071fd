// SPDX-License-Identifier: Apache-2.0
// Log lines of the service in systemd's journal, for a daemon without a log file.
#pragma once

#include <cstdint>
#include <string>

namespace leat {

// Returns the last lines of the unit "leat" (root's service, else this user's) from journalctl,
// `bytes_max` at most. Empty without journalctl, without permission, or after a timeout of ten
// seconds. Blocks.
std::string service_journal(uint64_t bytes_max);

}  // namespace leat
