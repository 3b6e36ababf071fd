// SPDX-License-Identifier: Apache-2.0
#include "doors/peer/batch_answers.h"

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/executor.h"
#include "runtime/shared_result.h"

namespace leat {
namespace {

// Records that are read from disk.
struct Awaited {
  BatchAnswer answer;  // each written by its own task
  std::atomic<size_t> left = 1;
  std::shared_ptr<SharedResult<bool>> all = SharedResult<bool>::make();

  void one_done() {
    if (--left == 0) all->set(true);
  }
};

Error ask_alone() {
  return error(StatusCode::kNotFound, "ask for it alone");
}

// Always local only: other bytes are requested alone.
PeerRead read_of(PeerReadRequest record, const PeerTerms& terms) {
  return {.mount = std::move(record.mount),
          .file = std::make_shared<const FileRef>(std::move(record.file)),
          .range = record.range,
          .only_if_cached = true,
          .route = route_of(terms)};
}

// An answer with more than its bytes does not fit a batch.
void keep_for_alone(OwnPeer& own, const std::vector<PeerRead>& reads, const PeerTerms& terms,
                    BatchAnswer& answer) {
  for (size_t place = 0; place < reads.size(); ++place) {
    if (!answer[place]) continue;
    PeerRead read = reads[place];
    read.only_if_cached = terms.only_if_cached;
    if (own.advice(read).replicas > 1) answer[place] = ask_alone();
  }
}

Task<> answer_one(OwnPeer* own, Context context, PeerRead read, size_t place,
                  std::shared_ptr<Awaited> awaited) {
  PeerReply<PeerBytes> reply = co_await own->read_bytes(std::move(context), std::move(read));
  if (reply.result && reply.result->rest == nullptr) {
    awaited->answer[place] = std::move(reply.result->first);
  }
  awaited->one_done();
}

}  // namespace

BatchAnswer all_alone(size_t records) {
  return BatchAnswer(records, ask_alone());
}

Task<BatchAnswer> answer_batch(OwnPeer& own, Context context, PeerTerms terms,
                               std::vector<PeerReadRequest> records,
                               std::function<bool(const std::string&)> may_read) {
  const auto executor = co_await boost::asio::this_coro::executor;
  auto awaited = std::make_shared<Awaited>();
  awaited->answer = all_alone(records.size());
  std::vector<PeerRead> reads;
  std::vector<size_t> on_disk;
  for (PeerReadRequest& record : records) {
    const size_t place = reads.size();
    const bool may = may_read(record.mount);
    reads.push_back(read_of(std::move(record), terms));
    if (!may) continue;
    if (std::optional<Bytes> hot = own.try_read(reads.back())) {
      awaited->answer[place] = *std::move(hot);
    } else {
      on_disk.push_back(place);
    }
  }
  awaited->left += on_disk.size();
  for (const size_t place : on_disk) {
    boost::asio::co_spawn(executor, answer_one(&own, context, reads[place], place, awaited),
                          end_process_for);
  }
  awaited->one_done();
  // Each task has the context's deadline; all must end before `own` does.
  Result<bool> all = co_await awaited->all->wait(Context::background(), "a batch");
  static_cast<void>(all);
  keep_for_alone(own, reads, terms, awaited->answer);
  co_return std::move(awaited->answer);
}

}  // namespace leat
