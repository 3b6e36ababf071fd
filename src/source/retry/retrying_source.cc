// SPDX-License-Identifier: Apache-2.0
// Invariant: an attempt holds one permit of the pacer and one of the breaker from just before the
// request to the inner source until record_outcome(). A waiting request holds nothing else. The
// parts have leaf locks of their own and are called one after the other.
#include "source/retry/retrying_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "runtime/scoped_span.h"
#include "source/io_timeout.h"
#include "source/retry/retry_loop.h"
#include "source/source_metrics.h"
#include "source/store_counters.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

using Outcome = Attempts::Outcome;

constexpr Clock::duration kThrottledDelayMax = std::chrono::seconds(1);

const MetricFamily kConcurrencyLimit(MetricType::kGauge, "leat_source_concurrency_limit",
                                     "Present limit of concurrent requests to the store, by size: "
                                     "small reads have at most 256 KiB",
                                     "store,store_id,size", Stability::kExperimental);
const MetricFamily kRate(MetricType::kGauge, "leat_source_rate_limit_requests_per_second",
                         "Learnt request rate of the store, requests per second; 0: no limit seen",
                         "store,store_id", Stability::kExperimental);

Counter& retries_after(Outcome outcome) {
  if (outcome == Outcome::kThrottled) return source_metrics::retries_throttled;
  return outcome == Outcome::kTimeout ? source_metrics::retries_after_timeout
                                      : source_metrics::retries;
}

std::string describe(const CircuitBreaker::OpenState& open_state) {
  std::string again = open_state.next_probe_in > Clock::duration::zero()
                          ? "is probed again in " + seconds_text(open_state.next_probe_in)
                          : "is being probed now";
  return fmt::format("the store has failed every request for {} and {}",
                     seconds_text(open_state.failing_for), again);
}

std::string labels_of(const Source& source) {
  return store_labels(source.name(), source.id());
}

}  // namespace

std::shared_ptr<RetryingSource> RetryingSource::make(SourcePtr inner, RetryOptions options) {
  return std::shared_ptr<RetryingSource>(new RetryingSource(std::move(inner), std::move(options)));
}

RetryingSource::RetryingSource(SourcePtr inner, RetryOptions options)
    : inner_(std::move(inner)),
      options_(std::move(options)),
      timer_(options_.timer),
      pacer_(options_.pacer, timer_),
      breaker_(options_.breaker),
      object_latency_(options_.attempt_timeout_min, options_.attempt_timeout_max),
      listing_latency_(options_.list_timeout_min, options_.attempt_timeout_max),
      random_(options_.seed != 0 ? options_.seed : std::random_device{}()),
      small_limit_gauge_(
          kConcurrencyLimit, [this] { return static_cast<double>(concurrency_hint(0)); },
          labels_of(*inner_) + R"(,size="small")"),
      large_limit_gauge_(
          kConcurrencyLimit,
          [this] { return static_cast<double>(concurrency_hint(kSmallRequestBytes + 1)); },
          labels_of(*inner_) + R"(,size="large")"),
      rate_gauge_(
          kRate, [this] { return pacer_.rate(); }, labels_of(*inner_)),
      metrics_(labels_of(*inner_)),
      health_(StoreHealth::of(inner_->name(), labels_of(*inner_))),
      waits_text_(waits_text(options_.io_timeout)) {
  LEAT_CHECK(options_.attempts_max >= 1);
}

unsigned RetryingSource::concurrency_hint(uint64_t bytes) const {
  return breaker_.open_state(timer_->now())
             ? 1
             : std::min(pacer_.concurrency_hint(bytes), inner_->concurrency_hint(bytes));
}

Task<Result<SourceObject>> RetryingSource::stat(Context context, StatRequest request) {
  Operation operation{"stat", request.key, 0, Kind::kObject, request.timeouts};
  Attempt<SourceObject> attempt = [this, &request](Context context, AttemptTimeouts timeouts) {
    request.timeouts = timeouts;
    return inner_->stat(std::move(context), request);
  };
  co_return co_await run_with_retry(std::move(context), operation, std::move(attempt));
}

