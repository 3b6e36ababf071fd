// SPDX-License-Identifier: Apache-2.0
#include "runtime/post_gate.h"

#include <mutex>
#include <vector>

namespace leat {

void PostGate::keep(std::move_only_function<void()> call) {
  static std::mutex mutex;
  static auto* kept = new std::vector<std::move_only_function<void()>>;
  std::lock_guard lock(mutex);
  kept->push_back(std::move(call));
}

}  // namespace leat
