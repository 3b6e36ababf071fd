// SPDX-License-Identifier: Apache-2.0
// Invariant: an attempt holds one slot of the pace and one pass of the circuit from just before the
// request to the inner source until learn(). A waiting request holds nothing else. The parts have
// leaf locks of their own and are called one after the other.
#include "source/steady/steady_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "runtime/traced.h"
#include "source/io_timeout.h"
#include "source/source_metrics.h"
#include "source/steady/steady_ask.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

using Met = Attempts::Met;

constexpr Clock::duration kThrottledDelayMax = std::chrono::seconds(1);

const MetricFamily kWindow(MetricType::kGauge, "leat_source_window_requests",
                           "Requests that the store takes at a time now", "store,store_id",
                           Stability::kExperimental);
const MetricFamily kRate(MetricType::kGauge, "leat_source_rate_limit_requests_per_second",
                         "Requests a second that the store was seen to take; 0: no limit met",
                         "store,store_id", Stability::kExperimental);

Counter& retries_after(Met met) {
  if (met == Met::kThrottling) return source_metrics::retries_throttled;
  return met == Met::kSilence ? source_metrics::retries_silent : source_metrics::retries;
}

std::string told(const Circuit::Refusal& refusal) {
  std::string again = refusal.asked_again_in > Clock::duration::zero()
                          ? "is asked again in " + in_words(refusal.asked_again_in)
                          : "is being asked again just now";
  return fmt::format("the store has failed every request for {} and {}",
                     in_words(refusal.failing_for), again);
}

std::string labels_of(const Source& source) {
  return metric_label("store", source.name()) + "," +
         metric_label("store_id", source.id().to_hex());
}

}  // namespace

std::shared_ptr<SteadySource> SteadySource::make(SourcePtr inner, SteadyOptions options) {
  return std::shared_ptr<SteadySource>(new SteadySource(std::move(inner), std::move(options)));
}

SteadySource::SteadySource(SourcePtr inner, SteadyOptions options)
    : inner_(std::move(inner)),
      options_(std::move(options)),
      clock_(options_.clock),
      pace_(options_.pace, clock_),
      circuit_(options_.circuit),
      objects_(options_.silence_min, options_.silence_max),
      listings_(options_.list_silence_min, options_.silence_max),
      random_(options_.seed != 0 ? options_.seed : std::random_device{}()),
      window_gauge_(
          kWindow, [this] { return static_cast<double>(window()); }, labels_of(*inner_)),
      rate_gauge_(
          kRate, [this] { return pace_.rate(); }, labels_of(*inner_)),
      metrics_(labels_of(*inner_)),
      health_(StoreHealth::of(inner_->name(), labels_of(*inner_))),
      waits_words_(waits_text(options_.io_timeout)) {
  LEAT_CHECK(options_.attempts_max >= 1);
}

unsigned SteadySource::window() const {
  return circuit_.refusal(clock_->now()) ? 1 : std::min(pace_.window(), inner_->window());
}

Task<Result<SourceObject>> SteadySource::stat(Context context, StatRequest request) {
  Question question{"stat", request.key, 0, Kind::kObject, request.terms};
  Attempt<SourceObject> attempt = [this, &request](Context context, AttemptTerms terms) {
    request.terms = terms;
    return inner_->stat(std::move(context), request);
  };
  co_return co_await ask(std::move(context), question, std::move(attempt));
}

Task<Result<ListPage>> SteadySource::list(Context context, ListRequest request) {
  Question question{"list", request.prefix, 0, Kind::kListing, request.terms};
  Attempt<ListPage> attempt = [this, &request](Context context, AttemptTerms terms) {
    request.terms = terms;
    return inner_->list(std::move(context), request);
  };
  co_return co_await ask(std::move(context), question, std::move(attempt));
}

Task<Result<>> SteadySource::read(Context context, ReadRequest request, std::span<std::byte> into) {
  if (into.empty()) {  // no request to the store
    Result<> done = co_await inner_->read(context, request, into);
    co_return done;
  }
  Question question{"read", request.key, into.size(), Kind::kObject, request.terms};
  Attempt<void> attempt = [this, &request, into](Context context, AttemptTerms terms) {
    request.terms = terms;
    ReadRequest rest = rest_of(request);
    const std::span<std::byte> room = into.last(rest.range.size);
    return inner_->read(std::move(context), std::move(rest), room);
  };
  co_return co_await ask(std::move(context), question, std::move(attempt));
}

