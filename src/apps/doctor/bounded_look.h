// SPDX-License-Identifier: Apache-2.0
// A look at a path whose file system may not answer (a dead server, a daemon that hangs).
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace leat {

// The errno of stat(2), or 0; nothing: it did not answer in time. A process of its own looks, since
// one of whose threads waits for such a file system cannot end, either; it is left behind.
std::optional<int> look_at(const std::string& path, std::chrono::milliseconds patience);

}  // namespace leat
