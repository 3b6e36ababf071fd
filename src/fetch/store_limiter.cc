// SPDX-License-Identifier: Apache-2.0
#include "fetch/store_limiter.h"

#include <algorithm>
#include <utility>

#include "source/source.h"

namespace leat {

namespace {

// The limit is never lower, whatever the source takes. Further requests wait in the source, which
// knows how long each may wait for a store that fails.
constexpr unsigned kRequestsMin = 32;

// Returns three quarters, at least one.
unsigned low_priority_max(unsigned requests) {
  return requests < 2 ? 1 : requests - std::max(1u, requests / 4);
}

// The semaphores belong to one store, so there is no share of a tenant.
FairSemaphore::Limits limits_of(unsigned requests) {
  return {requests, low_priority_max(requests), UINT64_MAX};
}

// A quarter more than the source takes. A permit is held until the bytes are in the page store, and
// the source learns only while its own limit is in use.
unsigned requests_at(unsigned concurrency, unsigned requests_max) {
  if (concurrency >= requests_max) return std::max(1u, requests_max);
  return std::clamp(concurrency + concurrency / 4, std::min(kRequestsMin, requests_max),
                    std::max(1u, requests_max));
}

}  // namespace

StoreLimiter::SizeClass::SizeClass(unsigned requests)
    : all(limits_of(requests)), loads(limits_of(low_priority_max(requests))) {}

StoreLimiter::StoreLimiter(unsigned requests_max)
    : requests_max_(requests_max),
      small_(requests_at(kRequestsMin, requests_max)),
      large_(requests_at(kRequestsMin, requests_max)) {}

StoreLimiter::SizeClass& StoreLimiter::class_of(uint64_t bytes) {
  return bytes <= kSmallRequestBytes ? small_ : large_;
}

void StoreLimiter::update(uint64_t bytes, unsigned concurrency) {
  SizeClass& of = class_of(bytes);
  of.all.set_limits(limits_of(requests_at(concurrency, requests_max_)));
  of.loads.set_limits(limits_of(low_priority_max(std::min(concurrency, requests_max_))));
}

Task<Result<StoreLimiter::Permit>> StoreLimiter::acquire(Context context,
                                                         FairSemaphore::Request request,
                                                         unsigned concurrency) {
  update(request.cost, concurrency);
  SizeClass& of = class_of(request.cost);
  Permit permit;
  if (request.low_priority) {
    FairSemaphore::Request load = request;
    load.low_priority = false;  // all of its waiters are
    auto granted = co_await of.loads.acquire(context, load, "waiting for a request to the store");
    if (!granted) co_return Error(granted.error());
    permit.load = *std::move(granted);
  }
  auto granted = co_await of.all.acquire(context, request, "waiting for a request to the store");
  if (!granted) co_return Error(granted.error());
  permit.request = *std::move(granted);
  co_return permit;
}

// Beside a load it takes up to all that the source takes, since loads would leave it nothing.
std::optional<StoreLimiter::Permit> StoreLimiter::try_prefetch(uint64_t bytes,
                                                               unsigned concurrency) {
  update(bytes, concurrency);
  SizeClass& of = class_of(bytes);
  const uint64_t in_use = of.all.in_use(), loads = of.loads.in_use();
  const unsigned most = std::min(concurrency, requests_max_);
  if (in_use >= most || in_use - std::min(loads, in_use) >= low_priority_max(most)) {
    return std::nullopt;
  }
  auto request = of.all.try_acquire({.low_priority = true});
  if (!request) return std::nullopt;
  return Permit{{}, *std::move(request), {}, {}};
}

}  // namespace leat
