// SPDX-License-Identifier: Apache-2.0
#include "frontends/peer/batch_answers.h"

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/executor.h"
#include "runtime/shared_promise.h"

namespace leat {
namespace {

// Records that are read from disk.
struct BatchState {
  BatchAnswer answer;  // each written by its own task
  std::atomic<size_t> left = 1;
  std::shared_ptr<SharedPromise<bool>> all = SharedPromise<bool>::make();

  void one_done() {
    if (--left == 0) all->set(true);
  }
};

Error send_alone() {
  return error(StatusCode::kNotFound, "send it alone");
}

// Always local only: other bytes are requested alone.
PeerRead read_of(PeerReadRequest record, const PeerRequestHeader& terms) {
  return {.mount = std::move(record.mount),
          .file = std::make_shared<const FileRef>(std::move(record.file)),
          .range = record.range,
          .only_if_cached = true,
          .route = route_of(terms)};
}

// An answer with more than its bytes does not fit a batch.
void exclude_hinted(WorkerService& service, const std::vector<PeerRead>& reads,
                    const PeerRequestHeader& terms, BatchAnswer& answer) {
  for (size_t index = 0; index < reads.size(); ++index) {
    if (!answer[index]) continue;
    PeerRead read = reads[index];
    read.only_if_cached = terms.only_if_cached;
    if (service.advice(read).replicas > 1) answer[index] = send_alone();
  }
}

Task<> answer_one(WorkerService* service, Context context, PeerRead read, size_t index,
                  std::shared_ptr<BatchState> batch) {
  PeerReply<PeerBytes> reply = co_await service->read_bytes(std::move(context), std::move(read));
  if (reply.result && reply.result->rest == nullptr) {
    batch->answer[index] = std::move(reply.result->first);
  }
  batch->one_done();
}

}  // namespace

BatchAnswer all_alone(size_t records) {
  return BatchAnswer(records, send_alone());
}

Task<BatchAnswer> answer_batch(WorkerService& service, Context context, PeerRequestHeader terms,
                               std::vector<PeerReadRequest> records,
                               std::function<bool(const std::string&)> may_read) {
  const auto executor = co_await boost::asio::this_coro::executor;
  auto batch = std::make_shared<BatchState>();
  batch->answer = all_alone(records.size());
  std::vector<PeerRead> reads;
  std::vector<size_t> on_disk;
  for (PeerReadRequest& record : records) {
    const size_t index = reads.size();
    const bool may = may_read(record.mount);
    reads.push_back(read_of(std::move(record), terms));
    if (!may) continue;
    if (std::optional<Bytes> hot = service.try_read(reads.back())) {
      batch->answer[index] = *std::move(hot);
    } else {
      on_disk.push_back(index);
    }
  }
  batch->left += on_disk.size();
  for (const size_t index : on_disk) {
    boost::asio::co_spawn(executor, answer_one(&service, context, reads[index], index, batch),
                          terminate_on_exception);
  }
  batch->one_done();
  // Each task has the context's deadline; all must end before `service` does.
  Result<bool> all = co_await batch->all->wait(Context::background(), "a batch");
  static_cast<void>(all);
  exclude_hinted(service, reads, terms, batch->answer);
  co_return std::move(batch->answer);
}

}  // namespace leat
