// SPDX-License-Identifier: Apache-2.0
#include "peer/batches/read_batches.h"

#include <algorithm>
#include <utility>

#include "peer/batch.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter batches_total("leat_peer_batches_total",
                      "Requests to workers for several small reads together");
Counter batched_reads_total("leat_peer_batched_reads_total",
                            "Small reads that were answered together with others");

// The worker is older than its registry record says, as for a moment after a downgrade. It answers
// other requests.
bool knows_no_batches(const PeerReply<HttpResponse>& reply) {
  if (reply.result) return false;
  const StatusCode code = reply.result.error().code();
  return code == StatusCode::kNotFound || code == StatusCode::kUnsupported;
}

// Returns the result of each read; null: the read is sent alone.
std::vector<SmallRead::Turn> turns_of(PeerReply<HttpResponse> reply,
                                      const std::vector<PeerReadRequest>& asked) {
  std::vector<SmallRead::Turn> turns(asked.size());
  if (!was_heard(reply.reach) && !knows_no_batches(reply)) {
    const auto nobody = std::make_shared<const PeerReply<Bytes>>(
        PeerReply<Bytes>{reply.reach, Error(reply.result.error()), reply.epoch, {}});
    std::ranges::fill(turns, nobody);
    return turns;
  }
  if (!reply.result) return turns;
  Result<BatchAnswer> answer = decode_batch_answer(Bytes::of(std::move(reply.result->body)), asked);
  if (!answer) return turns;
  for (size_t i = 0; i < turns.size(); ++i) {
    Result<Bytes>& part = (*answer)[i];
    if (!part) continue;
    turns[i] = std::make_shared<const PeerReply<Bytes>>(
        PeerReply<Bytes>{reply.reach, *std::move(part), reply.epoch, {}});
  }
  return turns;
}

}  // namespace

// Most reads go at once and cost two locks.
Task<PeerReply<void>> ReadBatches::read(Asker asker, Context context, PeerRead request,
                                        std::span<std::byte> into) {
  TurnTaken turn;
  if (!reads_.go(Clock::now())) {
    turn = co_await wait_for_turn(asker, context, request, into);
    if (turn.reply) co_return *std::move(turn.reply);
  }
  PeerReply<void> reply = co_await asker->read_alone(std::move(context), std::move(request), into);
  if (turn.holds_place) send(asker, reads_.ended());
  co_return reply;
}

Task<ReadBatches::TurnTaken> ReadBatches::wait_for_turn(Asker asker, Context context,
                                                        PeerRead request,
                                                        std::span<std::byte> into) {
  auto read = std::make_shared<SmallRead>();
  read->request = request;
  read->deadline = context.deadline;
  const SmallReads::Entry entry = reads_.enter(read, Clock::now());
  if (entry == SmallReads::Entry::kGo) co_return TurnTaken{};
  if (entry == SmallReads::Entry::kWaitAndWatch) spawner_.spawn(watch(shared_from_this(), asker));
  Result<SmallRead::Turn> turn = co_await read->turn->wait(context, "its turn among small reads");
  if (!turn) {
    if (reads_.leave(read)) send(asker, reads_.ended());
    co_return TurnTaken{PeerReply<void>{PeerReach::kNotReached, Error(turn.error()), 0, {}}};
  }
  const PeerReply<Bytes>* reply = turn->get();
  // A read of a batch has no request slot of its own.
  if (reply == nullptr) co_return TurnTaken{.reply = {}, .holds_place = read->alone};
  if (!reply->result) {
    co_return TurnTaken{
        PeerReply<void>{reply->reach, Error(reply->result.error()), reply->epoch, {}}};
  }
  reply->result->copy_to(into);
  request.progress.arrived(into.size());
  co_return TurnTaken{PeerReply<void>{reply->reach, {}, reply->epoch, {}}};
}

void ReadBatches::send(const Asker& asker, std::vector<SmallReadPtr> reads) {
  if (reads.size() == 1) {
    reads.front()->turn->set(SmallRead::Turn());
  } else if (!reads.empty()) {
    spawner_.spawn(read_together(shared_from_this(), asker, std::move(reads)));
  }
}

Task<> ReadBatches::watch(std::shared_ptr<ReadBatches> self, Asker asker) {
  for (bool again = true; again;) {
    co_await sleep_through(self->reads_.options().patience);
    self->send(asker, self->reads_.late(Clock::now(), &again));
  }
}

// Each read has its own wait and its own memory, so an abandoned read leaves nothing behind.
Task<> ReadBatches::read_together(std::shared_ptr<ReadBatches> self, Asker asker,
                                  std::vector<SmallReadPtr> reads) {
  Context context = Context::background();
  context.deadline = Clock::time_point::min();
  std::vector<PeerReadRequest> asked;
  for (const SmallReadPtr& read : reads) {
    context.deadline = std::max(context.deadline, read->deadline);
    asked.push_back(
        {.mount = read->request.mount, .file = *read->request.file, .range = read->request.range});
  }
  batches_total.add();
  HttpRequest request{.method = "POST", .path = kBatchPath, .body = encode_batch(asked)};
  PeerReply<HttpResponse> reply = co_await asker->call(
      std::move(context), std::move(request), reads.front()->request.route, Clock::duration(0));
  self->send(asker, self->reads_.ended());
  const bool answered = was_heard(reply.reach) || knows_no_batches(reply);
  std::vector<SmallRead::Turn> turns = turns_of(std::move(reply), asked);
  if (answered) {
    size_t came = 0;
    uint64_t bytes = 0;
    for (const SmallRead::Turn& turn : turns) {
      if (turn == nullptr) continue;
      ++came;
      bytes += turn->result->size();
    }
    batched_reads_total.add(came);
    asker->received(bytes);
    self->reads_.came(came, turns.size(), Clock::now());
  }
  for (size_t i = 0; i < reads.size(); ++i) reads[i]->turn->set(std::move(turns[i]));
}

}  // namespace leat
