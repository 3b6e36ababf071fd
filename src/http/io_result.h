// SPDX-License-Identifier: Apache-2.0
// IoResult: the result of one attempt to read or write. Private to this module.
#pragma once

#include <cstddef>
#include <cstdint>

namespace leat {

struct IoResult {
  enum State : uint8_t {
    kDone,
    kWaitRead,   // would wait to read
    kWaitWrite,  // would wait to write
    kEnd,        // the other end sends no more
    kFailed,
  };

  State state = kDone;
  int error = 0;  // errno of a failure; 0: a TLS error
  size_t bytes = 0;

  bool done() const { return state == kDone; }
  bool waits() const { return state == kWaitRead || state == kWaitWrite; }
};

}  // namespace leat