Task<Result<>> SteadySource::read_scattered(Context context, ReadRequest request,
                                            std::vector<std::span<std::byte>> pieces) {
  if (request.range.empty()) co_return Result<>();
  Question question{"read", request.key, request.range.size, Kind::kObject, request.terms};
  Attempt<void> attempt = [this, &request, &pieces](Context context, AttemptTerms terms) {
    request.terms = terms;
    return inner_->read_scattered(std::move(context), request, pieces);
  };
  co_return co_await ask(std::move(context), question, std::move(attempt));
}

Clock::time_point SteadySource::end_of_wait(const Attempts& attempts) const {
  const bool for_ever = options_.io_timeout == Clock::duration::max();
  if (for_ever || attempts.first_began == Clock::time_point::min()) return Clock::time_point::max();
  return attempts.first_began + options_.io_timeout;
}

Task<Result<>> SteadySource::pass_circuit(Context context, Question question, Attempts* attempts) {
  const Traced span(context, "wait for the store to answer again");
  std::optional<StoreHealth::Waiting> waiting;
  for (;;) {
    const Clock::time_point now = clock_->now();
    const std::optional<Circuit::Refusal> refusal = circuit_.refusal(now);
    if (!refusal) co_return Result<>();
    if (!attempts->waits) co_return Error(refused(question, *attempts, *refusal));
    if (attempts->first_began == Clock::time_point::min()) attempts->first_began = now;
    const Clock::time_point end = end_of_wait(*attempts);
    if (now >= end) co_return Error(refused(question, *attempts, *refusal, io_timeout_passed()));
    if (!waiting) waiting.emplace(health_);
    const Clock::time_point until = std::min(now + refusal->asked_again_in, end);
    Result<bool> changed =
        co_await clock_->wait(context, refusal->changed, until, "the wait for the store");
    source_metrics::retry_wait.add(clock_->now() - now);
    if (changed) continue;
    co_return error(attempts->ended(
        {changed.error().code(), fmt::format("cannot {} {}/{}: {}", question.verb, name(),
                                             question.key, changed.error().message())}));
  }
}

AttemptTerms SteadySource::terms_of(const Question& question, Attempts& attempts, bool probe) {
  const Clock::time_point now = clock_->now();
  Clock::duration bound = options_.silence_max;
  // A probe gets the longest allowed time: latencies from before the outage do not bound a store
  // that recovers slowly.
  if (FirstByteHistory* known = history(question); known != nullptr && !probe) {
    // If one connection in ten stalls, four silences in a row are still chance and end within 4 s.
    // After that this response may really take longer.
    const unsigned doublings = attempts.silences > 3 ? std::min(attempts.silences - 3, 8u) : 0;
    bound = std::min(bound, known->bound(now) * (1 << doublings));
  }
  if (attempts.waits && options_.io_timeout != Clock::duration::max()) {
    const Clock::duration used = attempts.first_began == Clock::time_point::min()
                                     ? Clock::duration{}
                                     : now - attempts.first_began;
    bound = std::min(bound, std::max(options_.io_timeout - used, options_.silence_min));
  }
  const auto bound_ms = std::chrono::ceil<milliseconds>(bound);
  AttemptTerms terms;
  terms.first_byte_max = std::min(question.terms.first_byte_max, bound_ms) +
                         std::chrono::ceil<milliseconds>(question.allowance);
  terms.silence_max = std::min(question.terms.silence_max, bound_ms);
  terms.report = &attempts.report;
  attempts.begin(now, question.kind == Kind::kChange
                          ? terms.first_byte_max
                          : std::min(terms.first_byte_max, terms.silence_max));
  return terms;
}

bool SteadySource::learn(const Question& question, Attempts& attempts, Leave leave,
                         const Status* failure) {
  const Clock::time_point now = clock_->now();
  attempts.end(now, failure);
  const AttemptReport report = attempts.report;
  if (question.terms.report != nullptr) *question.terms.report = report;
  if (report.retry_after > Clock::duration::zero()) pace_.pause(report.retry_after);

  // A source that reports no first byte has its first byte at the end.
  bool began = report.first_byte > Clock::duration::zero();
  Clock::duration first_byte = began ? report.first_byte : attempts.whole;
  FirstByteHistory* known = history(question);
  switch (attempts.met) {
    case Met::kAnswer:
      health_->answered(now);
      if (leave.pass.answered()) {
        objects_.begin_anew();
        listings_.begin_anew();
      }
      budget_.earn();
      if (known != nullptr) known->answered(now, first_byte);
      pace_.answered(known != nullptr ? report.first_byte : Clock::duration{}, attempts.whole,
                     question.bytes);
      return false;
    case Met::kThrottling:
      source_metrics::throttled.add();
      health_->failed(attempts.began, now, *failure, attempts.waits ? waits_words_ : "");
      leave.pass.answered();
      pace_.throttled();
      return true;
    case Met::kSilence:
      source_metrics::silences.add();
      if (!began && known != nullptr) known->silent(now);
      // An error response may arrive much sooner than a success: only here the first byte is one of
      // a body.
      if (began && known != nullptr) known->answered(now, report.first_byte);
      [[fallthrough]];
    case Met::kUnavailable:
      health_->failed(attempts.began, now, *failure, attempts.waits ? waits_words_ : "");
      if (leave.pass.failed(now, *failure)) source_metrics::circuit_openings.add();
      return true;
    case Met::kNothing:
      return false;
  }
  return false;
}

