// SPDX-License-Identifier: Apache-2.0
// DirectoryHealth: the state of a cache directory's disk, derived from its calls.
//
//   normal ──3 failed calls in a minute──► unstable ──a probe fails, 100 failed calls──► down
//     ▲◄──3 probes in a row, no failure──────┘                                            │
//     └───────────────a probe succeeds, and the directory was reopened────────────────────┘
//   from any state: down if no call in flight ends for 10 seconds, or one call takes a minute
//
// An unstable directory is read and accepts nothing new; a down one gets no requests. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/status.h"
#include "cache/host_cache.h"
#include "cache/multi_dir/inflight_calls.h"
#include "runtime/context.h"

namespace leat {

// Values below the minimum for a disk are raised to it (1 s and 1 ms).
struct HealthTimes {
  Clock::duration window = std::chrono::minutes(1);  // period in which failed calls are counted
  Clock::duration hang_timeout = std::chrono::seconds(10);
  // Limit for one call while others end: a large sync may take longer than any pause between calls.
  Clock::duration call_hang_timeout = std::chrono::minutes(1);
  // Wait for the last calls of a given-up disk before the directory is reopened.
  Clock::duration drain_timeout = std::chrono::seconds(10);
  Clock::duration probe_interval = std::chrono::seconds(5);
  // Each failed probe doubles the time to the next.
  Clock::duration probe_backoff_min = std::chrono::seconds(10);
  Clock::duration probe_backoff_max = std::chrono::minutes(10);
};

class DirectoryHealth {
 public:
  explicit DirectoryHealth(HealthTimes times = {});

  DirectoryState state() const { return state_.load(std::memory_order_relaxed); }
  std::string why() const;

  const HealthTimes& times() const { return times_; }

  void call_failed(Clock::time_point now, const Status& failure);
  // Returns true if calls in flight do not return.
  bool hangs(const InflightCalls& calls, Clock::time_point now) const;
  // The hanging calls were given up: down, whatever the state was.
  void note_given_up(Clock::time_point now);

  // Call about once a second: returns true if a probe is due. The caller then makes one and reports
  // it with note_probe(); until then no other is due.
  bool probe_is_due(Clock::time_point now);
  // Number of the last due probe. A probe sent before a give-up must not count for the next one.
  uint64_t probe_number() const { return probe_number_; }
  void note_probe(Clock::time_point now, const Result<>& outcome);
  // Returns true if the disk was down, works again, and the directory must be reopened. The caller
  // then reports with note_opened() or note_open_failed(); until then nothing else is due.
  bool opening_is_due();
  // Returns true if it was ever not normal since it was opened.
  bool was_degraded() const { return was_degraded_; }
  void note_opened();
  void note_open_failed(Clock::time_point now, const Status& why);

 private:
  void change(DirectoryState to, std::string why, Clock::time_point now);  // needs the mutex

  const HealthTimes times_;
  std::atomic<DirectoryState> state_ = DirectoryState::kNormal;
  std::atomic<bool> was_degraded_ = false;

  mutable std::mutex mutex_;  // leaf
  std::string why_;
  uint64_t failures_ = 0;  // in this window
  Clock::time_point window_began_;
  Clock::time_point next_probe_;
  Clock::duration probe_every_{};
  unsigned good_probes_ = 0;  // in a row
  unsigned recoveries_ = 0;   // from down, since start
  bool probing_ = false;      // or opening
  bool opening_due_ = false, opening_ = false;
  std::atomic<uint64_t> probe_number_ = 0;
};

// Returns true if a failed call indicates a disk fault, not an invalid request.
bool blames_disk(const Status& failure);

}  // namespace leat
