// SPDX-License-Identifier: Apache-2.0
// A worker's server over real sockets, with PeerClient: permitted and rejected requests.
#include "frontends/peer/peer_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "cluster/wait_until_test.h"
#include "frontends/peer/peer_server_fixture_test.h"
#include "wire/peer_error.h"

namespace leat {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testing::kOther;
using testing::kSelf;
using testing::PeerServerTestBase;
using testing::wait_until;
using testing::worker_id;

class PeerServerTest : public PeerServerTestBase {};

TEST_F(PeerServerTest, BytesAreFetchedOnceThenCached) {
  std::string content(300'000, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7);
  source_->put("train/a", content);
  std::string text;
  auto reply = read(*worker_, read_of("train/a", {1000, 200'000}), &text);
  ASSERT_TRUE(reply.result) << reply.result.error().to_string();
  EXPECT_EQ(reply.epoch, 7);
  EXPECT_EQ(text, content.substr(1000, 200'000));
  const uint64_t reads = source_->reads();
  while (store_.bytes() == 0) std::this_thread::yield();
  EXPECT_TRUE(read(*worker_, read_of("train/a", {1000, 200'000}), &text).result);
  EXPECT_EQ(text, content.substr(1000, 200'000));
  EXPECT_EQ(source_->reads(), reads);
}

TEST_F(PeerServerTest, NonOwnerServesOnlyCachedOrFailover) {
  source_->put("train/a", "aaaa");
  set_ring({kOther});
  std::string text;
  auto reply = read(*worker_, read_of("train/a", {0, 4}), &text);
  EXPECT_EQ(reply.outcome, PeerOutcome::kNotOwner);
  EXPECT_EQ(reply.epoch, 7);
  EXPECT_EQ(source_->reads(), 0u);
  PeerRead in_place = read_of("train/a", {0, 4});
  in_place.route.failover_for = kOther;
  EXPECT_TRUE(read(*worker_, in_place, &text).result);
  while (store_.bytes() == 0) std::this_thread::yield();
  reply = read(*worker_, read_of("train/a", {0, 4}), &text);
  EXPECT_TRUE(reply.result) << "now it is here";
  EXPECT_EQ(source_->reads(), 1u);
}

// --- replicas
// ---------------------------------------------------------------------------------------

class PeerServerReplicaTest : public PeerServerTestBase {
 protected:
  PeerServerReplicaTest() {
    for (const WorkerId& id : {kSelf, kOther}) {
      view_.workers[id] = {.id = id, .address = id == kSelf ? "here:1" : "there:1"};
    }
    set_ring({kSelf, kOther});
  }

  // A read of a key that `owner` owns.
  PeerRead read_owned_by(const WorkerId& owner, const std::string& content = "aaaa") {
    std::string key;
    do {
      key = fmt::format("train/{}", ++number_);
    } while (views_.view()->ring.owner(PlacementKey::stripe(source_->id(), key, 0)) != owner);
    source_->put(key, content);
    others_->put(key, content);
    return read_of(key, {0, content.size()});
  }
  PeerRead beside(PeerRead read, uint32_t replicas = 2) {
    read.route.replicas = replicas;
    return read;
  }

  int number_ = 0;
  std::string text_;
};

TEST_F(PeerServerReplicaTest, ReplicaReadsFromTheOwnerNotTheStore) {
  const PeerRead asked = read_owned_by(kOther);
  EXPECT_EQ(read(*worker_, asked, &text_).outcome, PeerOutcome::kNotOwner);
  auto reply = read(*worker_, beside(asked), &text_);
  ASSERT_TRUE(reply.result) << reply.result.error().to_string();
  EXPECT_EQ(text_, "aaaa");
  EXPECT_EQ(other_->served, 1);
  EXPECT_EQ(source_->reads(), 0u);
  while (store_.bytes() == 0) std::this_thread::yield();
  EXPECT_TRUE(read(*worker_, beside(asked), &text_).result);
  EXPECT_TRUE(read(*worker_, asked, &text_).result) << "what is here is answered, asked how ever";
  EXPECT_EQ(other_->served, 1);
}

TEST_F(PeerServerReplicaTest, IsNoneBeyondSoManyCandidates) {
  std::vector<RingMember> members;
  for (size_t i = 0; i < 5; ++i) members.push_back({worker_id(i), 1});
  view_.ring = Ring(7, members);
  publish();
  const auto place = [&](const std::string& key) {
    const auto all = views_.view()->ring.candidates(PlacementKey::stripe(source_->id(), key, 0), 5);
    return std::ranges::find(all, kSelf) - all.begin();
  };
  std::string third, fifth;
  for (int i = 0; third.empty() || fifth.empty(); ++i) {
    const std::string key = fmt::format("train/n{}", i);
    if (place(key) == 2) third = key;
    if (place(key) == 4) fifth = key;
  }
  source_->put(third, "aaaa");
  source_->put(fifth, "aaaa");
  EXPECT_EQ(read(*worker_, beside(read_of(third, {0, 4}), 2), &text_).outcome,
            PeerOutcome::kNotOwner);
  EXPECT_EQ(read(*worker_, beside(read_of(fifth, {0, 4}), 4), &text_).outcome,
            PeerOutcome::kNotOwner);
  EXPECT_EQ(source_->reads(), 0u);
}

TEST_F(PeerServerReplicaTest, WhereTheFirstIsDeadItIsTheFirst) {
  const PeerRead asked = read_owned_by(kOther);
  other_->up = false;
  EXPECT_TRUE(read(*worker_, beside(asked), &text_).result);
  EXPECT_EQ(text_, "aaaa");
  EXPECT_EQ(source_->reads(), 1u);
}

TEST_F(PeerServerReplicaTest, ManyAtOnceAskTheFirstOnce) {
  const PeerRead asked = beside(read_owned_by(kOther, std::string(100'000, 'x')));
  std::vector<std::future<PeerReply<PeerBytes>>> reads;
  for (int i = 0; i < 16; ++i) {
    reads.push_back(boost::asio::co_spawn(executor_.any(), service_->read_bytes(patient(), asked),
                                          boost::asio::use_future));
  }
  for (auto& one : reads) EXPECT_TRUE(one.get().result);
  EXPECT_EQ(other_->served, 1);
  EXPECT_EQ(source_->reads(), 0u);
}

TEST_F(PeerServerReplicaTest, OnlyIfCachedAsksNoWorkerEither) {
  PeerRead asked = beside(read_owned_by(kOther));
  asked.only_if_cached = true;
  EXPECT_EQ(read(*worker_, asked, &text_).result.error().code(), StatusCode::kNotFound);
  EXPECT_EQ(other_->requests, 0);
}

TEST_F(PeerServerReplicaTest, WhatIsReadMuchIsSaidToBeForMore) {
  const PeerRead hot = read_owned_by(kSelf, std::string(kMiB, 'h'));
  const PeerRead other = read_owned_by(kSelf);
  ReplicaHint advice;
  for (int i = 0; i < 500 && advice.replicas == 1; ++i) advice = read(*worker_, hot, &text_).hint;
  EXPECT_GT(advice.replicas, 1u);
  EXPECT_GT(advice.ttl.count(), 0);
  EXPECT_EQ(read(*worker_, other, &text_).hint, ReplicaHint{});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(read(*worker_, beside(hot), &text_).hint, ReplicaHint{}) << "only as the first";
  }
  PeerRead instead = hot;
  instead.route.failover_for = kOther;
  EXPECT_EQ(read(*worker_, instead, &text_).hint, ReplicaHint{});
  set_ring({kSelf});
  EXPECT_EQ(read(*worker_, hot, &text_).hint, ReplicaHint{}) << "there is nobody else";
}

TEST_F(PeerServerTest, OnlyIfCachedAsksNoStore) {
  source_->put("train/a", "aaaa");
  PeerRead cached = read_of("train/a", {0, 4});
  cached.only_if_cached = true;
  std::string text;
  auto reply = read(*worker_, cached, &text);
  ASSERT_FALSE(reply.result);
  EXPECT_EQ(reply.outcome, PeerOutcome::kAnswered);
  EXPECT_EQ(reply.result.error().code(), StatusCode::kNotFound);
  EXPECT_EQ(source_->reads(), 0u);
}

TEST_F(PeerServerTest, AVersionThatIsGoneIsToldAsThat) {
  source_->put("train/a", "aaaa");
  const PeerRead before = read_of("train/a", {0, 4});
  source_->put("train/a", "bbbb");
  std::string text;
  auto reply = read(*worker_, before, &text);
  ASSERT_FALSE(reply.result);
  EXPECT_EQ(reply.outcome, PeerOutcome::kAnswered);
  EXPECT_EQ(reply.result.error().code(), StatusCode::kVersionChanged);
  EXPECT_EQ(gone_, std::vector<std::string>{"/train:train/a"});
}

// After the reader's timeout no answer is expected.
TEST_F(PeerServerTest, ARequestEndsWithTheTimeThatItsReaderHas) {
  source_->put("train/a", "aaaa");
  const PeerRead wanted = read_of("train/a", {0, 4});
  PeerReadRequest asked{.mount = wanted.mount, .file = *wanted.file, .range = wanted.range};
  asked.header.epoch = 7;
  asked.header.timeout = milliseconds(50);
  HttpRequest request = to_http(asked);
  request.headers.set(kToField, kSelf.to_hex());
  request.target = make_target(request.path, request.query);
  RequestSigner(*issue(secrets()->signing(), TokenClaims::of_worker(kOther))).sign(request);
  source_->block_reads();
  auto response = executor_.block_on(HttpClient(server_->endpoint()).request(patient(), request));
  source_->release_reads();
  ASSERT_TRUE(response) << response.error().to_string();
  EXPECT_EQ(decode_peer_error(response->status, response->body).code(), StatusCode::kTimedOut);
}

// A client requests fresh metadata; a difference is published to all.
TEST_F(PeerServerTest, DifferenceFoundByStatIsPublished) {
  // Published concurrently with the answers, perhaps after them.
  struct Found {
    std::mutex mutex;
    std::vector<std::string> names;
  };
  const auto found = std::make_shared<Found>();
  catalog_->set_change_listener([found](const CatalogChange& change) {
    std::lock_guard lock(found->mutex);
    found->names.push_back(change.parent + ":" + change.name + (change.removed ? " gone" : ""));
  });
  const auto names = [&] {
    std::lock_guard lock(found->mutex);
    return found->names;
  };
  source_->put("train/a", "aaaa");
  source_->put("train/b", "b");
  PeerStat stat{.mount = "/train", .store = source_->id(), .key = "train/a", .age_max = hours(1)};
  stat.route.epoch = 7;
  ASSERT_TRUE(executor_.block_on(worker_->stat(patient(), stat)).result);
  stat.age_max = seconds(0);
  ASSERT_TRUE(executor_.block_on(worker_->stat(patient(), stat)).result);
  EXPECT_TRUE(names().empty()) << "it is what it was";
  source_->put("train/a", "another one");
  EXPECT_EQ(executor_.block_on(worker_->stat(patient(), stat)).result->size, 11u);
  EXPECT_TRUE(wait_until([&] { return names().size() == 1; }));
  EXPECT_EQ(names(), std::vector<std::string>{"/train:a"});
  // Cached from now on.
  stat.age_max = hours(1);
  EXPECT_EQ(executor_.block_on(worker_->stat(patient(), stat)).result->size, 11u);
  source_->remove("train/b");
  stat.key = "train/b";
  stat.age_max = seconds(0);
  EXPECT_EQ(executor_.block_on(worker_->stat(patient(), stat)).result.error().code(),
            StatusCode::kNotFound);
  EXPECT_TRUE(wait_until([&] { return names().size() == 2; }));
  EXPECT_EQ(names(), (std::vector<std::string>{"/train:a", "/train:b gone"}));
  catalog_->set_change_listener(nullptr);
}

TEST_F(PeerServerTest, ARightOnOneMountOpensNoOther) {
  source_->put("train/a", "aaaa");
  source_->put("secret/s", "ssss");
  mount("/secret", "secret/");
  auto reader = reader_of("/train");
  std::string text;
  EXPECT_TRUE(read(*reader, read_of("train/a", {0, 4}), &text).result);
  auto code = [&](PeerRead request) {
    auto reply = read(*reader, std::move(request), &text);
    EXPECT_FALSE(reply.result);
    return reply.result ? StatusCode::kInternal : reply.result.error().code();
  };
  EXPECT_EQ(code(read_of("secret/s", {0, 4}, "/secret")), StatusCode::kPermissionDenied);
  EXPECT_EQ(code(read_of("secret/s", {0, 4}, "/train")), StatusCode::kPermissionDenied);
  EXPECT_EQ(source_->reads(), 1u);
  PeerList list = list_of("secret/");
  EXPECT_EQ(executor_.block_on(reader->list(patient(), list)).result.error().code(),
            StatusCode::kPermissionDenied);
  list.mount = "/secret";
  EXPECT_EQ(executor_.block_on(reader->list(patient(), list)).result.error().code(),
            StatusCode::kPermissionDenied);
  PeerStat stat{.mount = "/train", .store = source_->id(), .key = "secret/s"};
  EXPECT_EQ(executor_.block_on(reader->stat(patient(), stat)).result.error().code(),
            StatusCode::kPermissionDenied);
}

TEST_F(PeerServerTest, WhoIsNotSignedGetsNothing) {
  const HttpClient nobody(server_->endpoint());
  for (const char* path : {"/peer/v1/ping", "/peer/v1/cluster", "/peer/v1/bytes", "/peer/v1/list",
                           "/peer/v1/stat", "/peer/v1/changes"}) {
    HttpRequest request{.path = path};
    request.query["after"] = "0";
    auto answer = executor_.block_on(nobody.request(patient(), request));
    ASSERT_TRUE(answer) << path;
    EXPECT_EQ(answer->status, 401) << path;
  }
  HttpRequest post{.method = "POST", .path = "/peer/v1/changes", .body = "{}"};
  EXPECT_EQ(executor_.block_on(nobody.request(patient(), post))->status, 401);
  EXPECT_TRUE(received_.items.empty());
}

TEST_F(PeerServerTest, WhatIsForAnotherWorkerIsTurnedAway) {
  source_->put("train/a", "aaaa");
  std::string text;
  auto reply =
      read(*client(TokenClaims::of_worker(kOther), kOther), read_of("train/a", {0, 4}), &text);
  EXPECT_EQ(reply.outcome, PeerOutcome::kNotOwner);
}

TEST_F(PeerServerTest, WhoHasNotGotTheMountIsNotTheOneToAsk) {
  source_->put("x/a", "aaaa");
  mount("/unserved", "x/");
  std::string text;
  for (const char* path : {"/unserved", "/never"}) {
    auto reply = read(*worker_, read_of("x/a", {0, 4}, path), &text);
    EXPECT_EQ(reply.outcome, PeerOutcome::kNotOwner) << path;
  }
}

TEST_F(PeerServerTest, WhatMayNotBeReadIsNotToldOf) {
  mount("/private", "private/");
  auto reader = reader_of("/train");
  auto view = executor_.block_on(reader->view(patient(), 0));
  ASSERT_TRUE(view && *view);
  EXPECT_TRUE((*view)->mounts.contains("/train"));
  EXPECT_FALSE((*view)->mounts.contains("/private"));
  auto first = executor_.block_on(reader->invalidations(patient(), 0));
  ASSERT_TRUE(first);
  const Invalidation hidden{.mount = "/private", .key = "a", .kind = Invalidation::Kind::kObject};
  const Invalidation shown{.mount = "/train", .key = "b", .kind = Invalidation::Kind::kObject};
  changes_.append({hidden, shown});
  auto more = executor_.block_on(reader->invalidations(patient(), first->number));
  ASSERT_TRUE(more);
  EXPECT_EQ(more->items, std::vector{shown});
}

TEST_F(PeerServerTest, NamesComeInPagesAndFromOneListing) {
  std::vector<std::string> keys;
  for (int i = 0; i < 2'500; ++i) {
    keys.push_back(fmt::format("train/n{:04}", i));
    source_->put(keys.back(), "x");
  }
  source_->put("train/dir/deep", "x");
  source_->put("train/dir-b", "x");
  const uint64_t lists = source_->lists();
  std::vector<std::string> seen;
  std::string token;
  do {
    auto reply = executor_.block_on(worker_->list(patient(), list_of("train/", token)));
    ASSERT_TRUE(reply.result) << reply.result.error().to_string();
    for (const SourceObject& object : reply.result->objects) seen.push_back(object.key);
    token = reply.result->next_token;
  } while (!token.empty());
  keys.push_back("train/dir/");
  keys.push_back("train/dir-b");
  std::ranges::sort(keys);
  std::ranges::sort(seen);
  EXPECT_EQ(seen, keys);
  // Three pages of the store, once.
  EXPECT_EQ(source_->lists() - lists, 3u);
}

TEST_F(PeerServerTest, OneNameIsTold) {
  source_->put("train/a", "aaaa");
  PeerStat stat{.mount = "/train", .store = source_->id(), .key = "train/a", .age_max = hours(1)};
  stat.route.epoch = 7;
  auto reply = executor_.block_on(worker_->stat(patient(), stat));
  ASSERT_TRUE(reply.result) << reply.result.error().to_string();
  EXPECT_EQ(reply.result->size, 4u);
  EXPECT_EQ(reply.result->version, read_of("train/a", {0, 1}).file->version);
  stat.age_max = seconds(0);
  const uint64_t stats = source_->stats();
  EXPECT_TRUE(executor_.block_on(worker_->stat(patient(), stat)).result);
  EXPECT_EQ(source_->stats(), stats + 1) << "the store itself";
  stat.key = "train/none";
  EXPECT_EQ(executor_.block_on(worker_->stat(patient(), stat)).result.error().code(),
            StatusCode::kNotFound);
}

TEST_F(PeerServerTest, EachHearsTheViewThatIsTheirs) {
  mount("/private", "private/");
  auto reader = reader_of("/train");
  auto everything = reader_of("/");
  for (int round = 0; round < 2; ++round) {
    for (const auto& [who, mounts] : {std::pair(worker_, 2), {reader, 1}, {everything, 2}}) {
      auto view = executor_.block_on(who->view(patient(), 0));
      ASSERT_TRUE(view && *view);
      EXPECT_EQ((*view)->revision, view_.revision);
      EXPECT_EQ(std::ssize((*view)->mounts), mounts);
    }
    publish();
  }
}

TEST_F(PeerServerTest, ViewAndChangesAreToldToWhoWaits) {
  auto view = executor_.block_on(worker_->view(patient(), 0));
  ASSERT_TRUE(view && *view);
  EXPECT_EQ((*view)->revision, view_.revision);
  EXPECT_EQ((*view)->mounts.at("/train").prefix, "train/");
  auto waiting = boost::asio::co_spawn(executor_.any(), worker_->view(patient(), view_.revision),
                                       boost::asio::use_future);
  publish();
  auto news = waiting.get();
  ASSERT_TRUE(news && *news);
  EXPECT_EQ((*news)->revision, view_.revision);

  auto first = executor_.block_on(worker_->invalidations(patient(), 0));
  ASSERT_TRUE(first) << first.error().to_string();
  ASSERT_EQ(first->items.size(), 1u);
  EXPECT_EQ(first->items[0].kind, Invalidation::Kind::kAll);
  const Invalidation change{.mount = "/train", .key = "a\xff", .kind = Invalidation::Kind::kObject};
  changes_.append({change});
  auto more = executor_.block_on(worker_->invalidations(patient(), first->number));
  ASSERT_TRUE(more);
  EXPECT_EQ(more->items, std::vector{change});
  EXPECT_TRUE(
      executor_.block_on(worker_->send_invalidations(patient(), {.number = 0, .items = {change}})));
  EXPECT_EQ(received_.items, std::vector{change});
  EXPECT_FALSE(executor_.block_on(
      reader_of("/")->send_invalidations(patient(), {.number = 0, .items = {change}})))
      << "who is no worker tells of no changes";
}

TEST_F(PeerServerTest, MutatingRequestIsAcceptedOnce) {
  const Invalidation change{.mount = "/train", .key = "a", .kind = Invalidation::Kind::kObject};
  auto sent =
      executor_.block_on(worker_->send_invalidations(patient(), {.number = 0, .items = {change}}));
  EXPECT_TRUE(sent) << sent.error().to_string();
  EXPECT_EQ(status_of(signed_change("")), 401) << "it names no process";
  const HttpRequest kept = signed_change("first process");
  EXPECT_EQ(status_of(kept), 204);
  restart();
  EXPECT_EQ(status_of(kept), 401);
  // The client still has the old process id, and signs again.
  sent =
      executor_.block_on(worker_->send_invalidations(patient(), {.number = 0, .items = {change}}));
  EXPECT_TRUE(sent) << sent.error().to_string();
}

TEST_F(PeerServerTest, ClientWithLaterViewGetsCurrentView) {
  poll_time_ = milliseconds(50);
  restart();
  auto view = executor_.block_on(worker_->view(patient(), view_.revision + 10));
  ASSERT_TRUE(view && *view);
  EXPECT_EQ((*view)->revision, view_.revision);
  view_is_current_ = false;
  view = executor_.block_on(worker_->view(patient(), view_.revision + 10));
  ASSERT_TRUE(view);
  EXPECT_EQ(*view, nullptr) << "it may be behind";
  view_is_current_ = true;
  view = executor_.block_on(worker_->view(patient(), view_.revision));
  ASSERT_TRUE(view);
  EXPECT_EQ(*view, nullptr);
}

TEST_F(PeerServerTest, AWorkerThatIsGoneIsNotReached) {
  source_->put("train/a", "aaaa");
  std::string text;
  const PeerRead request = read_of("train/a", {0, 4});
  EXPECT_TRUE(worker_->usable());
  PeerClientOptions options{.address = "127.0.0.1:1", .worker = kSelf};
  auto token = issue(secrets()->signing(), TokenClaims::of_worker(kOther));
  auto gone = PeerClient::make(options, std::make_shared<RequestSigner>(*token), executor_).value();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(read(*gone, request, &text).outcome, PeerOutcome::kUnreachable);
  }
  EXPECT_FALSE(gone->usable());
}

TEST_F(PeerServerTest, JobsBringFilesIntoTheCacheAndGiveThemUp) {
  const std::string content(300'000, 'x');
  source_->put("train/a", content);
  const PeerRead read = read_of("train/a", {0, content.size()});
  PeerCacheOp upkeep{
      .mount = "/train", .file = read.file, .range = read.range, .route = read.route};
  auto done = [&](CacheOp action) {
    upkeep.op = action;
    PeerReply<uint64_t> reply = executor_.block_on(worker_->cache_op(patient(), upkeep));
    EXPECT_EQ(reply.outcome, PeerOutcome::kAnswered);
    return reply.result.value();
  };
  EXPECT_EQ(done(CacheOp::kMissing), content.size());
  EXPECT_EQ(done(CacheOp::kEnsure), content.size());
  EXPECT_EQ(done(CacheOp::kEnsure), 0u);
  EXPECT_EQ(done(CacheOp::kMissing), 0u);
  EXPECT_EQ(done(CacheOp::kVerify), 0u);
  EXPECT_EQ(source_->reads(), 1u);
  EXPECT_EQ(executor_.block_on(worker_->drop(patient(), {read.file->id})).result.value(),
            content.size());
  EXPECT_EQ(done(CacheOp::kMissing), content.size());
}

TEST_F(PeerServerTest, RequestOfNewerEpochWaitsForIt) {
  source_->put("train/a", "0123456789");
  const PeerRead asked = read_of("train/a", {0, 10});
  set_ring({kOther});
  PeerRead read_by_next = asked;
  read_by_next.route.epoch = 8;
  PeerCacheOp upkeep{.mount = "/train", .file = asked.file, .range = asked.range};
  upkeep.route.epoch = 8;
  auto reading = std::async(std::launch::async, [&] {
    std::string text;
    return read(*worker_, read_by_next, &text).outcome;
  });
  auto ensuring = std::async(std::launch::async, [&] {
    return executor_.block_on(worker_->cache_op(patient(), upkeep)).outcome;
  });
  // A view without a new ring does not end the wait.
  publish();
  EXPECT_EQ(reading.wait_for(milliseconds(20)), std::future_status::timeout);
  EXPECT_EQ(ensuring.wait_for(milliseconds(20)), std::future_status::timeout);
  view_.ring = Ring(8, {{kSelf, 1}});
  publish();
  EXPECT_EQ(reading.get(), PeerOutcome::kAnswered);
  EXPECT_EQ(ensuring.get(), PeerOutcome::kAnswered);
  EXPECT_EQ(source_->reads(), 1u);
}

TEST_F(PeerServerTest, WhatIsHereIsAnsweredByWhateverRing) {
  source_->put("train/a", "0123456789");
  PeerRead asked = read_of("train/a", {0, 10});
  std::string text;
  ASSERT_TRUE(read(*worker_, asked, &text).result);
  while (store_.bytes() == 0) std::this_thread::yield();
  asked.route.epoch = 8;
  EXPECT_EQ(read(*worker_, asked, &text).outcome, PeerOutcome::kAnswered);
  EXPECT_EQ(text, "0123456789");
}

TEST_F(PeerServerTest, SoIsWhatIsInMemoryAlone) {
  Policy memory;
  memory.cache = CacheMode::kNever;
  policy_ = std::make_shared<const Policy>(memory);
  source_->put("train/a", "0123456789");
  PeerRead asked = read_of("train/a", {0, 10});
  std::string text;
  ASSERT_TRUE(read(*worker_, asked, &text).result);
  asked.route.epoch = 8;
  EXPECT_EQ(read(*worker_, asked, &text).outcome, PeerOutcome::kAnswered);
  EXPECT_EQ(text, "0123456789");
  EXPECT_EQ(store_.bytes(), 0u);
}

TEST_F(PeerServerTest, WhoIsAskedBesideTheFirstWaitsForNoRing) {
  source_->put("train/a", "0123456789");
  set_ring({kOther});
  PeerRead asked = read_of("train/a", {0, 10});
  asked.route = {.epoch = 8, .replicas = 2};
  std::string text;
  EXPECT_EQ(read(*worker_, asked, &text).outcome, PeerOutcome::kNotOwner);
}

TEST_F(PeerServerTest, WhatAnotherWorkerHoldsIsNotBroughtHere) {
  source_->put("train/a", "0123456789");
  const PeerRead read = read_of("train/a", {0, 10});
  set_ring({kOther});
  PeerCacheOp upkeep{
      .mount = "/train", .file = read.file, .range = read.range, .route = read.route};
  EXPECT_EQ(executor_.block_on(worker_->cache_op(patient(), upkeep)).outcome,
            PeerOutcome::kNotOwner);
  EXPECT_EQ(source_->reads(), 0u);
}

TEST_F(PeerServerTest, ClientsDoNotLookAfterCaches) {
  source_->put("train/a", "0123456789");
  const PeerRead read = read_of("train/a", {0, 10});
  const auto reader = reader_of("/");
  PeerCacheOp upkeep{
      .mount = "/train", .file = read.file, .range = read.range, .route = read.route};
  const auto code = [](const auto& reply) { return reply.result.error().code(); };
  EXPECT_EQ(code(executor_.block_on(reader->cache_op(patient(), upkeep))),
            StatusCode::kPermissionDenied);
  EXPECT_EQ(code(executor_.block_on(reader->drop(patient(), {}))), StatusCode::kPermissionDenied);
  EXPECT_EQ(code(executor_.block_on(reader->verify(patient(), 1))), StatusCode::kPermissionDenied);
}

TEST_F(PeerServerTest, AWorkerSaysHowItsLookAtTheCacheEnded) {
  auto verify = executor_.block_on(worker_->verify(patient(), 1)).result.value();
  EXPECT_FALSE(verify.ended);
  verify = executor_.block_on(worker_->verify(patient(), 1)).result.value();
  EXPECT_TRUE(verify.ended);
  EXPECT_EQ(verify.error, "there is no cache that could be verified");
}

}  // namespace
}  // namespace leat
