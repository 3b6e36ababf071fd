// SPDX-License-Identifier: Apache-2.0
// Small reads over HTTP: from a worker without batches, from a stopped one, and by readers that
// give up early.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "http/server/server.h"
#include "peer/batching/pending_read_test.h"
#include "peer/client/peer_client.h"
#include "wire/batch.h"
#include "wire/read_request.h"

namespace leat {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// The worker's behaviour, and counts of the requests.
struct FakeWorker {
  std::atomic<int> batch_status = 200;  // 200, or the status of the rejection
  std::atomic<bool> stands_still = false;
  std::atomic<size_t> alone = 0, batches = 0, reads = 0;  // reads: alone or in a batch
  // Blocks the read "held" or, with holds_all, all reads.
  const std::shared_ptr<SharedPromise<bool>> released = SharedPromise<bool>::make();
  std::atomic<bool> holds_all = false;
};
using FakeWorkerPtr = std::shared_ptr<FakeWorker>;

Task<HttpResponse> answer_to_many(FakeWorkerPtr worker, Context context, HttpRequest request) {
  ++worker->batches;
  if (worker->batch_status != 200) {
    co_return HttpResponse::failure(worker->batch_status,
                                    worker->batch_status == 404 ? "not_found" : "unsupported",
                                    "there is nothing here");
  }
  auto records = decode_batch(request.body);
  EXPECT_TRUE(records);
  worker->reads += records->size();
  if (worker->holds_all) {
    Result<bool> released = co_await worker->released->wait(context, "a test");
    static_cast<void>(released);
  }
  BatchAnswer answer;
  for (const PeerReadRequest& one : *records) {
    answer.emplace_back(Bytes::copy_of(pending_content(one.file.key)));
  }
  HttpResponse response{.status = 200, .bytes = encode_batch_answer(answer, true)};
  put_epoch(7, response);
  co_return response;
}

Task<HttpResponse> answer_as(FakeWorkerPtr worker, Context context, HttpRequest request) {
  while (worker->stands_still) {
    Result<> slept = co_await sleep_for(context, milliseconds(1));
    if (!slept) break;
  }
  if (request.path == kBatchPath) {
    co_return co_await answer_to_many(std::move(worker), std::move(context), std::move(request));
  }
  if (request.path != kBytesPath) co_return HttpResponse{.status = 204};
  ++worker->alone;
  ++worker->reads;
  auto asked = read_request_from(request);
  EXPECT_TRUE(asked);
  if (asked->file.key == "held" || worker->holds_all) {
    Result<bool> released = co_await worker->released->wait(context, "a test");
    static_cast<void>(released);
  }
  HttpResponse response{.status = 206, .body = pending_content(asked->file.key)};
  response.headers.set("Content-Range", content_range_text({asked->range, asked->file.size}));
  put_epoch(7, response);
  co_return response;
}

class BatchClientTest : public ::testing::Test {
 protected:
  BatchClientTest() {
    HttpRouter router;
    router.set_fallback([worker = worker_](Context context, HttpRequest request) {
      return answer_as(worker, std::move(context), std::move(request));
    });
    server_ = HttpServer::start({{}, "127.0.0.1", 0}, std::move(router), {}, executor_).value();
  }
  ~BatchClientTest() override {
    client_.reset();
    executor_.block_on(server_->stop());
  }

