// SPDX-License-Identifier: Apache-2.0
// A worker's answers to batches, sent directly and by a client.
#include "frontends/peer/batch_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "frontends/peer/peer_server_fixture_test.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using testing::kOther;
using testing::kSelf;
using testing::PeerServerTestBase;

using Records = std::vector<std::string>;

class BatchAnswersTest : public PeerServerTestBase {
 protected:
  PeerReadRequest record_of(const std::string& key, ByteRange range,
                            const std::string& mount = "/train") {
    PeerRead read = read_of(key, range, mount);
    return {.mount = mount, .file = *read.file, .range = range};
  }
  HttpRequest request_of(const std::vector<PeerReadRequest>& records, PeerRequestHeader terms,
                         const std::vector<std::string>& mounts) {
    TokenClaims claims;
    claims.principal = "reader";
    for (const std::string& mount : mounts) claims.rights.add(mount, {Right::kRead});
    return signed_batch(records, std::move(terms), claims);
  }
  // Returns each part's bytes or "alone"; the status if the whole batch is rejected.
  Records ask(const std::vector<PeerReadRequest>& records, PeerRequestHeader terms = {},
              const std::vector<std::string>& mounts = {"/train"}) {
    auto response = executor_.block_on(
        HttpClient(server_->endpoint()).request(patient(), request_of(records, terms, mounts)));
    if (!response) return {response.error().to_string()};
    if (response->status != 200) return {fmt::format("{}", response->status)};
    EXPECT_EQ(response->headers.find(kEpochField), "7");
    auto deps = decode_batch_answer(Bytes::copy_of(response->body), records);
    if (!deps) return {deps.error().to_string()};
    Records told;
    for (const Result<Bytes>& part : *deps) told.push_back(part ? part->to_string() : "alone");
    return told;
  }
  // Loads into the cache by a read.
  void warm(const std::string& key, const std::string& content) {
    source_->put(key, content);
    std::string text;
    const uint64_t before = store_.bytes();
    ASSERT_TRUE(read(*worker_, read_of(key, {0, content.size()}), &text).result);
    while (store_.bytes() == before) std::this_thread::yield();
  }
};

TEST_F(BatchAnswersTest, WhatIsHereIsAnsweredAndNothingIsFetched) {
  warm("train/a", "aaaa");
  warm("train/b", "bbbb");
  source_->put("train/cold", "cccc");
  const uint64_t reads = source_->reads();
  const std::vector records = {record_of("train/a", {1, 2}), record_of("train/cold", {0, 4}),
                               record_of("train/b", {0, 4})};
  EXPECT_EQ(ask(records), (Records{"aa", "alone", "bbbb"}));
  set_ring({kOther});
  EXPECT_EQ(ask(records), (Records{"aa", "alone", "bbbb"})) << "what is here, whoever's it is";
  EXPECT_EQ(ask(records, {.only_if_cached = true}), (Records{"aa", "alone", "bbbb"}));
  EXPECT_EQ(ask(records, {.replicas = 2}), (Records{"aa", "alone", "bbbb"}));
  EXPECT_EQ(source_->reads(), reads);
  EXPECT_EQ(other_->requests, 0);
}

TEST_F(BatchAnswersTest, WhatIsOnDiskIsReadFromThere) {
  std::vector<PeerReadRequest> records;
  Records content;
  for (int i = 0; i < 50; ++i) {
    content.push_back(std::string(1000 + i, static_cast<char>('a' + i % 26)));
    warm(fmt::format("train/{}", i), content.back());
    records.push_back(record_of(fmt::format("train/{}", i), {0, content.back().size()}));
  }
  store_.set_hot(false);
  EXPECT_EQ(ask(records), content);
}

TEST_F(BatchAnswersTest, ARightOnOneMountOpensNoOther) {
  warm("train/a", "aaaa");
  source_->put("secret/s", "ssss");
  mount("/secret", "secret/");
  PeerReadRequest by_another_name = record_of("train/a", {0, 4});
  by_another_name.mount = "/secret";
  EXPECT_EQ(ask({record_of("train/a", {0, 4}), by_another_name}), (Records{"aaaa", "alone"}));
  EXPECT_EQ(ask({record_of("train/a", {0, 4}), by_another_name}, {}, {"/train", "/secret"}),
            (Records{"aaaa", "alone"}));
  EXPECT_EQ(ask({record_of("train/a", {0, 4})}, {}, {"/secret"}), Records{"alone"});
}

