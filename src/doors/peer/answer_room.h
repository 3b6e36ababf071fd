// SPDX-License-Identifier: Apache-2.0
// AnswerRoom: how much memory answers may hold until their readers have taken them. Readers that
// take them as fast as they come notice nothing of it; when slow ones hold it all, the next wait,
// without their bytes, and then are told to ask elsewhere. Thread-safe. Must outlive its shares.
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
  // Given back when the last copy goes; null for an answer that is not counted.
  using Share = std::shared_ptr<const void>;

  explicit AnswerRoom(AnswerRoomOptions options)
      : patience_(options.patience), bytes_(options.bytes_max) {}

  // For an answer of so many bytes, in memory now; nothing when it has to go from there.
  std::optional<Share> try_enter(uint64_t bytes);
  // kUnavailable: nobody has given back as much in time.
  Task<Result<Share>> enter(Context context, uint64_t bytes);

  uint64_t in_use() const { return bytes_.in_use(); }

 private:
  const Clock::duration patience_;
  Semaphore bytes_;
};

}  // namespace leat
