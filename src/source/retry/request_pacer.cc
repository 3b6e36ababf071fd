// SPDX-License-Identifier: Apache-2.0
// Invariants: the queues move only in grant(), from their heads; an entry is queued, granted, or
// removed. Only heads wait for a time, all others for an event, so a free permit or a token wakes
// one caller.
#include "source/retry/request_pacer.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace leat {
namespace {

constexpr Clock::duration kPauseMax = std::chrono::seconds(30);
constexpr double kNewShare = 0.1;

void smooth(double& value, double sample) {
  value = value == 0 ? sample : value + kNewShare * (sample - value);
}

}  // namespace

// Keeps the entry in the queue while the caller waits, and releases it however the wait ends.
class RequestPacer::Waiter {
 public:
  Waiter(RequestPacer& pacer, uint64_t bytes) : pacer_(pacer), entry_{.bytes = bytes} {
    Clock::time_point now = pacer_.timer_->now();
    Events events;
    {
      std::lock_guard lock(pacer_.mutex_);
      entry_.number = ++pacer_.arrivals_;
      Queue& queue = pacer_.class_of(bytes).queue;
      entry_.at = queue.insert(queue.end(), &entry_);
      pacer_.grant(now, events);
    }
    set(events);
  }
  Waiter(const Waiter&) = delete;
  ~Waiter() {
    if (claimed_) return;
    Clock::time_point now = pacer_.timer_->now();
    Events events;
    {
      std::lock_guard lock(pacer_.mutex_);
      SizeClass& of = pacer_.class_of(entry_.bytes);
      if (entry_.granted) {
        --of.in_flight;
      } else {
        of.queue.erase(entry_.at);
      }
      pacer_.grant(now, events);
    }
    set(events);
  }

  bool granted() const {
    std::lock_guard lock(pacer_.mutex_);
    return entry_.granted;
  }
  Permit claim() {
    claimed_ = true;
    return {&pacer_, entry_.bytes};
  }

  struct Next {
    Timer::Event event;
    Clock::time_point until;
  };
  // Returns what to wait for; nothing if it was granted meanwhile.
  std::optional<Next> next() {
    std::lock_guard lock(pacer_.mutex_);
    if (entry_.granted) return std::nullopt;
    entry_.event = SharedPromise<bool>::make();
    return Next{entry_.event, entry_.timed ? entry_.ready : Clock::time_point::max()};
  }
  // After the wait.
  void recheck() {
    Clock::time_point now = pacer_.timer_->now();
    Events events;
    {
      std::lock_guard lock(pacer_.mutex_);
      entry_.event = nullptr;
      entry_.timed = false;
      pacer_.grant(now, events);
    }
    set(events);
  }

 private:
  RequestPacer& pacer_;
  QueueEntry entry_;
  bool claimed_ = false;
};

RequestPacer::RequestPacer(PacerOptions options, std::shared_ptr<Timer> timer)
    : options_(options),
      timer_(std::move(timer)),
      small_(options.concurrency),
      large_(options.concurrency),
      adaptive_(0, 1),
      requests_(options.requests_per_second, 1),
      bytes_(static_cast<double>(options.bytes_per_second), 0) {
  LEAT_CHECK(options.requests_per_second >= 0);
}

Task<Result<RequestPacer::Permit>> RequestPacer::acquire(Context context, uint64_t bytes,
                                                         const char* what) {
  Waiter waiter(*this, bytes);
  while (!waiter.granted()) {
    std::optional<Waiter::Next> next = waiter.next();
    if (!next) break;
    Result<bool> woken = co_await timer_->wait(context, next->event, next->until, what);
    if (!woken) co_return Error(woken.error());
    waiter.recheck();
  }
  co_return waiter.claim();
}

void RequestPacer::release(uint64_t bytes) {
  Clock::time_point now = timer_->now();
  Events events;
  {
    std::lock_guard lock(mutex_);
    SizeClass& of = class_of(bytes);
    LEAT_CHECK(of.in_flight > 0);
    --of.in_flight;
    grant(now, events);
  }
  set(events);
}

// Returns the class of the longest waiting request that the concurrency limits admit.
RequestPacer::SizeClass* RequestPacer::next_class(Clock::time_point now) {
  SizeClass* next = nullptr;
  for (SizeClass* of : {&small_, &large_}) {
    if (of->queue.empty() || of->in_flight >= of->limit.limit(now)) continue;
    if (next == nullptr || of->queue.front()->number < next->queue.front()->number) next = of;
  }
  return next;
}

