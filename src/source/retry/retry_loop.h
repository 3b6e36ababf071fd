// SPDX-License-Identifier: Apache-2.0
// RetryingSource::run_with_retry, for the files that call it: one request with all its attempts.
// Invariant: an attempt holds one permit of the pacer and one of the breaker from just before the
// request to the inner source until record_outcome(). A waiting request holds nothing else. The
// parts have leaf locks of their own and are called one after the other.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "runtime/scoped_span.h"
#include "source/retry/retrying_source.h"
#include "source/source_metrics.h"

namespace leat {

struct RetryingSource::AttemptGuards {
  RequestPacer::Permit pacer_permit;
  CircuitBreaker::Permit breaker_permit;
};

template <class T>
Task<Result<T>> RetryingSource::run_with_retry(Context context, Operation operation,
                                               Attempt<T> attempt) {
  auto self = shared_from_this();
  Attempts attempts;
  attempts.waits = waits(context);
  // The caller's end, not caused by the store.
  auto ended = [&](const Status& how) {
    std::string message =
        fmt::format("cannot {} {}/{}: {}", operation.verb, name(), operation.key, how.message());
    return error(attempts.interrupted({how.code(), std::move(message)}));
  };
  if (auto alive = context.check("the request"); !alive) co_return ended(alive.error());
  for (;;) {
    // Checked before the queue, so that no request queues in vain, and again behind it.
    if (breaker_.open_state(timer_->now())) {
      Result<> passed = co_await wait_for_breaker(context, operation, &attempts);
      if (!passed) co_return Error(passed.error());
    }
    const Clock::time_point queued_at = timer_->now();
    std::optional<ScopedSpan> queued(std::in_place, context, "source.limiter.wait");
    std::optional<StoreHealth::Waiting> held_up;
    if (health_->failing()) held_up.emplace(health_);
    Result<RequestPacer::Permit> pacer_permit =
        co_await pacer_.acquire(context, operation.bytes, "the wait for the store's request limit");
    queued.reset();
    held_up.reset();
    Clock::time_point now = timer_->now();
    source_metrics::pacer_wait.add(now - queued_at);
    if (!pacer_permit) co_return ended(pacer_permit.error());
    auto breaker_permit = breaker_.admit(now);
    if (!breaker_permit && attempts.waits) continue;
    if (!breaker_permit) co_return Error(rejected(operation, attempts, breaker_permit.error()));

    std::optional<ScopedSpan> sending(std::in_place, context, "source.request");
    sending->note([&] { return fmt::format("{} {}/{}", operation.verb, name(), operation.key); });
    const Clock::time_point sent_at = Clock::now();
    Result<T> outcome =
        co_await attempt(context, timeouts_of(operation, attempts, breaker_permit->is_probe()));
    if (attempts.report.first_byte > Clock::duration::zero()) {
      sending->part("source.first_byte", sent_at, sent_at + attempts.report.first_byte);
    }
    if (!outcome) sending->failed(outcome.error());
    sending.reset();
    metrics_.attempt(operation.verb, timer_->now() - now);
    AttemptGuards guards{*std::move(pacer_permit), *std::move(breaker_permit)};
    bool again = record_outcome(operation, attempts, std::move(guards),
                                outcome ? nullptr : &outcome.error());
    if (!outcome && attempts.outcome == Attempts::Outcome::kNotTheStore) {
      co_return Error(attempts.interrupted(outcome.error()));
    }
    if (!again) co_return outcome;

    Result<Clock::time_point> next_at = next_attempt(context, operation, attempts);
    if (!next_at) co_return Error(next_at.error());
    now = timer_->now();
    const ScopedSpan pause(context, "source.retry.backoff");
    std::optional<StoreHealth::Waiting> waiting;
    if (attempts.waits) waiting.emplace(health_);
    std::optional<RequestPacer::ThrottledWaiter> throttled;
    if (attempts.outcome == Attempts::Outcome::kThrottled)
      throttled.emplace(pacer_.wait_throttled());
    Result<bool> waited = co_await timer_->wait(context, SharedPromise<bool>::make(), *next_at,
                                                "the wait for the next attempt");
    source_metrics::retry_wait.add(timer_->now() - now);
    if (!waited) co_return ended(waited.error());
  }
}

}  // namespace leat
