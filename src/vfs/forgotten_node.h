// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include "vfs/file_system.h"

namespace leat {

// The error of a request for a node that is not held: the kernel looks its name up again.
inline Error forgotten(NodeId node) {
  return error(StatusCode::kVersionChanged,
               fmt::format("node {} is not held any more; look its name up again", node));
}

}  // namespace leat