  // `ping_timeout`: a live worker always answers within a minute.
  void connect(ReadBatcherOptions small_reads, Clock::duration ping_timeout = seconds(60)) {
    auto secrets = SecretSet::parse(make_secret(), "test").value();
    auto token = issue(secrets.signing(), TokenClaims::of_worker({}));
    PeerClientOptions options{.address = server_->endpoint().to_string(),
                              .connect_timeout = seconds(60),
                              .ping_timeout = ping_timeout};
    options.failure_detector = {.ping_after = milliseconds(200), .scan_interval = milliseconds(20)};
    options.supports_batches = true;
    options.read_batcher = small_reads;
    client_ = PeerClient::make(options, std::make_shared<RequestSigner>(*token), executor_).value();
  }
  std::unique_ptr<PendingRead> begin(const std::string& key, Context context = patient()) {
    return begin_read(executor_, key, [&](PeerRead request, std::span<std::byte> into) {
      return client_->read(std::move(context), std::move(request), into);
    });
  }
  static Context patient() { return Context::background().with_timeout(seconds(60)); }
  // Queues reads behind one that is blocked, until `wait_max` has passed.
  PendingReads queue(const std::vector<std::string>& keys) {
    PendingReads all;
    all.push_back(begin("held"));
    while (worker_->alone == 0) std::this_thread::yield();
    for (const std::string& key : keys) all.push_back(begin(key));
    while (client_->batched_reader()->batcher().waiting() < keys.size()) std::this_thread::yield();
    return all;
  }
  Executor executor_{{.threads = 4}};
  FakeWorkerPtr worker_ = std::make_shared<FakeWorker>();
  std::unique_ptr<HttpServer> server_;
  std::shared_ptr<PeerClient> client_;
};

// Workers older than their record; the parameter is their status for a batch.
class OlderWorkerTest : public BatchClientTest, public ::testing::WithParamInterface<int> {};

TEST_P(OlderWorkerTest, ReadsOfOldWorkerAreUnbatched) {
  worker_->batch_status = GetParam();
  connect({.in_flight_max = 1, .wait_max = hours(1), .unbatched_time = hours(1)});
  PendingReads all = queue({"a", "b", "c", "d"});
  worker_->released->set(true);
  for (auto& one : all) expect_read(*one);
  PendingReads later;
  for (const char* key : {"e", "f", "g"}) later.push_back(begin(key));
  for (auto& one : later) expect_read(*one);
  EXPECT_EQ(worker_->batches, 1u) << "it is not asked for another one at once";
  EXPECT_EQ(worker_->alone, 8u);
  EXPECT_TRUE(client_->usable());
}

INSTANTIATE_TEST_SUITE_P(Statuses, OlderWorkerTest, ::testing::Values(404, 405),
                         ::testing::PrintToStringParamName());

TEST_F(BatchClientTest, ManyAreAnsweredByOneRequest) {
  connect({.in_flight_max = 1, .wait_max = hours(1)});
  PendingReads all = queue({"a", "b", "c", "d"});
  worker_->released->set(true);
  for (auto& one : all) expect_read(*one);
  EXPECT_EQ(worker_->batches, 1u);
  EXPECT_EQ(worker_->alone, 1u);
}

TEST_F(BatchClientTest, StoppedWorkerFailsAllWaitingReads) {
  connect({.in_flight_max = 1, .wait_max = milliseconds(1)}, milliseconds(100));
  worker_->stands_still = true;
  PendingReads all;
  for (const char* key : {"a", "b", "c", "d", "e"}) all.push_back(begin(key));
  for (auto& one : all) {
    auto reply = one->reply.get();
    EXPECT_EQ(reply.outcome, PeerOutcome::kUnreachable);
    EXPECT_NE(reply.result.error().to_string().find("a ping neither"), std::string::npos);
  }
  EXPECT_FALSE(client_->usable());
  worker_->stands_still = false;
}

TEST_F(BatchClientTest, AbandonedReadIsNotWrittenTo) {
  worker_->holds_all = true;
  connect({.in_flight_max = 1, .wait_max = milliseconds(20)});
  std::stop_source gives_up;
  auto held = begin("held");
  while (worker_->alone == 0) std::this_thread::yield();
  auto late = begin("late", Context::background().with_timeout(milliseconds(500)));
  auto leaves = begin("leaves", patient().with_cancel(gives_up.get_token()));
  auto stays = begin("stays");
  // On a busy machine one read may end before the others arrive, or "late" may never be sent.
  while (worker_->reads < 4 && late->reply.wait_for(seconds(0)) != std::future_status::ready) {
    std::this_thread::yield();
  }
  EXPECT_EQ(late->reply.get().result.error().code(), StatusCode::kTimedOut);
  gives_up.request_stop();
  EXPECT_EQ(leaves->reply.get().result.error().code(), StatusCode::kCancelled);
  EXPECT_TRUE(client_->usable()) << "who gives up says nothing of the worker";
  worker_->released->set(true);
  expect_read(*held);
  expect_read(*stays);
  const std::string nothing(kPendingBytes, '\0');
  EXPECT_EQ(late->text, nothing);
  EXPECT_EQ(leaves->text, nothing);
  auto next = begin("next");
  expect_read(*next);
}

TEST_F(BatchClientTest, ReadersThatComeAndGoLoseNothing) {
  connect({.in_flight_max = 2, .batch_reads_max = 8, .wait_max = microseconds(200)});
  std::vector<std::thread> threads;
  std::atomic<size_t> answered = 0;
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  for (unsigned thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937 random(seed + thread);
      for (int round = 0; round < 50; ++round) {
        std::stop_source gives_up;
        PendingReads all;
        for (int i = 0; i < 10; ++i) {
          Context context = patient();
          if (random() % 4 == 0) {
            context = context.with_timeout(microseconds(random() % 3000));
          } else if (random() % 4 == 0) {
            context = context.with_cancel(gives_up.get_token());
          }
          all.push_back(begin(fmt::format("{} {} {}", thread, round, i), std::move(context)));
        }
        gives_up.request_stop();
        for (auto& one : all) {
          auto reply = one->reply.get();
          if (reply.result) {
            EXPECT_EQ(one->text, pending_content(one->key));
            ++answered;
            continue;
          }
          const StatusCode code = reply.result.error().code();
          EXPECT_TRUE(code == StatusCode::kTimedOut || code == StatusCode::kCancelled)
              << reply.result.error().to_string();
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_GT(answered, 4u * 50 * 10 / 4);
  EXPECT_GT(worker_->batches, 0u);
  EXPECT_TRUE(client_->usable());
  auto next = begin("next");
  expect_read(*next);
}

}  // namespace
}  // namespace leat
