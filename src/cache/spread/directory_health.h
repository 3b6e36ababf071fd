// SPDX-License-Identifier: Apache-2.0
// DirectoryHealth: what the calls to a cache directory's disk say about it, and what follows.
//
//   normal ──3 failed calls in a minute──► unstable ──a probe fails, 100 failed calls──► down
//     ▲◄──3 probes in a row, no failure──────┘                                            │
//     └──────────────a probe, and the directory could be opened anew──────────────────────┘
//   from any: down where calls are under way and none has ended for 10 seconds, or one of them
//   has not for a minute
//
// What is unstable is read and takes nothing new in; what is down is not asked. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/status.h"
#include "cache/host_cache.h"
#include "cache/spread/call_times.h"
#include "runtime/context.h"

namespace leat {

// Shorter times than a disk can be asked in are made so long (1 s and 1 ms).
struct HealthTimes {
  Clock::duration window = std::chrono::minutes(1);  // in which failed calls are counted
  Clock::duration hung_after = std::chrono::seconds(10);
  // Of a call while others end: a sync of much may take longer than any pause between calls.
  Clock::duration one_hung_after = std::chrono::minutes(1);
  // For the calls of a disk that was given up to come back, before the directory is opened anew.
  Clock::duration last_calls_max = std::chrono::seconds(10);
  Clock::duration probe_unstable = std::chrono::seconds(5);
  // Each probe that fails doubles the time to the next.
  Clock::duration probe_down_min = std::chrono::seconds(10);
  Clock::duration probe_down_max = std::chrono::minutes(10);
};

class DirectoryHealth {
 public:
  explicit DirectoryHealth(HealthTimes times = {});

  DirectoryState state() const { return state_.load(std::memory_order_relaxed); }
  std::string why() const;

  const HealthTimes& times() const { return times_; }

  void call_failed(Clock::time_point now, const Status& failure);
  // Whether calls are under way that do not come back.
  bool hangs(const CallTimes& calls, Clock::time_point now) const;
  // They were given up. Down, whatever it was.
  void given_up(Clock::time_point now);

  // To be called about once a second: whether it is time for a probe. The caller then makes one and
  // says how it went; until then none is wanted.
  bool probe_is_due(Clock::time_point now);
  // Of the probe that was due last; one of before a disk was given up says nothing of the next.
  uint64_t probe_number() const { return probe_number_; }
  void probed(Clock::time_point now, const Result<>& outcome);
  // Whether it was down, works again, and has to be opened anew. That ends with opened() or
  // not_opened(); until then nothing more is wanted.
  bool opening_is_due();
  // Whether it was anything but normal since it was opened.
  bool was_unwell() const { return was_unwell_; }
  void opened();
  void not_opened(Clock::time_point now, const Status& why);

 private:
  void change(DirectoryState to, std::string why, Clock::time_point now);  // under the mutex

  const HealthTimes times_;
  std::atomic<DirectoryState> state_ = DirectoryState::kNormal;
  std::atomic<bool> was_unwell_ = false;

  mutable std::mutex mutex_;  // leaf
  std::string why_;
  uint64_t failures_ = 0;  // in this window
  Clock::time_point window_began_;
  Clock::time_point next_probe_;
  Clock::duration probe_every_{};
  unsigned good_probes_ = 0;  // in a row
  unsigned recoveries_ = 0;   // from down, ever
  bool probing_ = false;      // or opening
  bool opening_due_ = false, opening_ = false;
  std::atomic<uint64_t> probe_number_ = 0;
};

// Whether a failed call says something of the disk, and not of what was asked of it.
bool blames_disk(const Status& failure);

}  // namespace leat
