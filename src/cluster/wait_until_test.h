// SPDX-License-Identifier: Apache-2.0
// wait_until: for what other threads and processes are about to make true, of which they tell
// nobody.
#pragma once

#include <chrono>
#include <thread>

#include "runtime/context.h"

namespace leat::testing {

// False when it has not come true for long. `pause`: between two looks, which may be dear.
template <class F>
bool wait_until(F condition, Clock::duration patience = std::chrono::seconds(30),
                Clock::duration pause = std::chrono::milliseconds(5)) {
  for (const auto end = Clock::now() + patience; Clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(pause);
  }
  return false;
}

}  // namespace leat::testing
