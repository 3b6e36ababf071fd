// SPDX-License-Identifier: Apache-2.0
// ReplayGuard: which requests were seen already, by the session and the counter that each carries.
// Requests may come in another order than they were signed, within a window.
//
// Guarantees: no request is taken twice, also when its session was forgotten, or when the clock was
// set back. Memory is bounded: 600 bytes a session. Thread-safe.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <list>
#include <unordered_map>

#include "base/adaptive_mutex.h"
#include "base/hash.h"

namespace leat {

// The greatest counter of a session and which of the kCounters up to it were seen.
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

// A sender's process, and the token that it signs with: nobody can use up another's counters.
struct ReplaySession {
  uint64_t token = 0;    // any number that follows from the token's key
  uint64_t session = 0;  // as the sender drew it
  friend bool operator==(const ReplaySession&, const ReplaySession&) = default;
};

struct ReplayGuardOptions {
  // Above this the session goes that said nothing for longest.
  size_t sessions_max = 100'000;
  int64_t idle_s = 600;  // a session that said nothing for longer is forgotten
};

class ReplayGuard {
 public:
  using Options = ReplayGuardOptions;

  explicit ReplayGuard(Options options);

  enum class Verdict : uint8_t {
    kNew,
    kSeen,       // this very request
    kOld,        // or it might be: so many came since
    kForgotten,  // or it might be: a session was forgotten that was dated as late as this one
  };
  // `date` is what the request says, `now` what we say; both in seconds since 1970.
  Verdict take(ReplaySession session, uint64_t counter, int64_t date, int64_t now);

  size_t sessions() const;

 private:
  struct Entry {
    ReplaySession session;
    // As forgotten_ when this began: what is older may be of the same session, before it was
    // forgotten.
    int64_t begins_after = 0;
    int64_t date = 0;  // the latest
    int64_t heard = 0;
    ReplayWindow window;
  };
  struct Hash {
    uint64_t seed;  // nobody chooses sessions that meet
    size_t operator()(const ReplaySession& of) const {
      return hash_mix(of.token ^ hash_mix(of.session ^ seed));
    }
  };
  // Under the lock.
  void forget_oldest();

  const Options options_;
  mutable AdaptiveMutex mutex_;  // leaf
  std::list<Entry> entries_;     // who said nothing for longest first
  std::unordered_map<ReplaySession, std::list<Entry>::iterator, Hash> by_session_;
  int64_t forgotten_ = 0;  // the latest date of any request of a session that is forgotten
};

}  // namespace leat
