// SPDX-License-Identifier: Apache-2.0
// Valid names of snapshots.
#pragma once

#include <string_view>

#include "base/status.h"

namespace leat {

// Returns kInvalidArgument unless the name has only letters, digits and ". _ -", does not begin
// with a dot, and has at most 200 bytes.
Result<> check_snapshot_name(std::string_view name);

}  // namespace leat
