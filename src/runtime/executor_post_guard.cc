// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor_post_guard.h"

#include <mutex>
#include <vector>

namespace leat {

void ExecutorPostGuard::retain(std::move_only_function<void()> call) {
  static std::mutex mutex;
  static auto* retained = new std::vector<std::move_only_function<void()>>;
  std::lock_guard lock(mutex);
  retained->push_back(std::move(call));
}

}  // namespace leat
