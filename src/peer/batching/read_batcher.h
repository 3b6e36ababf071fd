// SPDX-License-Identifier: Apache-2.0
// ReadBatcher: decides which small reads of one worker are sent next, and which go in one request.
// While few requests are in flight, a read is sent at once and alone. Later reads wait and are sent
// together when a request ends, or when the first of them has waited for `wait_max`: a request in
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
#include "runtime/shared_promise.h"

namespace leat {

struct ReadBatcherOptions {
  uint64_t bytes_max = 16 * kKiB;  // largest small read
  // Requests in flight; further reads wait. Measured: with 8 a directory of 16 readers loses 5 %,
  // because a batch of two or three gains less than its wait costs. With 16, a client with 16 to 24
  // readers gains less.
  unsigned in_flight_max = 12;
  size_t batch_reads_max = 64;  // reads in one request
  uint64_t batch_bytes_max = 256 * kKiB;
  Clock::duration wait_max = std::chrono::milliseconds(1);
  // All reads go alone for this long after a batch returned less than half of its reads.
  Clock::duration unbatched_time = std::chrono::seconds(1);
};

// A read that waits.
struct QueuedRead {
  // Result of the wait: bytes or an error; null means that the caller sends the read itself.
  using Completion = std::shared_ptr<const PeerReply<Bytes>>;

  PeerRead request{};
  Clock::time_point deadline = Clock::time_point::max();
  const std::shared_ptr<SharedPromise<Completion>> completion = SharedPromise<Completion>::make();
  Clock::time_point since{};  // set by ReadBatcher: start of the wait
  bool unbatched = false;     // set by ReadBatcher: the read was released and sends itself
};
using QueuedReadPtr = std::shared_ptr<QueuedRead>;

class ReadBatcher {
 public:
  explicit ReadBatcher(ReadBatcherOptions options = {}) : options_(options) {}

  enum class Admission : uint8_t {
    kSendNow,      // send now; call request_ended() afterwards
    kWait,         // wait; ReadBatcher will release it
    kWaitAndPoll,  // same, and call take_due() after `wait_max`
  };
  Admission admit(const QueuedReadPtr& read, Clock::time_point now);
  // Like admit(), but never queues: returns false if the read cannot be sent now. Needs no
  // QueuedRead.
  bool try_admit(Clock::time_point now);
  // Removes a read that stopped waiting. Returns true if it was already released to go alone; then
  // the caller calls request_ended() for it.
  bool withdraw(const QueuedReadPtr& read);
  // Ends one request and returns the reads to send next. One read sends itself; several go as one
  // batch. In both cases request_ended() is called again afterwards.
  std::vector<QueuedReadPtr> request_ended();
  // Returns the reads that have waited too long and those that fit the batch, as request_ended()
  // does. `again` is set if take_due() must be called again after `wait_max`.
  std::vector<QueuedReadPtr> take_due(Clock::time_point now, bool* again);
  // Records that a batch of `of` reads returned `reads` of them.
  void record_batch(size_t reads, size_t of, Clock::time_point now);

  unsigned in_flight() const;
  size_t waiting() const;
  const ReadBatcherOptions& options() const { return options_; }

 private:
  // Require mutex_.
  bool try_take_slot(Clock::time_point now);
  std::vector<QueuedReadPtr> take_batch();  // from waiting_

  const ReadBatcherOptions options_;
  mutable std::mutex mutex_;
  unsigned in_flight_ = 0;
  bool polled_ = false;
  Clock::time_point unbatched_until_{};
  std::deque<QueuedReadPtr> waiting_;  // in order of arrival
};

}  // namespace leat
