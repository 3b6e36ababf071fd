// SPDX-License-Identifier: Apache-2.0
// Pace: the request limiter of a store, with one FIFO queue. It bounds the concurrent requests by
// the window, and the rate by what the store was seen to accept and what the mount allows.
// Thread-safe. Must outlive its slots and all callers that wait in enter().
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/status.h"
#include "runtime/context.h"
#include "runtime/task.h"
#include "source/steady/latency_window.h"
#include "source/steady/throttle_rate.h"
#include "source/steady/token_bucket.h"
#include "source/steady/wait_clock.h"

namespace leat {

struct PaceOptions {
  unsigned window_min = 4;  // at least 1
  unsigned window_max = 64;
  double requests_per_second = 0;  // zero: no ceiling
  uint64_t bytes_per_second = 0;   // zero: no ceiling
};

class Pace {
 public:
  // One request in flight while this lives.
  class Slot {
   public:
    Slot(Slot&& other) noexcept : pace_(std::exchange(other.pace_, nullptr)) {}
    Slot& operator=(Slot&&) = delete;
    ~Slot() {
      if (pace_ != nullptr) pace_->leave();
    }

   private:
    friend class Pace;
    explicit Slot(Pace* pace) : pace_(pace) {}

    Pace* pace_;
  };

  // While this lives, a throttled caller waits elsewhere to retry.
  class Want {
   public:
    Want(Want&& other) noexcept : pace_(std::exchange(other.pace_, nullptr)) {}
    Want& operator=(Want&&) = delete;
    ~Want() {
      if (pace_ != nullptr) pace_->want(-1);
    }

   private:
    friend class Pace;
    explicit Want(Pace* pace) : pace_(pace) {}

    Pace* pace_;
  };

  Pace(PaceOptions options, std::shared_ptr<WaitClock> clock);

  // Waits for the turn of a request that will transfer `bytes`. Returns kCancelled or kTimedOut,
  // naming `what`, if the context ends first; it takes nothing then. The queue is as long as there
  // are callers: each entry lies in the frame of its coroutine.
  Task<Result<Slot>> enter(Context context, uint64_t bytes, const char* what);

  // Reports the outcome of a request that had a slot. `first_byte` is zero if the source does not
  // report it.
  void answered(Clock::duration first_byte, Clock::duration whole, uint64_t bytes);
  void throttled();
  Want want();
  // Sends nothing for the time that the store asked for, at most 30 s.
  void pause(Clock::duration wish);
  Clock::time_point paused_until() const;

  // Returns how many requests can be in flight now without waiting here: the window, or fewer if a
  // rate is the limit. At least 1.
  unsigned window() const;
  // Requests per second that the store accepts; zero: no limit known.
  double rate() const;
  unsigned in_flight() const;
  size_t waiting() const;

 private:
  // One caller's queue entry, in its coroutine's frame.
  struct Place {
    uint64_t bytes;
    WaitClock::Event event = nullptr;  // resumes the caller; null while it runs
    bool granted = false;
    bool settled = false;  // the buckets gather tokens for it
    bool timed = false;    // it is the first and waits until `ready` on its own
    Clock::time_point ready{};
    std::list<Place*>::iterator at{};
  };
  class Turn;
  using Events = std::vector<WaitClock::Event>;

  void leave();
  void want(int change);
  // The functions below expect mutex_ to be held.
  void grant(Clock::time_point now, Events& events);
  void note_wanting(Clock::time_point now);
  void settle(Clock::time_point now);
  Clock::time_point ready_at(const Place& place) const;
  void take(const Place& place);
  static void resume(Place& place, Events& events);
  static void set(Events& events);

  const PaceOptions options_;
  const std::shared_ptr<WaitClock> clock_;
  mutable std::mutex mutex_;  // leaf; events are set after it is released
  std::list<Place*> queue_;
  unsigned in_flight_ = 0;
  int wants_ = 0;
  mutable LatencyWindow latency_window_;
  mutable ThrottleRate throttle_rate_;
  TokenBucket learnt_, requests_, bytes_;
  Clock::time_point paused_until_ = Clock::time_point::min();
  // Smoothed over responses; turns a rate into a number of concurrent requests.
  double whole_seconds_ = 0;
  double bytes_each_ = 0;
};

}  // namespace leat