void RequestPacer::grant(Clock::time_point now, Events& events) {
  adaptive_.set_rate(now, adaptive_rate_.limit(now));
  while (SizeClass* of = next_class(now)) {
    QueueEntry& first = *of->queue.front();
    if (!std::exchange(first.trimmed, true)) trim(now);
    Clock::time_point ready = ready_at(first);
    if (ready > now) {
      if (!first.timed) {
        first.timed = true;
        first.ready = ready;
        resume(first, events);
      }
      break;
    }
    take(first);
    first.granted = true;
    ++of->in_flight;
    of->queue.pop_front();
    resume(first, events);
  }
  update_demand(now);
}

void RequestPacer::update_demand(Clock::time_point now) {
  const bool has_waiters = !small_.queue.empty() || !large_.queue.empty() || throttled_waiters_ > 0;
  const bool pausing = now < paused_until_;
  const bool in_flight = small_.in_flight + large_.in_flight > 0;
  adaptive_rate_.set_demand(now, in_flight || (has_waiters && !pausing));
}

RequestPacer::ThrottledWaiter RequestPacer::wait_throttled() {
  add_waiters(1);
  return ThrottledWaiter(this);
}

void RequestPacer::add_waiters(int change) {
  Clock::time_point now = timer_->now();
  std::lock_guard lock(mutex_);
  throttled_waiters_ += change;
  update_demand(now);
}

void RequestPacer::resume(QueueEntry& entry, Events& events) {
  if (entry.event) events.push_back(std::move(entry.event));
  entry.event = nullptr;
}

void RequestPacer::set(Events& events) {
  for (Timer::Event& event : events) event->set(true);
}

void RequestPacer::trim(Clock::time_point now) {
  for (TokenBucket* bucket : {&adaptive_, &requests_, &bytes_}) bucket->trim(now);
}

Clock::time_point RequestPacer::ready_at(const QueueEntry& entry) const {
  return std::max({paused_until_, adaptive_.ready_at(1), requests_.ready_at(1),
                   bytes_.ready_at(static_cast<double>(entry.bytes))});
}

void RequestPacer::take(const QueueEntry& entry) {
  adaptive_.take(1);
  requests_.take(1);
  bytes_.take(static_cast<double>(entry.bytes));
}

void RequestPacer::responded(Clock::duration first_byte, Clock::duration whole, uint64_t bytes) {
  Clock::time_point now = timer_->now();
  std::lock_guard lock(mutex_);
  adaptive_rate_.accepted(now, whole);
  SizeClass& of = class_of(bytes);
  if (first_byte > Clock::duration::zero())
    of.limit.responded(now, first_byte, whole, of.in_flight);
  smooth(of.whole_seconds, std::chrono::duration<double>(whole).count());
  smooth(of.bytes_each, static_cast<double>(bytes));
}

void RequestPacer::throttled() {
  Clock::time_point now = timer_->now();
  std::lock_guard lock(mutex_);
  adaptive_rate_.throttled(now);
  small_.limit.throttled(now);
  large_.limit.throttled(now);
  adaptive_.set_rate(now, adaptive_rate_.limit(now));
}

void RequestPacer::pause(Clock::duration requested) {
  Clock::time_point now = timer_->now();
  std::lock_guard lock(mutex_);
  paused_until_ = std::max(paused_until_, now + std::min(requested, kPauseMax));
}

Clock::time_point RequestPacer::paused_until() const {
  std::lock_guard lock(mutex_);
  return paused_until_;
}

unsigned RequestPacer::concurrency_hint(uint64_t bytes) const {
  Clock::time_point now = timer_->now();
  std::lock_guard lock(mutex_);
  if (now < paused_until_) return 1;
  SizeClass& of = class_of(bytes);
  double limit = of.limit.limit(now);
  if (of.whole_seconds == 0) return static_cast<unsigned>(limit);
  auto bounded_by = [&](double per_second) {
    // One more than by Little's law: a request may wait for its token while others are in flight.
    if (per_second > 0) limit = std::min(limit, std::ceil(per_second * of.whole_seconds) + 1);
  };
  bounded_by(adaptive_rate_.limit(now));
  bounded_by(options_.requests_per_second);
  if (of.bytes_each > 0) bounded_by(static_cast<double>(options_.bytes_per_second) / of.bytes_each);
  return static_cast<unsigned>(limit);
}

double RequestPacer::rate() const {
  Clock::time_point now = timer_->now();
  std::lock_guard lock(mutex_);
  return adaptive_rate_.limit(now);
}

unsigned RequestPacer::in_flight() const {
  std::lock_guard lock(mutex_);
  return small_.in_flight + large_.in_flight;
}

size_t RequestPacer::waiting() const {
  std::lock_guard lock(mutex_);
  return small_.queue.size() + large_.queue.size();
}

}  // namespace leat
