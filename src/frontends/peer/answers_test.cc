// SPDX-License-Identifier: Apache-2.0
// How a worker's bytes reach the client: while the store still delivers, and no faster than the
// client takes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <future>
#include <latch>

#include "frontends/peer/peer_server_fixture_test.h"
#include "http/raw_sockets_test.h"
#include "wire/read_request.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::kOther;
using testing::kSelf;
using testing::PeerServerTestBase;

// --- streaming
// --------------------------------------------------------------------------------------

// A read of 4 MiB in progress.
struct StreamedAnswer : ProgressListener {
  void on_bytes(uint64_t bytes) override {
    EXPECT_GE(bytes, told.load());
    told = bytes;
  }
  uint64_t bytes() const override { return told; }
  void wait_for(uint64_t bytes) const {
    while (told < bytes && !ended.try_wait()) std::this_thread::yield();
    EXPECT_GE(told.load(), bytes) << "it ended before";
  }

  std::atomic<uint64_t> told = 0;
  std::string text;
  PeerReply<void> reply;
  std::latch ended{1};
};

constexpr uint64_t kStreamedFile = 4 * kMiB;

Task<> run_streamed(Peer* peer, Context context, PeerRead read,
                    std::shared_ptr<StreamedAnswer> answer) {
  read.progress = ReadProgress(*answer);
  answer->reply = co_await peer->read(std::move(context), std::move(read),
                                      std::as_writable_bytes(std::span(answer->text)));
  answer->ended.count_down();
}

class PeerStreamingTest : public PeerServerTestBase {
 protected:
  PeerStreamingTest() {
    for (size_t i = 0; i < content_.size(); ++i) content_[i] = static_cast<char>(i * 31 + i / 977);
    source_->put("train/a", content_);
    source_->allow(0);
  }
  ~PeerStreamingTest() override { source_->allow(UINT64_MAX); }

  std::shared_ptr<StreamedAnswer> spawn(Peer& peer, ByteRange range = {0, kStreamedFile},
                                        Context context = patient()) {
    auto answer = std::make_shared<StreamedAnswer>();
    answer->text.resize(range.size);
    executor_.spawn(run_streamed(&peer, std::move(context), read_of("train/a", range), answer));
    return answer;
  }

  std::string content_ = std::string(kStreamedFile, '\0');
};

