// SPDX-License-Identifier: Apache-2.0
#include "fetch/request_limits.h"

#include <algorithm>
#include <utility>

namespace leat {

namespace {

// Returns three quarters, at least one.
unsigned ahead_max(unsigned requests_max) {
  return requests_max < 2 ? 1 : requests_max - std::max(1u, requests_max / 4);
}

}  // namespace

RequestLimits::RequestLimits(unsigned requests_max)
    : requests_(
          {std::max(1u, requests_max), std::max(1u, requests_max), std::max(1u, requests_max)}),
      ahead_(ahead_max(requests_max)) {}

Task<Result<RequestLimits::Ticket>> RequestLimits::acquire(Context context, FairGate::Ask ask) {
  Ticket ticket;
  if (ask.yields) {
    auto ahead = co_await ahead_.acquire(context, 1, "waiting for a request to the store");
    if (!ahead) co_return Error(ahead.error());
    ticket.ahead = *std::move(ahead);
  }
  auto request = co_await requests_.acquire(context, ask, "waiting for a request to the store");
  if (!request) co_return Error(request.error());
  ticket.request = *std::move(request);
  co_return ticket;
}

std::optional<RequestLimits::Ticket> RequestLimits::try_ahead(unsigned window) {
  if (requests_.in_use() >= ahead_max(window)) return std::nullopt;
  auto ahead = ahead_.try_acquire(1);
  if (!ahead) return std::nullopt;
  auto request = requests_.try_acquire({.yields = true});
  if (!request) return std::nullopt;
  return Ticket{*std::move(ahead), *std::move(request), {}};
}

}  // namespace leat
