// SPDX-License-Identifier: Apache-2.0
// ReplayGuard: detects replayed requests by the session and the counter that each carries. Requests
// may arrive out of order within a window.
//
// Guarantees: no request is accepted twice, even if its session was evicted or the clock was set
// back. Memory is bounded: 600 bytes a session. Thread-safe.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <list>
#include <unordered_map>

#include "base/adaptive_mutex.h"
#include "base/hash.h"

namespace leat {

// Highest counter of a session, and a bitmap of the last kCounters up to it.
class ReplayWindow {
 public:
  static constexpr uint64_t kCounters = 4096;

  enum class Verdict : uint8_t { kNew, kSeen, kOld };
  Verdict take(uint64_t counter);

 private:
  uint64_t& word(uint64_t counter) { return seen_[counter / 64 % seen_.size()]; }

  bool any_ = false;
  uint64_t greatest_ = 0;
  std::array<uint64_t, kCounters / 64> seen_{};  // a ring: bit `counter` % kCounters
};

// A sender's process and its token, so that no sender can use up another's counters.
struct ReplaySession {
  uint64_t token = 0;    // any number derived from the token's key
  uint64_t session = 0;  // drawn by the sender
  friend bool operator==(const ReplaySession&, const ReplaySession&) = default;
};

struct ReplayGuardOptions {
  // Beyond this the least recently used session is evicted.
  size_t sessions_max = 100'000;
  int64_t idle_s = 600;  // idle time after which a session is evicted
};

class ReplayGuard {
 public:
  using Options = ReplayGuardOptions;

  explicit ReplayGuard(Options options);

  enum class Verdict : uint8_t {
    kNew,
    kSeen,     // this very request
    kOld,      // possibly seen: the counter is below the window
    kEvicted,  // possibly seen: an evicted session had a request dated as late as this one
  };
  // `date` is the request's, `now` this host's; both in seconds since 1970.
  Verdict take(ReplaySession session, uint64_t counter, int64_t date, int64_t now);

  size_t sessions() const;

 private:
  struct Entry {
    ReplaySession session;
    // Value of evicted_date_ at the start of this entry. A request with an older date may belong to
    // the same session before its eviction.
    int64_t begins_after = 0;
    int64_t date = 0;  // the latest date seen
    int64_t last_used = 0;
    ReplayWindow window;
  };
  struct Hash {
    uint64_t seed;  // random, so that senders cannot choose colliding sessions
    size_t operator()(const ReplaySession& of) const {
      return hash_mix(of.token ^ hash_mix(of.session ^ seed));
    }
  };
  // Requires mutex_.
  void evict_oldest();

  const Options options_;
  mutable AdaptiveMutex mutex_;  // leaf
  std::list<Entry> entries_;     // least recently used first
  std::unordered_map<ReplaySession, std::list<Entry>::iterator, Hash> by_session_;
  int64_t evicted_date_ = 0;  // the latest date of any request of an evicted session
};

}  // namespace leat