TEST_F(PeerStreamingTest, FirstBytesAreSentBeforeTheLastArrive) {
  for (Peer* peer : {static_cast<Peer*>(worker_.get()), static_cast<Peer*>(service_.get())}) {
    source_->put("train/a", content_);  // another version, so nothing of it is cached
    source_->allow(0);
    const uint64_t reads = source_->reads();
    auto answer = spawn(*peer);
    source_->allow(100'000);
    answer->wait_for(kBlockBytes);
    EXPECT_EQ(answer->text.substr(0, kBlockBytes), content_.substr(0, kBlockBytes));
    source_->allow(2 * kMiB);
    answer->wait_for(kMiB);
    EXPECT_FALSE(answer->ended.try_wait());
    source_->allow(UINT64_MAX);
    answer->ended.wait();
    ASSERT_TRUE(answer->reply.result) << answer->reply.result.error().to_string();
    EXPECT_TRUE(answer->text == content_);
    EXPECT_EQ(source_->reads() - reads, 1u);
  }
}

TEST_F(PeerStreamingTest, AStoreThatFailsInMidAnswerIsNoAnswer) {
  auto answer = spawn(*worker_);
  source_->allow(kMiB);
  answer->wait_for(kBlockBytes);
  source_->break_off(StatusCode::kUnavailable);
  answer->ended.wait();
  EXPECT_EQ(answer->reply.outcome, PeerOutcome::kUnreachable);
  ASSERT_FALSE(answer->reply.result);
  EXPECT_LE(answer->told, kMiB);
  EXPECT_EQ(answer->text.substr(0, answer->told), content_.substr(0, answer->told));
  // The next request works, too.
  source_->allow(UINT64_MAX);
  std::string text;
  EXPECT_TRUE(read(*worker_, read_of("train/a", {0, kStreamedFile}), &text).result);
  EXPECT_TRUE(text == content_);
}

TEST_F(PeerStreamingTest, WhatFailsBeforeItsFirstByteSaysWhy) {
  auto answer = spawn(*worker_);
  while (source_->offsets().empty()) std::this_thread::yield();
  source_->break_off(StatusCode::kThrottled);
  answer->ended.wait();
  EXPECT_EQ(answer->reply.outcome, PeerOutcome::kAnswered);
  EXPECT_EQ(answer->reply.result.error().code(), StatusCode::kThrottled);
  EXPECT_EQ(answer->told, 0u);
}

TEST_F(PeerStreamingTest, AReaderThatGoesAwayHoldsUpNobody) {
  std::stop_source gone;
  auto leaves = spawn(*worker_, {0, kStreamedFile}, patient().with_cancel(gone.get_token()));
  auto stays = spawn(*worker_);
  source_->allow(kMiB);
  leaves->wait_for(kBlockBytes);
  gone.request_stop();
  leaves->ended.wait();
  EXPECT_FALSE(leaves->reply.result);
  source_->allow(UINT64_MAX);
  stays->ended.wait();
  EXPECT_TRUE(stays->reply.result);
  EXPECT_TRUE(stays->text == content_);
  EXPECT_EQ(source_->reads(), 1u);
}

TEST_F(PeerStreamingTest, ManyReadersHaveOneRequestToTheStore) {
  std::vector<std::shared_ptr<StreamedAnswer>> answers;
  for (uint64_t i = 0; i < 24; ++i) {
    answers.push_back(spawn(*worker_, {i * 10'000, kStreamedFile - i * 10'000}));
    if (i == 0) {
      while (source_->offsets().empty()) std::this_thread::yield();
    }
  }
  for (uint64_t given = 0; given < kStreamedFile; given += 300'000) source_->allow(given);
  answers.front()->wait_for(kBlockBytes);
  source_->allow(UINT64_MAX);
  for (uint64_t i = 0; i < answers.size(); ++i) {
    answers[i]->ended.wait();
    ASSERT_TRUE(answers[i]->reply.result) << answers[i]->reply.result.error().to_string();
    EXPECT_TRUE(answers[i]->text == content_.substr(i * 10'000)) << i;
  }
  EXPECT_EQ(source_->reads(), 1u);
}

// A server that stops does not wait for a store.
TEST_F(PeerStreamingTest, AServerThatStopsBreaksOffWhatIsOnItsWay) {
  auto answer = spawn(*worker_);
  source_->allow(kMiB);
  answer->wait_for(kBlockBytes);
  executor_.block_on(server_->stop());
  answer->ended.wait();
  EXPECT_EQ(answer->reply.outcome, PeerOutcome::kUnreachable);
}

// --- slow readers
// -----------------------------------------------------------------------------------

class SlowReaderTest : public PeerServerTestBase {
 protected:
  // More than socket buffers hold.
  static constexpr uint64_t kLarge = 16 * kMiB;

  SlowReaderTest() {
    source_->put("train/large", std::string(kLarge, 'l'));
    serve_with({.bytes_max = kMiB, .timeout = std::chrono::seconds(20)});
  }

  void serve_with(ResponseMemoryLimiterOptions answers) {
    response_memory_ = answers;
    restart();
    worker_ = client(TokenClaims::of_worker(kOther));
  }

  // Requests the whole file and takes nothing.
  std::unique_ptr<RawClient> slow() {
    const PeerRead read = read_of("train/large", {0, kLarge});
    HttpRequest asked =
        to_http(PeerReadRequest{.mount = read.mount, .file = *read.file, .range = read.range});
    asked.headers.set(kToField, kSelf.to_hex());
    asked.target = make_target(asked.path, asked.query);
    RequestSigner signer(*issue(secrets()->signing(), TokenClaims::of_worker(kOther)));
    signer.sign(asked);
    std::string text = asked.method + " " + asked.target + " HTTP/1.1\r\nHost: worker\r\n";
    for (const auto& [name, value] : asked.headers.all()) text += name + ": " + value + "\r\n";
    auto client = std::make_unique<RawClient>(server_->endpoint().port);
    EXPECT_TRUE(client->send_text(text + "\r\n"));
    pollfd answered{.fd = client->fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&answered, 1, 20'000), 1);
    return client;
  }
};

TEST_F(SlowReaderTest, OthersWaitForWhatItsAnswerHolds) {
  auto one = slow();
  std::string text;
  auto waits = std::async(std::launch::async, [&] {
    return read(*worker_, read_of("train/large", {kMiB, 100'000}), &text);
  });
  EXPECT_EQ(waits.wait_for(milliseconds(100)), std::future_status::timeout);
  one.reset();
  auto reply = waits.get();
  EXPECT_TRUE(reply.result) << reply.result.error().to_string();
  EXPECT_EQ(text, std::string(100'000, 'l'));
}

TEST_F(SlowReaderTest, LongWaitIsRejectedAndSmallReadsPass) {
  serve_with({.bytes_max = kMiB, .timeout = milliseconds(20)});
  auto one = slow();
  std::string text;
  auto reply = read(*worker_, read_of("train/large", {0, 100'000}), &text);
  EXPECT_EQ(reply.outcome, PeerOutcome::kRejected);
  EXPECT_THAT(reply.result.error().to_string(), HasSubstr("readers are slow"));
  EXPECT_TRUE(read(*worker_, read_of("train/large", {0, 4096}), &text).result);
}

// Small reads bypass slow readers, even many of them.
TEST_F(SlowReaderTest, BatchWithoutMemoryIsSentOneByOne) {
  serve_with({.bytes_max = kMiB, .timeout = std::chrono::hours(1)});
  const std::string content(100'000, 's');
  source_->put("train/small", content);
  std::string text;
  ASSERT_TRUE(read(*worker_, read_of("train/small", {0, content.size()}), &text).result);
  while (store_.bytes() < content.size()) std::this_thread::yield();
  const PeerRead wanted = read_of("train/small", {0, 10'000});
  const std::vector records(
      5, PeerReadRequest{.mount = wanted.mount, .file = *wanted.file, .range = wanted.range});
  auto given = [&] {
    const HttpRequest asked = signed_batch(records, {}, TokenClaims::of_worker(kOther));
    auto response = executor_.block_on(HttpClient(server_->endpoint()).request(patient(), asked));
    if (!response || response->status != 200) return ptrdiff_t{-1};
    auto deps = decode_batch_answer(Bytes::copy_of(response->body), records);
    return deps ? std::ranges::count_if(*deps, &Result<Bytes>::has_value) : ptrdiff_t{-2};
  };
  EXPECT_EQ(given(), 5);
  const auto one = slow();
  EXPECT_EQ(given(), 0);
  EXPECT_TRUE(read(*worker_, wanted, &text).result);
  EXPECT_EQ(text, content.substr(0, text.size()));
}

}  // namespace
}  // namespace leat
