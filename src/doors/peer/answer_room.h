// SPDX-License-Identifier: Apache-2.0
// AnswerRoom: limits the memory of answers that readers have not taken yet. Fast readers do not
// notice it. When slow readers use it up, later answers wait, without their bytes, and then fail
// with kUnavailable, so that readers try another worker. Thread-safe. Must outlive its shares.
#pragma once

#include <memory>
#include <optional>

#include "base/units.h"
#include "runtime/context.h"
#include "runtime/semaphore.h"
#include "runtime/task.h"

namespace leat {

struct AnswerRoomOptions {
  uint64_t bytes_max = 256 * kMiB;
  Clock::duration patience = std::chrono::seconds(5);
};

class AnswerRoom {
 public:
  // Released with its last copy; null for an uncounted answer.
  using Share = std::shared_ptr<const void>;

  explicit AnswerRoom(AnswerRoomOptions options)
      : patience_(options.patience), bytes_(options.bytes_max) {}

  // Takes a share for an answer that is in memory now; nothing if there is no room.
  std::optional<Share> try_enter(uint64_t bytes);
  // Waits for a share. Returns kUnavailable if too little is released in time.
  Task<Result<Share>> enter(Context context, uint64_t bytes);

  uint64_t in_use() const { return bytes_.in_use(); }

 private:
  const Clock::duration patience_;
  Semaphore bytes_;
};

}  // namespace leat
