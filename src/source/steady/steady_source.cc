// SPDX-License-Identifier: Apache-2.0
// Invariant: an attempt has one slot of the pace and one pass of the circuit from just before the
// inner source is asked until learn(); nothing else is held while a request waits. The parts have
// leaf locks of their own and are called one after the other.
#include "source/steady/steady_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
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
      metrics_(labels_of(*inner_)) {
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
  if (into.empty()) {  // the store is not asked
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

AttemptTerms SteadySource::terms_of(const Question& question, Attempts& attempts) {
  Clock::time_point now = clock_->now();
  Clock::duration bound = options_.silence_max;
  if (FirstByteHistory* known = history(question)) {
    // Where one connection in ten stalls, four in a row are still chance, and are over within 4 s;
    // then perhaps this answer does take longer.
    const unsigned doublings = attempts.silences > 3 ? std::min(attempts.silences - 3, 8u) : 0;
    bound = std::min(bound, known->bound(now) * (1 << doublings));
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

  // A source that reports no first byte has answered by its end.
  bool began = report.first_byte > Clock::duration::zero();
  Clock::duration first_byte = began ? report.first_byte : attempts.whole;
  FirstByteHistory* known = history(question);
  switch (attempts.met) {
    case Met::kAnswer:
      leave.pass.answered();
      budget_.earn();
      if (known != nullptr) known->answered(now, first_byte);
      pace_.answered(known != nullptr ? report.first_byte : Clock::duration{}, attempts.whole,
                     question.bytes);
      return false;
    case Met::kThrottling:
      source_metrics::throttled.add();
      leave.pass.answered();
      pace_.throttled();
      return true;
    case Met::kSilence:
      source_metrics::silences.add();
      if (!began && known != nullptr) known->silent(now);
      [[fallthrough]];
    case Met::kUnavailable:
      if (began && known != nullptr) known->answered(now, report.first_byte);
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

Clock::duration SteadySource::delay_after(const Attempts& attempts) {
  // A silence was a pause already.
  if (attempts.met == Met::kSilence) return {};
  const bool throttled = attempts.met == Met::kThrottling;
  const unsigned doublings = (throttled ? attempts.throttled : attempts.failed()) - 1;
  // What throttles is slowed down by the pace; one request alone has none to speak of.
  const Clock::duration longest =
      throttled ? std::min(kThrottledDelayMax, options_.delay_max) : options_.delay_max;
  const Clock::duration delay =
      std::min(options_.delay_min * (Clock::rep{1} << std::min(doublings, 20u)), longest);
  std::lock_guard lock(random_mutex_);
  return Clock::duration(
      std::uniform_int_distribution<Clock::rep>(delay.count() / 2, delay.count())(random_));
}

FirstByteHistory* SteadySource::history(const Question& question) {
  if (question.kind == Kind::kChange) return nullptr;
  return question.kind == Kind::kListing ? &listings_ : &objects_;
}

Status SteadySource::refused(const Question& question, const Attempts& attempts,
                             const Circuit::Refusal& refusal) const {
  source_metrics::circuit_refusals.add();
  if (attempts.made > 0) return attempts.give_up(told(refusal));
  return {StatusCode::kUnavailable,
          fmt::format("cannot {} {}/{}: {}", question.verb, name(), question.key, told(refusal)),
          refusal.last};
}

}  // namespace leat