Task<Result<ListPage>> RetryingSource::list(Context context, ListRequest request) {
  Operation operation{"list", request.prefix, 0, Kind::kListing, request.timeouts};
  Attempt<ListPage> attempt = [this, &request](Context context, AttemptTimeouts timeouts) {
    request.timeouts = timeouts;
    return inner_->list(std::move(context), request);
  };
  co_return co_await run_with_retry(std::move(context), operation, std::move(attempt));
}

Task<Result<>> RetryingSource::read(Context context, ReadRequest request,
                                    std::span<std::byte> into) {
  if (into.empty()) {  // no request to the store
    Result<> done = co_await inner_->read(context, request, into);
    co_return done;
  }
  Operation operation{"read", request.key, into.size(), Kind::kObject, request.timeouts};
  Attempt<void> attempt = [this, &request, into](Context context, AttemptTimeouts timeouts) {
    request.timeouts = timeouts;
    ReadRequest rest = rest_of(request);
    const std::span<std::byte> unread = into.last(rest.range.size);
    return inner_->read(std::move(context), std::move(rest), unread);
  };
  co_return co_await run_with_retry(std::move(context), operation, std::move(attempt));
}

Task<Result<>> RetryingSource::read_scattered(Context context, ReadRequest request,
                                              std::vector<std::span<std::byte>> pieces) {
  if (request.range.empty()) co_return Result<>();
  Operation operation{"read", request.key, request.range.size, Kind::kObject, request.timeouts};
  Attempt<void> attempt = [this, &request, &pieces](Context context, AttemptTimeouts timeouts) {
    request.timeouts = timeouts;
    return inner_->read_scattered(std::move(context), request, pieces);
  };
  co_return co_await run_with_retry(std::move(context), operation, std::move(attempt));
}

Clock::time_point RetryingSource::wait_deadline(const Attempts& attempts) const {
  const bool for_ever = options_.io_timeout == Clock::duration::max();
  if (for_ever || attempts.first_began == Clock::time_point::min()) return Clock::time_point::max();
  return attempts.first_began + options_.io_timeout;
}

Task<Result<>> RetryingSource::wait_for_breaker(Context context, Operation operation,
                                                Attempts* attempts) {
  const ScopedSpan span(context, "source.recovery.wait");
  std::optional<StoreHealth::Waiting> waiting;
  for (;;) {
    const Clock::time_point now = timer_->now();
    const std::optional<CircuitBreaker::OpenState> open_state = breaker_.open_state(now);
    if (!open_state) co_return Result<>();
    if (!attempts->waits) co_return Error(rejected(operation, *attempts, *open_state));
    if (attempts->first_began == Clock::time_point::min()) attempts->first_began = now;
    const Clock::time_point end = wait_deadline(*attempts);
    if (now >= end)
      co_return Error(rejected(operation, *attempts, *open_state, io_timeout_passed()));
    if (!waiting) waiting.emplace(health_);
    const Clock::time_point until = std::min(now + open_state->next_probe_in, end);
    Result<bool> changed =
        co_await timer_->wait(context, open_state->changed, until, "the wait for the store");
    source_metrics::retry_wait.add(timer_->now() - now);
    if (changed) continue;
    co_return error(attempts->interrupted(
        {changed.error().code(), fmt::format("cannot {} {}/{}: {}", operation.verb, name(),
                                             operation.key, changed.error().message())}));
  }
}

