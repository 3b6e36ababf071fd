// SPDX-License-Identifier: Apache-2.0
// Invariants: the queue moves only in grant(), from its head; a place is queued, granted, or
// removed. Only the first place waits for a time, all others for an event, so a free slot or a
// token wakes one caller.
#include "source/steady/pace.h"

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

// Keeps the place in the queue while the caller waits, and releases it however the wait ends.
class Pace::Turn {
 public:
  Turn(Pace& pace, uint64_t bytes) : pace_(pace), place_{.bytes = bytes} {
    Clock::time_point now = pace_.clock_->now();
    Events events;
    {
      std::lock_guard lock(pace_.mutex_);
      place_.at = pace_.queue_.insert(pace_.queue_.end(), &place_);
      pace_.grant(now, events);
    }
    set(events);
  }
  Turn(const Turn&) = delete;
  ~Turn() {
    if (claimed_) return;
    Clock::time_point now = pace_.clock_->now();
    Events events;
    {
      std::lock_guard lock(pace_.mutex_);
      if (place_.granted) {
        --pace_.in_flight_;
      } else {
        pace_.queue_.erase(place_.at);
      }
      pace_.grant(now, events);
    }
    set(events);
  }

  bool granted() const {
    std::lock_guard lock(pace_.mutex_);
    return place_.granted;
  }
  Slot claim() {
    claimed_ = true;
    return Slot(&pace_);
  }

  struct Next {
    WaitClock::Event event;
    Clock::time_point until;
  };
  // Returns what to wait for; nothing if it was granted meanwhile.
  std::optional<Next> next() {
    std::lock_guard lock(pace_.mutex_);
    if (place_.granted) return std::nullopt;
    place_.event = SharedResult<bool>::make();
    return Next{place_.event, place_.timed ? place_.ready : Clock::time_point::max()};
  }
  // After the wait.
  void look_again() {
    Clock::time_point now = pace_.clock_->now();
    Events events;
    {
      std::lock_guard lock(pace_.mutex_);
      place_.event = nullptr;
      place_.timed = false;
      pace_.grant(now, events);
    }
    set(events);
  }

 private:
  Pace& pace_;
  Place place_;
  bool claimed_ = false;
};

Pace::Pace(PaceOptions options, std::shared_ptr<WaitClock> clock)
    : options_(options),
      clock_(std::move(clock)),
      latency_window_(options.window_min, options.window_max),
      learnt_(0, 1),
      requests_(options.requests_per_second, 1),
      bytes_(static_cast<double>(options.bytes_per_second), 0) {
  LEAT_CHECK(options.requests_per_second >= 0);
}

Task<Result<Pace::Slot>> Pace::enter(Context context, uint64_t bytes, const char* what) {
  Turn turn(*this, bytes);
  while (!turn.granted()) {
    std::optional<Turn::Next> next = turn.next();
    if (!next) break;
    Result<bool> woken = co_await clock_->wait(context, next->event, next->until, what);
    if (!woken) co_return Error(woken.error());
    turn.look_again();
  }
  co_return turn.claim();
}

void Pace::leave() {
  Clock::time_point now = clock_->now();
  Events events;
  {
    std::lock_guard lock(mutex_);
    LEAT_CHECK(in_flight_ > 0);
    --in_flight_;
    grant(now, events);
  }
  set(events);
}

void Pace::grant(Clock::time_point now, Events& events) {
  learnt_.set_rate(now, throttle_rate_.limit(now));
  while (!queue_.empty() && in_flight_ < latency_window_.size(now)) {
    Place& first = *queue_.front();
    if (!std::exchange(first.settled, true)) settle(now);
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
    ++in_flight_;
    queue_.pop_front();
    resume(first, events);
  }
  note_wanting(now);
}

void Pace::note_wanting(Clock::time_point now) {
  const bool somebody_waits = !queue_.empty() || wants_ > 0;
  const bool pausing = now < paused_until_;
  throttle_rate_.wanting(now, in_flight_ > 0 || (somebody_waits && !pausing));
}

Pace::Want Pace::want() {
  want(1);
  return Want(this);
}

void Pace::want(int change) {
  Clock::time_point now = clock_->now();
  std::lock_guard lock(mutex_);
  wants_ += change;
  note_wanting(now);
}

void Pace::resume(Place& place, Events& events) {
  if (place.event) events.push_back(std::move(place.event));
  place.event = nullptr;
}

void Pace::set(Events& events) {
  for (WaitClock::Event& event : events) event->set(true);
}

void Pace::settle(Clock::time_point now) {
  for (TokenBucket* bucket : {&learnt_, &requests_, &bytes_}) bucket->settle(now);
}

Clock::time_point Pace::ready_at(const Place& place) const {
  return std::max({paused_until_, learnt_.ready_at(1), requests_.ready_at(1),
                   bytes_.ready_at(static_cast<double>(place.bytes))});
}

void Pace::take(const Place& place) {
  learnt_.take(1);
  requests_.take(1);
  bytes_.take(static_cast<double>(place.bytes));
}

void Pace::answered(Clock::duration first_byte, Clock::duration whole, uint64_t bytes) {
  Clock::time_point now = clock_->now();
  std::lock_guard lock(mutex_);
  throttle_rate_.accepted(now, whole);
  if (first_byte > Clock::duration::zero()) latency_window_.answered(now, first_byte);
  smooth(whole_seconds_, std::chrono::duration<double>(whole).count());
  smooth(bytes_each_, static_cast<double>(bytes));
}

void Pace::throttled() {
  Clock::time_point now = clock_->now();
  std::lock_guard lock(mutex_);
  throttle_rate_.throttled(now);
  learnt_.set_rate(now, throttle_rate_.limit(now));
}

void Pace::pause(Clock::duration wish) {
  Clock::time_point now = clock_->now();
  std::lock_guard lock(mutex_);
  paused_until_ = std::max(paused_until_, now + std::min(wish, kPauseMax));
}

Clock::time_point Pace::paused_until() const {
  std::lock_guard lock(mutex_);
  return paused_until_;
}

unsigned Pace::window() const {
  Clock::time_point now = clock_->now();
  std::lock_guard lock(mutex_);
  if (now < paused_until_) return 1;
  double window = latency_window_.size(now);
  if (whole_seconds_ == 0) return static_cast<unsigned>(window);
  auto bounded_by = [&](double per_second) {
    // One more than by Little's law: a request may wait for its token while others are in flight.
    if (per_second > 0) window = std::min(window, std::ceil(per_second * whole_seconds_) + 1);
  };
  bounded_by(throttle_rate_.limit(now));
  bounded_by(options_.requests_per_second);
  if (bytes_each_ > 0) bounded_by(static_cast<double>(options_.bytes_per_second) / bytes_each_);
  return static_cast<unsigned>(window);
}

double Pace::rate() const {
  Clock::time_point now = clock_->now();
  std::lock_guard lock(mutex_);
  return throttle_rate_.limit(now);
}

unsigned Pace::in_flight() const {
  std::lock_guard lock(mutex_);
  return in_flight_;
}

size_t Pace::waiting() const {
  std::lock_guard lock(mutex_);
  return queue_.size();
}

}  // namespace leat
