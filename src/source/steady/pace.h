// SPDX-License-Identifier: Apache-2.0
// Pace: when the next request may go to a store. A gate with one queue, first come, first served:
// through it go at most as many requests at a time as the window allows, and no more in a second
// than the store was seen to take and than the mount allows. Thread-safe. Must outlive its slots
// and whoever waits in enter().
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
  // One request under way while this lives.
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

  // Somebody whom the store has throttled waits, not in here, to come again while this lives.
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

  // Waits for the turn of a request that will bring `bytes`. kCancelled or kTimedOut, naming
  // `what`, when the context ends first; nothing is taken then. The queue is as long as there are
  // callers: each has its place in its own coroutine.
  Task<Result<Slot>> enter(Context context, uint64_t bytes, const char* what);

  // What became of a request that had a slot. `first_byte` is zero where the source does not tell.
  void answered(Clock::duration first_byte, Clock::duration whole, uint64_t bytes);
  void throttled();
  Want want();
  // The store wants to be left alone for so long; at most 30 s of it are believed.
  void pause(Clock::duration wish);
  Clock::time_point paused_until() const;

  // How many requests can be under way now without one of them waiting in here: the window, or
  // less where a rate is what limits. At least 1.
  unsigned window() const;
  // Requests a second that the store takes; zero: as many as there are.
  double rate() const;
  unsigned in_flight() const;
  size_t waiting() const;

 private:
  // One caller's place in the queue, in its coroutine's frame.
  struct Place {
    uint64_t bytes;
    WaitClock::Event event = nullptr;  // resumes the caller; none while it runs
    bool granted = false;
    bool settled = false;  // the buckets gather for it
    bool timed = false;    // it is the first and waits until `ready` by itself
    Clock::time_point ready{};
    std::list<Place*>::iterator at{};
  };
  class Turn;
  using Events = std::vector<WaitClock::Event>;

  void leave();
  void want(int change);
  // The rest expect mutex_ to be held.
  void grant(Clock::time_point now, Events& events);
  void note_wanting(Clock::time_point now);
  void settle(Clock::time_point now);
  Clock::time_point ready_at(const Place& place) const;
  void take(const Place& place);
  static void resume(Place& place, Events& events);
  static void set(Events& events);

  const PaceOptions options_;
  const std::shared_ptr<WaitClock> clock_;
  mutable std::mutex mutex_;  // leaf; events are set after it is let go
  std::list<Place*> queue_;
  unsigned in_flight_ = 0;
  int wants_ = 0;
  mutable LatencyWindow latency_window_;
  mutable ThrottleRate throttle_rate_;
  TokenBucket learnt_, requests_, bytes_;
  Clock::time_point paused_until_ = Clock::time_point::min();
  // Smoothed, of answers: what a rate means in requests at a time.
  double whole_seconds_ = 0;
  double bytes_each_ = 0;
};

}  // namespace leat
