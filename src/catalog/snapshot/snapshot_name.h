// SPDX-License-Identifier: Apache-2.0
// What snapshots may be called.
#pragma once

#include <string_view>

#include "base/status.h"

namespace leat {

// Letters, digits and ". _ -", not beginning with a dot, at most 200 bytes. kInvalidArgument.
Result<> check_snapshot_name(std::string_view name);

}  // namespace leat