AttemptTimeouts RetryingSource::timeouts_of(const Operation& operation, Attempts& attempts,
                                            bool probe) {
  const Clock::time_point now = timer_->now();
  Clock::duration timeout = options_.attempt_timeout_max;
  // A probe gets the longest allowed time: latencies from before the outage do not bound a store
  // that recovers slowly.
  if (FirstByteLatency* known = latency_of(operation); known != nullptr && !probe) {
    // If one connection in ten stalls, four timeouts in a row are still chance and end within 4 s.
    // After that this response may really take longer.
    const unsigned doublings = attempts.timeouts > 3 ? std::min(attempts.timeouts - 3, 8u) : 0;
    timeout = std::min(timeout, known->timeout(now) * (1 << doublings));
  }
  if (attempts.waits && options_.io_timeout != Clock::duration::max()) {
    const Clock::duration used = attempts.first_began == Clock::time_point::min()
                                     ? Clock::duration{}
                                     : now - attempts.first_began;
    timeout = std::min(timeout, std::max(options_.io_timeout - used, options_.attempt_timeout_min));
  }
  const auto timeout_ms = std::chrono::ceil<milliseconds>(timeout);
  AttemptTimeouts timeouts;
  timeouts.first_byte_timeout = std::min(operation.timeouts.first_byte_timeout, timeout_ms) +
                                std::chrono::ceil<milliseconds>(operation.allowance);
  timeouts.idle_timeout = std::min(operation.timeouts.idle_timeout, timeout_ms);
  timeouts.report = &attempts.report;
  attempts.begin(now, operation.kind == Kind::kChange
                          ? timeouts.first_byte_timeout
                          : std::min(timeouts.first_byte_timeout, timeouts.idle_timeout));
  return timeouts;
}

bool RetryingSource::record_outcome(const Operation& operation, Attempts& attempts,
                                    AttemptGuards guards, const Status* failure) {
  const Clock::time_point now = timer_->now();
  attempts.end(now, failure);
  const AttemptReport report = attempts.report;
  if (operation.timeouts.report != nullptr) *operation.timeouts.report = report;
  if (report.retry_after > Clock::duration::zero()) pacer_.pause(report.retry_after);

  // A source that reports no first byte has its first byte at the end.
  bool began = report.first_byte > Clock::duration::zero();
  Clock::duration first_byte = began ? report.first_byte : attempts.whole;
  FirstByteLatency* known = latency_of(operation);
  switch (attempts.outcome) {
    case Outcome::kResponse:
      health_->responded(now);
      if (guards.breaker_permit.responded()) {
        object_latency_.reset();
        listing_latency_.reset();
      }
      budget_.earn();
      if (known != nullptr) known->responded(now, first_byte);
      pacer_.responded(operation.kind == Kind::kObject ? report.first_byte : Clock::duration{},
                       attempts.whole, operation.bytes);
      return false;
    case Outcome::kThrottled:
      source_metrics::throttled.add();
      health_->failed(attempts.began, now, *failure, attempts.waits ? waits_text_ : "");
      guards.breaker_permit.responded();
      pacer_.throttled();
      return true;
    case Outcome::kTimeout:
      source_metrics::timeouts.add();
      if (!began && known != nullptr) known->timed_out(now);
      // An error response may arrive much sooner than a success: only here the first byte is one of
      // a body.
      if (began && known != nullptr) known->responded(now, report.first_byte);
      [[fallthrough]];
    case Outcome::kUnavailable:
      health_->failed(attempts.began, now, *failure, attempts.waits ? waits_text_ : "");
      if (guards.breaker_permit.failed(now, *failure)) source_metrics::circuit_opened.add();
      return true;
    case Outcome::kNotTheStore:
      return false;
  }
  return false;
}

