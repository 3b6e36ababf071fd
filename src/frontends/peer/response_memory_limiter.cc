// SPDX-License-Identifier: Apache-2.0
#include "frontends/peer/response_memory_limiter.h"

#include <utility>

#include "telemetry/metrics.h"

namespace leat {
namespace {

// The kernel buffers this much at once, even for a slow reader.
constexpr uint64_t kUncountedBytes = 16 * kKiB;

Counter refused_answers(
    "leat_peer_overload_rejections_total",
    "Reads rejected because unread responses of slow readers fill the response memory");

ResponseMemoryLimiter::Permit permit_of(Semaphore::Permit permit) {
  return std::make_shared<const Semaphore::Permit>(std::move(permit));
}

}  // namespace

std::optional<ResponseMemoryLimiter::Permit> ResponseMemoryLimiter::try_acquire(uint64_t bytes) {
  if (bytes <= kUncountedBytes) return Permit();
  auto permit = bytes_.try_acquire(bytes);
  if (!permit) return std::nullopt;
  return permit_of(*std::move(permit));
}

Task<Result<ResponseMemoryLimiter::Permit>> ResponseMemoryLimiter::acquire(Context context,
                                                                           uint64_t bytes) {
  auto permit = co_await bytes_.acquire(context.with_timeout(timeout_), bytes, "a response");
  if (permit) co_return permit_of(*std::move(permit));
  refused_answers.add();
  co_return error(StatusCode::kUnavailable,
                  "it has no memory for another response: readers are slow to receive theirs");
}

}  // namespace leat
