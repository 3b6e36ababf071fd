// SPDX-License-Identifier: Apache-2.0
// wait_until: polls for a condition that other threads or processes make true without a
// notification.
#pragma once

#include <chrono>
#include <thread>

#include "runtime/context.h"

namespace leat::testing {

// Returns false after `patience`. `pause`: poll interval; larger for expensive conditions.
template <class F>
bool wait_until(F condition, Clock::duration timeout = std::chrono::seconds(30),
                Clock::duration interval = std::chrono::milliseconds(5)) {
  for (const auto end = Clock::now() + timeout; Clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(interval);
  }
  return false;
}

}  // namespace leat::testing
