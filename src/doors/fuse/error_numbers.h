// SPDX-License-Identifier: Apache-2.0
// Status to errno: the only place where the two meet.
#pragma once

#include "base/status.h"

namespace leat {

// The errno that a program sees for a failed operation on the folder.
int to_errno(StatusCode code);

// Whether the failure is the environment's and someone should look at it: store, cache, rights. The
// others are ordinary answers (no such file, read-only, interrupted, another version now).
bool worth_logging(StatusCode code);

}  // namespace leat
