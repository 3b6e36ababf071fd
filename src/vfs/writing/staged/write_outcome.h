// SPDX-License-Identifier: Apache-2.0
// The outcome of a write to a store, by its error.
#pragma once

#include "base/status.h"

namespace leat {

inline bool is_unknown_outcome(StatusCode code) {
  return code == StatusCode::kUnavailable || code == StatusCode::kTimedOut ||
         code == StatusCode::kCancelled;
}

inline bool is_condition_failure(StatusCode code) {
  return code == StatusCode::kExists || code == StatusCode::kVersionChanged;
}

}  // namespace leat
