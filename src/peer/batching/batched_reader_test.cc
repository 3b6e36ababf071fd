// SPDX-License-Identifier: Apache-2.0
// Which reads go together, and the result of each.
#include "peer/batching/batched_reader.h"

#include <gtest/gtest.h>

#include <mutex>

#include "peer/batching/pending_read_test.h"
#include "wire/batch.h"

namespace leat {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// Serves in batches all keys except those that begin with "cold".
class FakeTransport : public BatchTransport {
 public:
  enum class Batches : uint8_t { kAnswered, kUnknown, kUnreachable, kGarbled };

  Task<PeerReply<void>> read_alone(Context context, PeerRead request,
                                   std::span<std::byte> into) override {
    ++alone;
    co_await sleep_uncancellable(answer_time);
    if (request.file->key == "held") {
      Result<bool> waited = co_await released_->wait(context, "a test");
      if (!waited)
        co_return PeerReply<void>{PeerOutcome::kUnreachable, Error(waited.error()), 0, {}};
    }
    const std::string body = pending_content(request.file->key);
    std::memcpy(into.data(), body.data() + request.range.offset, into.size());
    request.progress.report(into.size());
    co_return PeerReply<void>{PeerOutcome::kAnswered, {}, 7, {}};
  }
  Task<PeerReply<HttpResponse>> call(Context, HttpRequest request, PeerRoute route,
                                     Clock::duration) override {
    EXPECT_EQ(request.path, kBatchPath);
    EXPECT_EQ(route.epoch, 7);
    auto records = decode_batch(request.body);
    EXPECT_TRUE(records);
    {
      std::lock_guard lock(mutex_);
      sizes_.push_back(records->size());
    }
    if (batches == Batches::kUnreachable) {
      co_return PeerReply<HttpResponse>{
          PeerOutcome::kUnreachable, error(StatusCode::kUnavailable, "it is gone"), 0, {}};
    }
    if (batches == Batches::kUnknown) {
      co_return PeerReply<HttpResponse>{
          PeerOutcome::kUnreachable, error(StatusCode::kNotFound, "no such route"), 0, {}};
    }
    BatchAnswer answer;
    for (const PeerReadRequest& one : *records) {
      if (one.file.key.starts_with("cold")) {
        answer.push_back(error(StatusCode::kNotFound, "send it alone"));
        continue;
      }
      answer.emplace_back(
          Bytes::copy_of(pending_content(one.file.key).substr(one.range.offset, one.range.size)));
    }
    const Bytes encoded = encode_batch_answer(answer, true);
    HttpResponse response{.status = 200, .body = encoded.to_string()};
    if (batches == Batches::kGarbled) response.body.pop_back();
    co_return PeerReply<HttpResponse>{PeerOutcome::kAnswered, std::move(response), 7, {}};
  }
  void received(uint64_t bytes) override { batched_bytes += bytes; }

  void release() { released_->set(true); }
  std::vector<size_t> sizes() const {
    std::lock_guard lock(mutex_);
    return sizes_;
  }

  std::atomic<Batches> batches = Batches::kAnswered;
  Clock::duration answer_time{0};
  std::atomic<size_t> alone = 0;
  std::atomic<uint64_t> batched_bytes = 0;

