// SPDX-License-Identifier: Apache-2.0
// RequestPacer: the request limiter of a store. It bounds the concurrent requests by the
// concurrency limit, small and large ones apart, and the rate by what the store was seen to accept
// and what the mount allows. First in, first out, except that a request passes those of the other
// size while their limit is reached. Thread-safe. Must outlive its permits and all callers that
// wait in acquire().
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
#include "source/retry/adaptive_rate.h"
#include "source/retry/concurrency_limit.h"
#include "source/retry/timer.h"
#include "source/retry/token_bucket.h"
#include "source/source.h"

namespace leat {

struct PacerOptions {
  ConcurrencyOptions concurrency = default_concurrency();  // of small requests, and of large ones
  double requests_per_second = 0;                          // zero: no ceiling
  uint64_t bytes_per_second = 0;                           // zero: no ceiling
};

class RequestPacer {
 public:
  // One request in flight while this lives.
  class Permit {
   public:
    Permit(Permit&& other) noexcept
        : pacer_(std::exchange(other.pacer_, nullptr)), bytes_(other.bytes_) {}
    Permit& operator=(Permit&&) = delete;
    ~Permit() {
      if (pacer_ != nullptr) pacer_->release(bytes_);
    }

   private:
    friend class RequestPacer;
    Permit(RequestPacer* pacer, uint64_t bytes) : pacer_(pacer), bytes_(bytes) {}

    RequestPacer* pacer_;
    uint64_t bytes_;
  };

  // While this lives, a throttled caller waits elsewhere to retry.
  class ThrottledWaiter {
   public:
    ThrottledWaiter(ThrottledWaiter&& other) noexcept
        : pacer_(std::exchange(other.pacer_, nullptr)) {}
    ThrottledWaiter& operator=(ThrottledWaiter&&) = delete;
    ~ThrottledWaiter() {
      if (pacer_ != nullptr) pacer_->add_waiters(-1);
    }

   private:
    friend class RequestPacer;
    explicit ThrottledWaiter(RequestPacer* pacer) : pacer_(pacer) {}

    RequestPacer* pacer_;
  };

  RequestPacer(PacerOptions options, std::shared_ptr<Timer> timer);

  // Waits for the permit of a request that will transfer `bytes`. Returns kCancelled or kTimedOut,
  // naming `what`, if the context ends first; it takes nothing then. The queue is as long as there
  // are callers: each entry lies in the frame of its coroutine.
  Task<Result<Permit>> acquire(Context context, uint64_t bytes, const char* what);

  // Reports the outcome of a request that has a permit. `first_byte` is zero if the source does not
  // report it, or if it does not measure the store's queue.
  void responded(Clock::duration first_byte, Clock::duration whole, uint64_t bytes);
  void throttled();
  ThrottledWaiter wait_throttled();
  // Sends nothing for the time that the store requested, at most 30 s.
  void pause(Clock::duration requested);
  Clock::time_point paused_until() const;

  // Returns how many requests of `bytes` can be in flight now without waiting here: the concurrency
  // limit, or fewer if a rate is the limit. At least 1.
  unsigned concurrency_hint(uint64_t bytes) const;
  // Requests per second that the store accepts; zero: no limit known.
  double rate() const;
  unsigned in_flight() const;
  size_t waiting() const;

 private:
  // One caller's queue entry, in its coroutine's frame.
  struct QueueEntry {
    uint64_t bytes;
    uint64_t number = 0;           // of its arrival
    Timer::Event event = nullptr;  // resumes the caller; null while it runs
    bool granted = false;
    bool trimmed = false;  // the buckets collect tokens for it
    bool timed = false;    // it is the first and waits until `ready` on its own
    Clock::time_point ready{};
    std::list<QueueEntry*>::iterator at{};
  };
  class Waiter;
  using Events = std::vector<Timer::Event>;
  using Queue = std::list<QueueEntry*>;
  // Requests of one size class.
  struct SizeClass {
    explicit SizeClass(ConcurrencyOptions options) : limit(options) {}

    Queue queue;
    unsigned in_flight = 0;
    ConcurrencyLimit limit;
    // Smoothed over responses; turns a rate into a number of concurrent requests.
    double whole_seconds = 0;
    double bytes_each = 0;
  };

  void release(uint64_t bytes);
  void add_waiters(int change);
  // The functions below expect mutex_ to be held.
  SizeClass& class_of(uint64_t bytes) const {
    return bytes <= kSmallRequestBytes ? small_ : large_;
  }
  SizeClass* next_class(Clock::time_point now);
  void grant(Clock::time_point now, Events& events);
  void update_demand(Clock::time_point now);
  void trim(Clock::time_point now);
  Clock::time_point ready_at(const QueueEntry& entry) const;
  void take(const QueueEntry& entry);
  static void resume(QueueEntry& entry, Events& events);
  static void set(Events& events);

  const PacerOptions options_;
  const std::shared_ptr<Timer> timer_;
  mutable std::mutex mutex_;  // leaf; events are set after it is released
  mutable SizeClass small_, large_;
  uint64_t arrivals_ = 0;
  int throttled_waiters_ = 0;
  mutable AdaptiveRate adaptive_rate_;
  TokenBucket adaptive_, requests_, bytes_;
  Clock::time_point paused_until_ = Clock::time_point::min();
};

}  // namespace leat
