// SPDX-License-Identifier: Apache-2.0
// SmallReads: which of the small reads of one worker go next, and which of them together. As long
// as few are under way a read goes at once and alone; those that come meanwhile wait, and go in one
// request when one has ended, or when the first of them has waited for a moment, since what is
// under way may wait for a store. So nobody waits for company, and the more there are, the more go
// together. Where batches give little all go alone. Bookkeeping alone; thread-safe, one leaf lock.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "base/bytes.h"
#include "base/units.h"
#include "peer/peer.h"
#include "runtime/shared_result.h"

namespace leat {

struct SmallReadOptions {
  uint64_t bytes_max = 16 * kKiB;  // of a small read
  // Requests; what comes beyond waits. With 8 a folder of 16 readers loses a twentieth, since two
  // or three in a request gain less than their wait costs; with 16 a client of 16 to 24 gains less.
  unsigned under_way_max = 12;
  size_t together_max = 64;  // reads in one request
  uint64_t bytes_together_max = 256 * kKiB;
  Clock::duration patience = std::chrono::milliseconds(1);
  // So long all go alone when a batch has given less than half of what it was asked for.
  Clock::duration alone_time = std::chrono::seconds(1);
};

// One that waits.
struct SmallRead {
  // What its wait comes to: bytes or why there are none; or null, and it is to ask by itself.
  using Turn = std::shared_ptr<const PeerReply<Bytes>>;

  PeerRead request{};
  Clock::time_point deadline = Clock::time_point::max();
  const std::shared_ptr<SharedResult<Turn>> turn = SharedResult<Turn>::make();
  Clock::time_point since{};  // SmallReads': it waits from then on
  bool alone = false;         // SmallReads': its turn has come, and it asks by itself
};
using SmallReadPtr = std::shared_ptr<SmallRead>;

class SmallReads {
 public:
  explicit SmallReads(SmallReadOptions options = {}) : options_(options) {}

  enum class Entry : uint8_t {
    kGo,            // at once; ended() is called after it
    kWait,          // its turn will come
    kWaitAndWatch,  // likewise, and late() is to be called after `patience`
  };
  Entry enter(const SmallReadPtr& read, Clock::time_point now);
  // As enter(), for one that does not wait where it cannot go at once: without having to be made.
  bool go(Clock::time_point now);
  // It waits no longer. True: it was to go alone, and ended() is called in its place.
  bool leave(const SmallReadPtr& read);
  // Who goes in the place of one that has ended. One asks by itself; several are asked for
  // together; after either ended() is called again.
  std::vector<SmallReadPtr> ended();
  // Who has waited for too long, with those that go along, as of ended(). `again`: to be called
  // once more, after `patience`.
  std::vector<SmallReadPtr> late(Clock::time_point now, bool* again);
  // Of so many that a batch was asked for so many came.
  void came(size_t reads, size_t of, Clock::time_point now);

  unsigned under_way() const;
  size_t waiting() const;
  const SmallReadOptions& options() const { return options_; }

 private:
  // Under mutex_.
  bool take_place(Clock::time_point now);
  std::vector<SmallReadPtr> take_group();  // of those that wait

  const SmallReadOptions options_;
  mutable std::mutex mutex_;
  unsigned under_way_ = 0;
  bool watched_ = false;
  Clock::time_point alone_until_{};
  std::deque<SmallReadPtr> waiting_;  // in the order in which they came
};

}  // namespace leat
