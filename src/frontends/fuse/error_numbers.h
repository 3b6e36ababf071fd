// SPDX-License-Identifier: Apache-2.0
// Status to errno: the only place where the two meet.
#pragma once

#include "base/status.h"

namespace leat {

// Returns the errno that a program sees.
int to_errno(StatusCode code);

// Returns true if the failure is in the environment (store, cache, rights) and needs attention.
// Others are ordinary answers: no such file, read-only, interrupted, version changed.
bool worth_logging(StatusCode code);
// Returns true if the mount or its store cannot do what was requested: `.leat/errors` gets the
// reason.
bool is_refusal(StatusCode code);

}  // namespace leat
