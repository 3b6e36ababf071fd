// SPDX-License-Identifier: Apache-2.0
#include "doors/peer/answer_room.h"

#include <utility>

#include "telemetry/metrics.h"

namespace leat {
namespace {

// The kernel buffers this much at once, even for a slow reader.
constexpr uint64_t kUncountedBytes = 16 * kKiB;

Counter refused_answers("leat_peer_refused_answers_total",
                        "Reads of clients and workers that were sent elsewhere, since slow readers "
                        "had not taken the answers that fill the memory for them");

AnswerRoom::Share share_of(Semaphore::Permit permit) {
  return std::make_shared<const Semaphore::Permit>(std::move(permit));
}

}  // namespace

std::optional<AnswerRoom::Share> AnswerRoom::try_enter(uint64_t bytes) {
  if (bytes <= kUncountedBytes) return Share();
  auto permit = bytes_.try_acquire(bytes);
  if (!permit) return std::nullopt;
  return share_of(*std::move(permit));
}

Task<Result<AnswerRoom::Share>> AnswerRoom::enter(Context context, uint64_t bytes) {
  auto permit = co_await bytes_.acquire(context.with_timeout(patience_), bytes, "an answer");
  if (permit) co_return share_of(*std::move(permit));
  refused_answers.add();
  co_return error(StatusCode::kUnavailable,
                  "it has no memory for another answer: readers are slow to take theirs");
}

}  // namespace leat