Result<Clock::time_point> SteadySource::next(const Context& context, const Question& question,
                                             const Attempts& attempts) {
  const Clock::time_point now = clock_->now();
  const bool throttled = attempts.met == Met::kThrottling;
  if (!throttled && !question.repeatable) {
    return error(attempts.give_up("whether it was done is not known; look before trying again"));
  }
  if (attempts.waits) return next_of_wait(attempts);
  if (!throttled && attempts.failed() >= options_.attempts_max) {
    return error(attempts.give_up(""));
  }
  const Clock::time_point paused_until = pace_.paused_until();
  const Clock::time_point at = std::max(now + delay_after(attempts), paused_until);
  if (at >= context.deadline) {
    std::string reason =
        at == paused_until
            ? fmt::format("the store asked to be left alone for {} more", in_words(at - now))
            : "the next one would come after the deadline";
    return error(attempts.give_up(reason));
  }
  if (throttled && at - attempts.first_began >= options_.patience) {
    return error(attempts.give_up("over " + in_words(now - attempts.first_began)));
  }
  if (!throttled) {
    if (auto refusal = circuit_.refusal(now)) return error(refused(question, attempts, *refusal));
    if (!budget_.spend()) {
      source_metrics::retries_held_back.add();
      return error(attempts.give_up("the store fails most requests; retries are held back"));
    }
  }
  retries_after(attempts.met).add();
  return at;
}

Result<Clock::time_point> SteadySource::next_of_wait(const Attempts& attempts) {
  const Clock::time_point now = clock_->now();
  const Clock::time_point end = end_of_wait(attempts);
  const Clock::time_point paused_until = pace_.paused_until();
  if (now >= end || paused_until >= end) return error(attempts.give_up(io_timeout_passed()));
  const bool throttled = attempts.met == Met::kThrottling;
  if (!throttled && circuit_.refusal(now)) return now;  // it waits for the circuit
  Clock::duration delay = delay_after(attempts);
  if (!throttled && !budget_.spend()) {
    source_metrics::retries_held_back.add();
    delay = std::max(delay, jittered(options_.delay_max));
  } else {
    retries_after(attempts.met).add();
  }
  // The last attempt starts at the end of the wait, not before.
  return std::min(std::max(now + delay, paused_until), end);
}

std::string SteadySource::io_timeout_passed() const {
  return "io_timeout=" + io_timeout_text(options_.io_timeout) + " has passed";
}

Clock::duration SteadySource::delay_after(const Attempts& attempts) {
  // The silence already was a pause.
  if (attempts.met == Met::kSilence) return {};
  const bool throttled = attempts.met == Met::kThrottling;
  const unsigned doublings = (throttled ? attempts.throttled : attempts.failed()) - 1;
  // The pace slows throttled requests down; a single request has nearly no pace limit.
  const Clock::duration longest =
      throttled ? std::min(kThrottledDelayMax, options_.delay_max) : options_.delay_max;
  return jittered(
      std::min(options_.delay_min * (Clock::rep{1} << std::min(doublings, 20u)), longest));
}

Clock::duration SteadySource::jittered(Clock::duration delay) {
  std::lock_guard lock(random_mutex_);
  return Clock::duration(
      std::uniform_int_distribution<Clock::rep>(delay.count() / 2, delay.count())(random_));
}

FirstByteHistory* SteadySource::history(const Question& question) {
  if (question.kind == Kind::kChange) return nullptr;
  return question.kind == Kind::kListing ? &listings_ : &objects_;
}

Status SteadySource::refused(const Question& question, const Attempts& attempts,
                             const Circuit::Refusal& refusal, const std::string& reason) const {
  source_metrics::circuit_refusals.add();
  const std::string why = told(refusal) + (reason.empty() ? "" : "; " + reason);
  if (attempts.made > 0) return attempts.give_up(why);
  return {StatusCode::kUnavailable,
          fmt::format("cannot {} {}/{}: {}", question.verb, name(), question.key, why),
          refusal.last};
}

}  // namespace leat