 private:
  const std::shared_ptr<SharedPromise<bool>> released_ = SharedPromise<bool>::make();
  mutable std::mutex mutex_;
  std::vector<size_t> sizes_;
};

class BatchedReaderTest : public ::testing::Test {
 protected:
  // One request at a time; other reads wait for its end.
  std::shared_ptr<BatchedReader> one_by_one() {
    return BatchedReader::make({.in_flight_max = 1, .wait_max = hours(1)}, executor_);
  }
  std::unique_ptr<PendingRead> begin(BatchedReader& batches, const std::string& key,
                                     Context context = Context::background()) {
    return begin_read(executor_, key, [&](PeerRead request, std::span<std::byte> into) {
      return batches.read(transport_, std::move(context), std::move(request), into);
    });
  }
  // Queues reads behind one that is blocked.
  PendingReads queue(BatchedReader& batches, const std::vector<std::string>& keys) {
    PendingReads all;
    all.push_back(begin(batches, "held"));
    while (transport_->alone == 0) std::this_thread::yield();
    for (const std::string& key : keys) all.push_back(begin(batches, key));
    while (batches.batcher().waiting() < keys.size()) std::this_thread::yield();
    return all;
  }
  Executor executor_{{.threads = 2}};
  std::shared_ptr<FakeTransport> transport_ = std::make_shared<FakeTransport>();
};

TEST_F(BatchedReaderTest, WaitingReadsAreBatched) {
  auto batches = one_by_one();
  auto all = queue(*batches, {"a", "b", "c", "d"});
  transport_->release();
  for (auto& one : all) expect_read(*one);
  EXPECT_EQ(transport_->sizes(), std::vector<size_t>{4});
  EXPECT_EQ(transport_->alone, 1u);
  EXPECT_EQ(transport_->batched_bytes, 4 * kPendingBytes);
}

TEST_F(BatchedReaderTest, MissingPartsAreReadAlone) {
  auto batches = one_by_one();
  auto all = queue(*batches, {"a", "cold 1", "c", "cold 2", "e"});
  transport_->release();
  for (auto& one : all) expect_read(*one);
  EXPECT_EQ(transport_->sizes(), std::vector<size_t>{5});
  EXPECT_EQ(transport_->alone, 3u);
}

TEST_F(BatchedReaderTest, WhatIsNoAnswerIsNone) {
  for (auto kind : {FakeTransport::Batches::kUnknown, FakeTransport::Batches::kGarbled}) {
    transport_ = std::make_shared<FakeTransport>();
    transport_->batches = kind;
    auto batches = one_by_one();
    auto all = queue(*batches, {"a", "b", "c"});
    transport_->release();
    for (auto& one : all) expect_read(*one);
    EXPECT_EQ(transport_->alone, 4u);
    EXPECT_EQ(transport_->batched_bytes, 0u);
  }
}

TEST_F(BatchedReaderTest, MissingAnswerReachesEachReadOnce) {
  transport_->batches = FakeTransport::Batches::kUnreachable;
  auto batches = one_by_one();
  auto all = queue(*batches, {"a", "b", "c"});
  transport_->release();
  expect_read(*all.front());
  for (size_t i = 1; i < all.size(); ++i) {
    auto reply = all[i]->reply.get();
    EXPECT_EQ(reply.outcome, PeerOutcome::kUnreachable);
    EXPECT_FALSE(reply.result);
  }
  EXPECT_EQ(transport_->alone, 1u);
}

TEST_F(BatchedReaderTest, CancelledReadLeavesOthersAlone) {
  auto batches = one_by_one();
  std::stop_source gives_up;
  auto all = queue(*batches, {"a", "b"});
  auto leaves = begin(*batches, "c", Context::background().with_cancel(gives_up.get_token()));
  auto late = begin(*batches, "d", Context::background().with_timeout(milliseconds(30)));
  gives_up.request_stop();
  const auto left = leaves->reply.get();
  EXPECT_EQ(left.result.error().code(), StatusCode::kCancelled);
  EXPECT_EQ(left.outcome, PeerOutcome::kUnreachable);
  EXPECT_EQ(left.epoch, 0) << "no worker has named its ring";
  EXPECT_EQ(late->reply.get().result.error().code(), StatusCode::kTimedOut);
  transport_->release();
  for (auto& one : all) expect_read(*one);
  EXPECT_EQ(transport_->sizes(), std::vector<size_t>{2});
  auto next = begin(*batches, "e");
  expect_read(*next);
}

TEST_F(BatchedReaderTest, SlowReadDoesNotBlockOthers) {
  auto batches = BatchedReader::make({.in_flight_max = 1, .wait_max = milliseconds(1)}, executor_);
  auto held = begin(*batches, "held");
  while (transport_->alone == 0) std::this_thread::yield();
  for (int round = 0; round < 3; ++round) {
    PendingReads all;
    for (const char* key : {"a", "b", "c"}) all.push_back(begin(*batches, key));
    for (auto& one : all) expect_read(*one);
  }
  EXPECT_EQ(held->reply.wait_for(milliseconds(0)), std::future_status::timeout);
  transport_->release();
  expect_read(*held);
}

TEST_F(BatchedReaderTest, ManyReadersAreEachAnswered) {
  transport_->answer_time = std::chrono::microseconds(100);
  auto batches = BatchedReader::make({.in_flight_max = 2, .batch_reads_max = 16}, executor_);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 100; ++i) {
        PendingReads all;
        for (int n = 0; n < 10; ++n) {
          all.push_back(begin(*batches, fmt::format("{} {}", n % 7 == 0 ? "cold" : "hot",
                                                    thread * 1000 + i * 10 + n)));
        }
        for (auto& one : all) expect_read(*one);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_GT(transport_->sizes().size(), 0u);
  EXPECT_EQ(transport_->batched_bytes + transport_->alone * kPendingBytes, 4000 * kPendingBytes);
}

}  // namespace
}  // namespace leat
