// SPDX-License-Identifier: Apache-2.0
// SmallReads: decides which small reads of one worker are sent next, and which go in one request.
// While few requests are in flight, a read is sent at once and alone. Later reads wait and are sent
// together when a request ends, or when the first of them has waited for `patience`: a request in
// flight may wait for a store. No read waits for company, and batches grow with the load. If
// batches give little, all reads go alone. Bookkeeping only; thread-safe, one leaf lock.
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
  uint64_t bytes_max = 16 * kKiB;  // largest small read
  // Requests in flight; further reads wait. Measured: with 8 a directory of 16 readers loses 5 %,
  // because a batch of two or three gains less than its wait costs. With 16, a client with 16 to 24
  // readers gains less.
  unsigned under_way_max = 12;
  size_t together_max = 64;  // reads in one request
  uint64_t bytes_together_max = 256 * kKiB;
  Clock::duration patience = std::chrono::milliseconds(1);
  // All reads go alone for this long after a batch returned less than half of its reads.
  Clock::duration alone_time = std::chrono::seconds(1);
};

// A read that waits.
struct SmallRead {
  // Result of the wait: bytes or an error; null means that the caller sends the read itself.
  using Turn = std::shared_ptr<const PeerReply<Bytes>>;

  PeerRead request{};
  Clock::time_point deadline = Clock::time_point::max();
  const std::shared_ptr<SharedResult<Turn>> turn = SharedResult<Turn>::make();
  Clock::time_point since{};  // set by SmallReads: start of the wait
  bool alone = false;         // set by SmallReads: the read was released and sends itself
};
using SmallReadPtr = std::shared_ptr<SmallRead>;

class SmallReads {
 public:
  explicit SmallReads(SmallReadOptions options = {}) : options_(options) {}

  enum class Entry : uint8_t {
    kGo,            // send now; call ended() afterwards
    kWait,          // wait; SmallReads will release it
    kWaitAndWatch,  // same, and call late() after `patience`
  };
  Entry enter(const SmallReadPtr& read, Clock::time_point now);
  // Like enter(), but never queues: returns false if the read cannot be sent now. Needs no
  // SmallRead.
  bool go(Clock::time_point now);
  // Removes a read that stopped waiting. Returns true if it was already released to go alone; then
  // the caller calls ended() for it.
  bool leave(const SmallReadPtr& read);
  // Ends one request and returns the reads to send next. One read sends itself; several go as one
  // batch. In both cases ended() is called again afterwards.
  std::vector<SmallReadPtr> ended();
  // Returns the reads that have waited too long and those that go along, as ended() does. `again`
  // is set if late() must be called again after `patience`.
  std::vector<SmallReadPtr> late(Clock::time_point now, bool* again);
  // Records that a batch of `of` reads returned `reads` of them.
  void came(size_t reads, size_t of, Clock::time_point now);

  unsigned under_way() const;
  size_t waiting() const;
  const SmallReadOptions& options() const { return options_; }

 private:
  // Require mutex_.
  bool take_place(Clock::time_point now);
  std::vector<SmallReadPtr> take_group();  // from waiting_

  const SmallReadOptions options_;
  mutable std::mutex mutex_;
  unsigned under_way_ = 0;
  bool watched_ = false;
  Clock::time_point alone_until_{};
  std::deque<SmallReadPtr> waiting_;  // in order of arrival
};

}  // namespace leat
