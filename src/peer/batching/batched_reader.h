// SPDX-License-Identifier: Apache-2.0
// BatchedReader: sends the small reads of one worker, several in one request while many are waiting
// (ReadBatcher). A batch returns bytes or nothing. A read that gets nothing is retried alone, and
// that request returns its error. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "http/message.h"
#include "peer/batching/read_batcher.h"
#include "runtime/executor.h"

namespace leat {

// Sends requests to the worker.
class BatchTransport {
 public:
  virtual ~BatchTransport() = default;
  virtual Task<PeerReply<void>> read_alone(Context context, PeerRead request,
                                           std::span<std::byte> into) = 0;
  virtual Task<PeerReply<HttpResponse>> call(Context context, HttpRequest request, PeerRoute route,
                                             Clock::duration grace) = 0;
  // Counts `bytes` of files that arrived in a batch.
  virtual void received(uint64_t bytes) = 0;
};

class BatchedReader : public std::enable_shared_from_this<BatchedReader> {
 public:
  static std::shared_ptr<BatchedReader> make(ReadBatcherOptions options, Executor& executor) {
    return std::shared_ptr<BatchedReader>(new BatchedReader(options, executor));
  }

  // Returns true if the read may be batched: small, and not only_if_cached.
  bool is_batchable(const PeerRead& request) const {
    return request.range.size <= batcher_.options().bytes_max && !request.only_if_cached;
  }
  // Same contract as read_alone(). `transport` must always stand for the same worker.
  Task<PeerReply<void>> read(std::shared_ptr<BatchTransport> transport, Context context,
                             PeerRead request, std::span<std::byte> into);

  const ReadBatcher& batcher() const { return batcher_; }

 private:
  BatchedReader(ReadBatcherOptions options, Executor& executor)
      : batcher_(options), spawner_(executor) {}

  using TransportPtr = std::shared_ptr<BatchTransport>;

  // Result of a wait in ReadBatcher.
  struct WaitResult {
    std::optional<PeerReply<void>> reply{};  // empty: the caller sends the read itself
    bool holds_slot = true;                  // and releases its request slot after that
  };
  Task<WaitResult> wait_in_queue(TransportPtr transport, Context context, PeerRead request,
                                 std::span<std::byte> into);
  // Sends what ReadBatcher released: one read sends itself, several go as one batch.
  void send(const TransportPtr& transport, std::vector<QueuedReadPtr> reads);
  static Task<> poll_loop(std::shared_ptr<BatchedReader> self, TransportPtr transport);
  static Task<> read_batch(std::shared_ptr<BatchedReader> self, TransportPtr transport,
                           std::vector<QueuedReadPtr> reads);

  ReadBatcher batcher_;
  const Spawner spawner_;
};

}  // namespace leat
