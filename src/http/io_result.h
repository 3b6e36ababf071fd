// SPDX-License-Identifier: Apache-2.0
// IoResult: what came of one attempt to read or to write. Private to this room.
#pragma once

#include <cstddef>
#include <cstdint>

namespace leat {

struct IoResult {
  enum State : uint8_t {
    kDone,
    kWaitRead,   // nothing more without waiting
    kWaitWrite,  // likewise
    kEnd,        // the other end sends no more
    kFailed,
  };

  State state = kDone;
  int error = 0;  // errno of a failure; 0: of TLS
  size_t bytes = 0;

  bool done() const { return state == kDone; }
  bool waits() const { return state == kWaitRead || state == kWaitWrite; }
};

}  // namespace leat
