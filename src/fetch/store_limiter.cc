// SPDX-License-Identifier: Apache-2.0
#include "fetch/store_limiter.h"

#include <algorithm>
#include <utility>

namespace leat {

namespace {

// Returns three quarters, at least one.
unsigned low_priority_max(unsigned requests_max) {
  return requests_max < 2 ? 1 : requests_max - std::max(1u, requests_max / 4);
}

}  // namespace

StoreLimiter::StoreLimiter(unsigned requests_max)
    : requests_(
          {std::max(1u, requests_max), std::max(1u, requests_max), std::max(1u, requests_max)}),
      low_priority_(low_priority_max(requests_max)) {}

Task<Result<StoreLimiter::Permit>> StoreLimiter::acquire(Context context,
                                                         FairSemaphore::Request request) {
  Permit permit;
  if (request.low_priority) {
    auto low = co_await low_priority_.acquire(context, 1, "waiting for a request to the store");
    if (!low) co_return Error(low.error());
    permit.low_priority = *std::move(low);
  }
  auto granted = co_await requests_.acquire(context, request, "waiting for a request to the store");
  if (!granted) co_return Error(granted.error());
  permit.request = *std::move(granted);
  co_return permit;
}

std::optional<StoreLimiter::Permit> StoreLimiter::try_prefetch(unsigned concurrency) {
  if (requests_.in_use() >= low_priority_max(concurrency)) return std::nullopt;
  auto low = low_priority_.try_acquire(1);
  if (!low) return std::nullopt;
  auto request = requests_.try_acquire({.low_priority = true});
  if (!request) return std::nullopt;
  return Permit{*std::move(low), *std::move(request), {}};
}

}  // namespace leat
