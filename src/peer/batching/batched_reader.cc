// SPDX-License-Identifier: Apache-2.0
#include "peer/batching/batched_reader.h"

#include <algorithm>
#include <utility>

#include "telemetry/metrics.h"
#include "wire/batch.h"

namespace leat {
namespace {

Counter batches_total("leat_peer_batches_total",
                      "Batch requests to workers, each with several small reads");
Counter batched_reads_total("leat_peer_batched_reads_total",
                            "Small reads answered as part of a batch");

// The worker is older than its registry record says, as for a moment after a downgrade. It answers
// other requests.
bool lacks_batches(const PeerReply<HttpResponse>& reply) {
  if (reply.result) return false;
  const StatusCode code = reply.result.error().code();
  return code == StatusCode::kNotFound || code == StatusCode::kUnsupported;
}

// Returns the result of each read; null: the read is sent alone.
std::vector<QueuedRead::Completion> completions_of(PeerReply<HttpResponse> reply,
                                                   const std::vector<PeerReadRequest>& requests) {
  std::vector<QueuedRead::Completion> completions(requests.size());
  if (!responded(reply.outcome) && !lacks_batches(reply)) {
    const auto failure = std::make_shared<const PeerReply<Bytes>>(
        PeerReply<Bytes>{reply.outcome, Error(reply.result.error()), reply.epoch, {}});
    std::ranges::fill(completions, failure);
    return completions;
  }
  if (!reply.result) return completions;
  Result<BatchAnswer> answer =
      decode_batch_answer(Bytes::of(std::move(reply.result->body)), requests);
  if (!answer) return completions;
  for (size_t i = 0; i < completions.size(); ++i) {
    Result<Bytes>& part = (*answer)[i];
    if (!part) continue;
    completions[i] = std::make_shared<const PeerReply<Bytes>>(
        PeerReply<Bytes>{reply.outcome, *std::move(part), reply.epoch, {}});
  }
  return completions;
}

}  // namespace

// Most reads go at once and cost two locks.
Task<PeerReply<void>> BatchedReader::read(TransportPtr transport, Context context, PeerRead request,
                                          std::span<std::byte> into) {
  WaitResult result;
  if (!batcher_.try_admit(Clock::now())) {
    result = co_await wait_in_queue(transport, context, request, into);
    if (result.reply) co_return *std::move(result.reply);
  }
  PeerReply<void> reply =
      co_await transport->read_alone(std::move(context), std::move(request), into);
  if (result.holds_slot) send(transport, batcher_.request_ended());
  co_return reply;
}

Task<BatchedReader::WaitResult> BatchedReader::wait_in_queue(TransportPtr transport,
                                                             Context context, PeerRead request,
                                                             std::span<std::byte> into) {
  auto read = std::make_shared<QueuedRead>();
  read->request = request;
  read->deadline = context.deadline;
  const ReadBatcher::Admission admission = batcher_.admit(read, Clock::now());
  if (admission == ReadBatcher::Admission::kSendNow) co_return WaitResult{};
  if (admission == ReadBatcher::Admission::kWaitAndPoll)
    spawner_.spawn(poll_loop(shared_from_this(), transport));
  Result<QueuedRead::Completion> completion =
      co_await read->completion->wait(context, "a batch of small reads");
  if (!completion) {
    if (batcher_.withdraw(read)) send(transport, batcher_.request_ended());
    co_return WaitResult{
        PeerReply<void>{PeerOutcome::kUnreachable, Error(completion.error()), 0, {}}};
  }
  const PeerReply<Bytes>* reply = completion->get();
  // A read of a batch has no request slot of its own.
  if (reply == nullptr) co_return WaitResult{.reply = {}, .holds_slot = read->unbatched};
  if (!reply->result) {
    co_return WaitResult{
        PeerReply<void>{reply->outcome, Error(reply->result.error()), reply->epoch, {}}};
  }
  reply->result->copy_to(into);
  request.progress.report(into.size());
  co_return WaitResult{PeerReply<void>{reply->outcome, {}, reply->epoch, {}}};
}

void BatchedReader::send(const TransportPtr& transport, std::vector<QueuedReadPtr> reads) {
  if (reads.size() == 1) {
    reads.front()->completion->set(QueuedRead::Completion());
  } else if (!reads.empty()) {
    spawner_.spawn(read_batch(shared_from_this(), transport, std::move(reads)));
  }
}

Task<> BatchedReader::poll_loop(std::shared_ptr<BatchedReader> self, TransportPtr transport) {
  for (bool again = true; again;) {
    co_await sleep_uncancellable(self->batcher_.options().wait_max);
    self->send(transport, self->batcher_.take_due(Clock::now(), &again));
  }
}

// Each read has its own wait and its own memory, so an abandoned read leaves nothing behind.
Task<> BatchedReader::read_batch(std::shared_ptr<BatchedReader> self, TransportPtr transport,
                                 std::vector<QueuedReadPtr> reads) {
  Context context = Context::background();
  context.deadline = Clock::time_point::min();
  std::vector<PeerReadRequest> requests;
  for (const QueuedReadPtr& read : reads) {
    context.deadline = std::max(context.deadline, read->deadline);
    requests.push_back(
        {.mount = read->request.mount, .file = *read->request.file, .range = read->request.range});
  }
  batches_total.add();
  HttpRequest request{.method = "POST", .path = kBatchPath, .body = encode_batch(requests)};
  PeerReply<HttpResponse> reply = co_await transport->call(
      std::move(context), std::move(request), reads.front()->request.route, Clock::duration(0));
  self->send(transport, self->batcher_.request_ended());
  const bool responded_at_all = responded(reply.outcome) || lacks_batches(reply);
  std::vector<QueuedRead::Completion> completions = completions_of(std::move(reply), requests);
  if (responded_at_all) {
    size_t served = 0;
    uint64_t bytes = 0;
    for (const QueuedRead::Completion& completion : completions) {
      if (completion == nullptr) continue;
      ++served;
      bytes += completion->result->size();
    }
    batched_reads_total.add(served);
    transport->received(bytes);
    self->batcher_.record_batch(served, completions.size(), Clock::now());
  }
  for (size_t i = 0; i < reads.size(); ++i) reads[i]->completion->set(std::move(completions[i]));
}

}  // namespace leat