TEST_F(BatchAnswersTest, AVersionThatIsGoneIsNotAnswered) {
  warm("train/a", "aaaa");
  const PeerReadRequest gone = record_of("train/a", {0, 4});
  warm("train/a", "AAAA");
  EXPECT_THAT(ask({gone, record_of("train/a", {0, 4})}),
              ::testing::AnyOf(Records{"aaaa", "AAAA"}, Records{"alone", "AAAA"}))
      << "the old bytes, as long as they are here, or none";
}

TEST_F(BatchAnswersTest, WhatIsHotIsAskedForAloneToHearOfReplicas) {
  for (const WorkerId& id : {kSelf, kOther}) view_.workers[id] = {.id = id, .address = "there:1"};
  set_ring({kSelf, kOther});
  std::string key;
  for (int i = 0; key.empty(); ++i) {
    const std::string one = fmt::format("train/{}", i);
    if (views_.view()->ring.owner(PlacementKey::stripe(source_->id(), one, 0)) == kSelf) key = one;
  }
  const std::string content(kMiB, 'h');
  warm(key, content);
  const PeerReadRequest whole = record_of(key, {0, kMiB});
  int answered = 0;
  while (ask({whole}) == Records{content}) ASSERT_LT(++answered, 500);
  EXPECT_GT(answered, 10);
}

TEST_F(BatchAnswersTest, WhatIsNoBatchIsRefusedAsAWhole) {
  source_->put("train/a", "aaaa");
  EXPECT_EQ(ask({}), Records{"400"});
  PeerReadRequest large = record_of("train/a", {0, 4});
  large.file.size = 2 * kBatchBytesMax;
  large.range = {0, kBatchBytesMax + 1};
  EXPECT_EQ(ask({large}), Records{"400"});
  HttpRequest unsigned_one{.method = "POST", .path = kBatchPath};
  unsigned_one.target = unsigned_one.path;
  EXPECT_EQ(status_of(unsigned_one), 401);
  HttpRequest changed = request_of({record_of("train/a", {0, 4})}, {}, {"/train"});
  changed.body = encode_batch({{record_of("train/a", {0, 3})}});
  EXPECT_EQ(status_of(changed), 401);
}

// --- by the client -------------------------------------------------------------------------------

TEST_F(BatchAnswersTest, EachReadOfABatchHasItsOwnResult) {
  PeerClientOptions options = client_options();
  options.supports_batches = true;
  options.read_batcher.in_flight_max = 2;
  auto token = issue(secrets()->signing(), TokenClaims::of_worker(kOther));
  auto client =
      PeerClient::make(options, std::make_shared<RequestSigner>(*token), executor_).value();
  constexpr size_t kFiles = 60;
  std::vector<PeerRead> reads;
  Records content;
  for (size_t i = 0; i < kFiles; ++i) {
    const std::string key = fmt::format("train/{}", i);
    content.push_back(std::string(500 + i, static_cast<char>('A' + i % 26)));
    if (i % 3 == 0) {
      source_->put(key, content.back());
    } else {
      warm(key, content.back());
    }
    reads.push_back(read_of(key, {0, content.back().size()}));
  }
  const PeerRead gone = read_of("train/0", {0, 4});
  source_->put("train/0", content[0] + "!");
  reads[0] = read_of("train/0", {0, content[0].size()});
  reads.push_back(gone);
  const uint64_t before = source_->reads();
  for (int round = 0; round < 3; ++round) {
    Records texts(reads.size());
    std::vector<std::future<PeerReply<void>>> replies;
    for (size_t i = 0; i < reads.size(); ++i) {
      texts[i].resize(reads[i].range.size);
      replies.push_back(boost::asio::co_spawn(
          executor_.any(),
          client->read(patient(), reads[i], std::as_writable_bytes(std::span(texts[i]))),
          boost::asio::use_future));
    }
    for (size_t i = 0; i < kFiles; ++i) {
      auto reply = replies[i].get();
      ASSERT_TRUE(reply.result) << reply.result.error().to_string();
      EXPECT_EQ(texts[i], content[i]);
      EXPECT_EQ(reply.epoch, 7);
    }
    EXPECT_EQ(replies.back().get().result.error().code(), StatusCode::kVersionChanged);
  }
  EXPECT_GE(source_->reads() - before, kFiles / 3);
  EXPECT_LE(source_->reads() - before, kFiles / 3 + 3) << "each once, and what is gone each time";
}

}  // namespace
}  // namespace leat
