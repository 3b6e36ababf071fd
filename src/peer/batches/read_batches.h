// SPDX-License-Identifier: Apache-2.0
// ReadBatches: the small reads of one worker, several in a request where many come at once
// (SmallReads). A batch gives bytes or nothing: what it does not give is asked for alone, so that
// whatever is to be said of it is said there. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "http/message.h"
#include "peer/batches/small_reads.h"
#include "runtime/executor.h"

namespace leat {

// Who asks the worker.
class BatchAsker {
 public:
  virtual ~BatchAsker() = default;
  virtual Task<PeerReply<void>> read_alone(Context context, PeerRead request,
                                           std::span<std::byte> into) = 0;
  virtual Task<PeerReply<HttpResponse>> call(Context context, HttpRequest request, PeerRoute route,
                                             Clock::duration grace) = 0;
  // So many bytes of files came in a batch.
  virtual void received(uint64_t bytes) = 0;
};

class ReadBatches : public std::enable_shared_from_this<ReadBatches> {
 public:
  static std::shared_ptr<ReadBatches> make(SmallReadOptions options, Executor& executor) {
    return std::shared_ptr<ReadBatches>(new ReadBatches(options, executor));
  }

  // Whether there is anything to gain.
  bool takes(const PeerRead& request) const {
    return request.range.size <= reads_.options().bytes_max && !request.only_if_cached;
  }
  // As read_alone(); of the asker's worker, which is always the same.
  Task<PeerReply<void>> read(std::shared_ptr<BatchAsker> asker, Context context, PeerRead request,
                             std::span<std::byte> into);

  const SmallReads& reads() const { return reads_; }

 private:
  ReadBatches(SmallReadOptions options, Executor& executor) : reads_(options), spawner_(executor) {}

  using Asker = std::shared_ptr<BatchAsker>;

  // What a wait for one's turn came to.
  struct TurnTaken {
    std::optional<PeerReply<void>> reply{};  // nothing: it is to ask by itself
    bool holds_place = true;                 // and to give it on after that
  };
  Task<TurnTaken> wait_for_turn(Asker asker, Context context, PeerRead request,
                                std::span<std::byte> into);
  // Where they have been told to: one asks by itself, several are asked for.
  void send(const Asker& asker, std::vector<SmallReadPtr> reads);
  static Task<> watch(std::shared_ptr<ReadBatches> self, Asker asker);
  static Task<> read_together(std::shared_ptr<ReadBatches> self, Asker asker,
                              std::vector<SmallReadPtr> reads);

  SmallReads reads_;
  const Spawner spawner_;
};

}  // namespace leat
