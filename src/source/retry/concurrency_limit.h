// SPDX-License-Identifier: Apache-2.0
// ConcurrencyLimit: the limit of concurrent requests of one kind to a store. It grows to the
// product of bandwidth and latency. It does so while the limit is in use, first-byte latency stays
// near its minimum, and goodput rises. It shrinks while latency is far above its minimum. Not
// thread-safe.
//
// Time is cut into windows of one latency, at least 50 ms. Each is judged at its end:
// - Slow: latency is twice the lowest of the last minute, and 20 ms above it. The limit shrinks by
//   a tenth. It does so once a second at most.
// - Fast: latency is within a quarter of the lowest, or 2 ms above it. If the limit was in use, it
//   doubles. Towards a far store the first step is larger: it aims at the rate that the start value
//   gives a store 10 ms away. It grows by an eighth after the first failed step.
// - Failed step: the next window is not fast, or goodput rose by less than 0.3 of the step's share.
//   A failed doubling leaves the product that it showed. A failed small step is undone. Then none
//   is made for 10 s, then for twice as long, at most a minute.
// Sources: gradient of latency as in TCP Vegas (Brakmo, Peterson 1995); Little's law says that
// goodput must rise with the limit while latency does not.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/context.h"

namespace leat {

struct ConcurrencyOptions {
  unsigned min = 4;  // at least 1
  // Where it begins, and where it returns to after slow times without requests.
  unsigned start = 64;
  unsigned max = 1024;
};
// Returns the defaults, with less where this process may open few files (RLIMIT_NOFILE): a request
// needs a connection and files of the cache.
ConcurrencyOptions default_concurrency();

class ConcurrencyLimit {
 public:
  explicit ConcurrencyLimit(ConcurrencyOptions options);

  // A response has ended after `whole`, with its first byte after `first_byte`. `in_flight`
  // requests of this kind were in flight with it.
  void responded(Clock::time_point now, Clock::duration first_byte, Clock::duration whole,
                 unsigned in_flight);
  // The store throttles: its rate is the limit, so the concurrency does not grow.
  void throttled(Clock::time_point now) { throttled_at_ = now; }
  unsigned limit(Clock::time_point now);

 private:
  // The lowest mean first byte of each of the last 60 seconds.
  static constexpr int64_t kRemembered = 60;
  struct Past {
    int64_t second = -1;
    double mean = 0;
  };

  // Begins a window; responses before `from` do not count.
  void begin(Clock::time_point now, Clock::time_point from, Clock::duration latency);
  void end_window(Clock::time_point now);
  double lowest(int64_t second, double mean);
  void recover(Clock::time_point now);
  void shrink(Clock::time_point now);
  bool has_gained(bool fast, double goodput) const;
  // `gain`: of goodput, while the latency was near its lowest; zero: it was not.
  void undo_step(Clock::time_point now, double gain, double least_share);
  void grow(Clock::time_point now, double goodput, double least);

  ConcurrencyOptions options_;
  unsigned limit_;

  // The present window.
  Clock::time_point begin_{}, end_{};
  Clock::time_point last_{};   // response
  double first_byte_sum_ = 0;  // seconds
  double whole_sum_ = 0;       // seconds
  uint64_t count_ = 0;
  unsigned in_flight_max_ = 0;

  std::array<Past, kRemembered> past_;
  double smoothed_ = 0;  // mean first byte over windows, in seconds; zero: none yet
  bool fast_start_ = true;
  // The limit and goodput before the last step, which is not judged yet; zero: there is none.
  unsigned step_from_ = 0;
  double step_goodput_ = 0;
  Clock::duration hold_{};
  Clock::time_point hold_until_{}, shrunk_at_{}, throttled_at_{}, recovered_at_{};
};

}  // namespace leat
