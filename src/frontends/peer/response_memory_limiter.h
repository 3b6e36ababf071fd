// SPDX-License-Identifier: Apache-2.0
// ResponseMemoryLimiter: limits the memory of responses that readers have not received yet. Fast
// readers do not notice it. When slow readers use it up, later responses wait, without their bytes,
// and then fail with kUnavailable, so that readers try another worker. Thread-safe. Must outlive
// its permits.
#pragma once

#include <memory>
#include <optional>

#include "base/units.h"
#include "runtime/context.h"
#include "runtime/semaphore.h"
#include "runtime/task.h"

namespace leat {

struct ResponseMemoryLimiterOptions {
  uint64_t bytes_max = 256 * kMiB;
  Clock::duration timeout = std::chrono::seconds(5);
};

class ResponseMemoryLimiter {
 public:
  // Released with its last copy; null for an uncounted response.
  using Permit = std::shared_ptr<const void>;

  explicit ResponseMemoryLimiter(ResponseMemoryLimiterOptions options)
      : timeout_(options.timeout), bytes_(options.bytes_max) {}

  // Acquires a permit for a response that is in memory now; nothing if the limit is reached.
  std::optional<Permit> try_acquire(uint64_t bytes);
  // Waits for a permit. Returns kUnavailable if too little is released in time.
  Task<Result<Permit>> acquire(Context context, uint64_t bytes);

  uint64_t in_use() const { return bytes_.in_use(); }

 private:
  const Clock::duration timeout_;
  Semaphore bytes_;
};

}  // namespace leat