Result<Clock::time_point> RetryingSource::next_attempt(const Context& context,
                                                       const Operation& operation,
                                                       const Attempts& attempts) {
  const Clock::time_point now = timer_->now();
  const bool throttled = attempts.outcome == Outcome::kThrottled;
  if (!throttled && !operation.repeatable) {
    return error(attempts.final_error("the outcome is unknown; check before retrying"));
  }
  if (attempts.waits) return next_attempt_while_waiting(attempts);
  if (!throttled && attempts.failed() >= options_.attempts_max) {
    return error(attempts.final_error(""));
  }
  const Clock::time_point paused_until = pacer_.paused_until();
  const Clock::time_point at = std::max(now + backoff_after(attempts), paused_until);
  if (at >= context.deadline) {
    std::string reason = at == paused_until ? fmt::format("the store requested a pause of {} more",
                                                          seconds_text(at - now))
                                            : "the next one would start after the deadline";
    return error(attempts.final_error(reason));
  }
  if (throttled && at - attempts.first_began >= options_.throttle_timeout) {
    return error(attempts.final_error("over " + seconds_text(now - attempts.first_began)));
  }
  if (!throttled) {
    if (auto open_state = breaker_.open_state(now))
      return error(rejected(operation, attempts, *open_state));
    if (!budget_.spend()) {
      source_metrics::retry_budget_exhausted.add();
      return error(
          attempts.final_error("the store fails most requests; the retry budget is exhausted"));
    }
  }
  retries_after(attempts.outcome).add();
  return at;
}

Result<Clock::time_point> RetryingSource::next_attempt_while_waiting(const Attempts& attempts) {
  const Clock::time_point now = timer_->now();
  const Clock::time_point end = wait_deadline(attempts);
  const Clock::time_point paused_until = pacer_.paused_until();
  if (now >= end || paused_until >= end) return error(attempts.final_error(io_timeout_passed()));
  const bool throttled = attempts.outcome == Outcome::kThrottled;
  if (!throttled && breaker_.open_state(now)) return now;  // it waits for the circuit
  Clock::duration delay = backoff_after(attempts);
  if (!throttled && !budget_.spend()) {
    source_metrics::retry_budget_exhausted.add();
    delay = std::max(delay, jittered(options_.backoff_max));
  } else {
    retries_after(attempts.outcome).add();
  }
  // The last attempt starts at the end of the wait, not before.
  return std::min(std::max(now + delay, paused_until), end);
}

std::string RetryingSource::io_timeout_passed() const {
  return "io_timeout=" + io_timeout_text(options_.io_timeout) + " has passed";
}

Clock::duration RetryingSource::backoff_after(const Attempts& attempts) {
  // The silence already was a pause.
  if (attempts.outcome == Outcome::kTimeout) return {};
  const bool throttled = attempts.outcome == Outcome::kThrottled;
  const unsigned doublings = (throttled ? attempts.throttled : attempts.failed()) - 1;
  // The pace slows throttled requests down; a single request has nearly no pace limit.
  const Clock::duration longest =
      throttled ? std::min(kThrottledDelayMax, options_.backoff_max) : options_.backoff_max;
  return jittered(
      std::min(options_.backoff_min * (Clock::rep{1} << std::min(doublings, 20u)), longest));
}

Clock::duration RetryingSource::jittered(Clock::duration delay) {
  std::lock_guard lock(random_mutex_);
  return Clock::duration(
      std::uniform_int_distribution<Clock::rep>(delay.count() / 2, delay.count())(random_));
}

FirstByteLatency* RetryingSource::latency_of(const Operation& operation) {
  if (operation.kind == Kind::kChange) return nullptr;
  return operation.kind == Kind::kListing ? &listing_latency_ : &object_latency_;
}

Status RetryingSource::rejected(const Operation& operation, const Attempts& attempts,
                                const CircuitBreaker::OpenState& open_state,
                                const std::string& reason) const {
  source_metrics::circuit_rejected.add();
  const std::string why = describe(open_state) + (reason.empty() ? "" : "; " + reason);
  if (attempts.made > 0) return attempts.final_error(why);
  return {StatusCode::kUnavailable,
          fmt::format("cannot {} {}/{}: {}", operation.verb, name(), operation.key, why),
          open_state.last};
}

}  // namespace leat
