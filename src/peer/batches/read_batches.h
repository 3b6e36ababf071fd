// SPDX-License-Identifier: Apache-2.0
// ReadBatches: sends the small reads of one worker, several in one request while many are waiting
// (SmallReads). A batch returns bytes or nothing. A read that gets nothing is retried alone, and
// that request returns its error. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "http/message.h"
#include "peer/batches/small_reads.h"
#include "runtime/executor.h"

namespace leat {

// Sends requests to the worker.
class BatchAsker {
 public:
  virtual ~BatchAsker() = default;
  virtual Task<PeerReply<void>> read_alone(Context context, PeerRead request,
                                           std::span<std::byte> into) = 0;
  virtual Task<PeerReply<HttpResponse>> call(Context context, HttpRequest request, PeerRoute route,
                                             Clock::duration grace) = 0;
  // Counts `bytes` of files that arrived in a batch.
  virtual void received(uint64_t bytes) = 0;
};

class ReadBatches : public std::enable_shared_from_this<ReadBatches> {
 public:
  static std::shared_ptr<ReadBatches> make(SmallReadOptions options, Executor& executor) {
    return std::shared_ptr<ReadBatches>(new ReadBatches(options, executor));
  }

  // Returns true if the read may be batched: small, and not only_if_cached.
  bool takes(const PeerRead& request) const {
    return request.range.size <= reads_.options().bytes_max && !request.only_if_cached;
  }
  // Same contract as read_alone(). `asker` must always stand for the same worker.
  Task<PeerReply<void>> read(std::shared_ptr<BatchAsker> asker, Context context, PeerRead request,
                             std::span<std::byte> into);

  const SmallReads& reads() const { return reads_; }

 private:
  ReadBatches(SmallReadOptions options, Executor& executor) : reads_(options), spawner_(executor) {}

  using Asker = std::shared_ptr<BatchAsker>;

  // Result of a wait in SmallReads.
  struct TurnTaken {
    std::optional<PeerReply<void>> reply{};  // empty: the caller sends the read itself
    bool holds_place = true;                 // and releases its request slot after that
  };
  Task<TurnTaken> wait_for_turn(Asker asker, Context context, PeerRead request,
                                std::span<std::byte> into);
  // Sends what SmallReads released: one read sends itself, several go as one batch.
  void send(const Asker& asker, std::vector<SmallReadPtr> reads);
  static Task<> watch(std::shared_ptr<ReadBatches> self, Asker asker);
  static Task<> read_together(std::shared_ptr<ReadBatches> self, Asker asker,
                              std::vector<SmallReadPtr> reads);

  SmallReads reads_;
  const Spawner spawner_;
};

}  // namespace leat
