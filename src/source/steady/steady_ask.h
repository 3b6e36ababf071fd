// SPDX-License-Identifier: Apache-2.0
// SteadySource::ask, for the files that call it: one request with all its attempts. Invariant: an
// attempt holds one slot of the pace and one pass of the circuit from just before the request to
// the inner source until learn(). A waiting request holds nothing else. The parts have leaf locks
// of their own and are called one after the other.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "runtime/traced.h"
#include "source/source_metrics.h"
#include "source/steady/steady_source.h"

namespace leat {

struct SteadySource::Leave {
  Pace::Slot slot;
  Circuit::Pass pass;
};

template <class T>
Task<Result<T>> SteadySource::ask(Context context, Question question, Attempt<T> attempt) {
  auto self = shared_from_this();
  Attempts attempts;
  attempts.waits = waits(context);
  // The caller's end, not caused by the store.
  auto ended = [&](const Status& how) {
    std::string message =
        fmt::format("cannot {} {}/{}: {}", question.verb, name(), question.key, how.message());
    return error(attempts.ended({how.code(), std::move(message)}));
  };
  if (auto alive = context.check("the request"); !alive) co_return ended(alive.error());
  for (;;) {
    // Checked before the queue, so that no request queues in vain, and again behind it.
    if (circuit_.refusal(clock_->now())) {
      Result<> passed = co_await pass_circuit(context, question, &attempts);
      if (!passed) co_return Error(passed.error());
    }
    const Clock::time_point queued_at = clock_->now();
    std::optional<Traced> turn(std::in_place, context, "wait for the store's pace");
    std::optional<StoreHealth::Waiting> held_up;
    if (health_->failing()) held_up.emplace(health_);
    Result<Pace::Slot> slot =
        co_await pace_.enter(context, question.bytes, "the wait for a turn at the store");
    turn.reset();
    held_up.reset();
    Clock::time_point now = clock_->now();
    source_metrics::turn_wait.add(now - queued_at);
    if (!slot) co_return ended(slot.error());
    auto pass = circuit_.admit(now);
    if (!pass && attempts.waits) continue;
    if (!pass) co_return Error(refused(question, attempts, pass.error()));

    std::optional<Traced> asking(std::in_place, context, "request");
    asking->note([&] { return fmt::format("{} {}/{}", question.verb, name(), question.key); });
    const Clock::time_point asked_at = Clock::now();
    Result<T> outcome = co_await attempt(context, terms_of(question, attempts, pass->is_probe()));
    if (attempts.report.first_byte > Clock::duration::zero()) {
      asking->part("first byte", asked_at, asked_at + attempts.report.first_byte);
    }
    if (!outcome) asking->failed(outcome.error());
    asking.reset();
    metrics_.attempt(question.verb, clock_->now() - now, outcome ? nullptr : &outcome.error(),
                     question.bytes);
    Leave leave{*std::move(slot), *std::move(pass)};
    bool again = learn(question, attempts, std::move(leave), outcome ? nullptr : &outcome.error());
    if (!outcome && attempts.met == Attempts::Met::kNothing) {
      co_return Error(attempts.ended(outcome.error()));
    }
    if (!again) co_return outcome;

    Result<Clock::time_point> next_at = next(context, question, attempts);
    if (!next_at) co_return Error(next_at.error());
    now = clock_->now();
    const Traced pause(context, "pause before the next attempt");
    std::optional<StoreHealth::Waiting> waiting;
    if (attempts.waits) waiting.emplace(health_);
    std::optional<Pace::Want> want;
    if (attempts.met == Attempts::Met::kThrottling) want.emplace(pace_.want());
    Result<bool> waited = co_await clock_->wait(context, SharedResult<bool>::make(), *next_at,
                                                "the wait for the next attempt");
    source_metrics::retry_wait.add(clock_->now() - now);
    if (!waited) co_return ended(waited.error());
  }
}

}  // namespace leat
