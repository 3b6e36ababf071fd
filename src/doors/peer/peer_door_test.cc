// SPDX-License-Identifier: Apache-2.0
// A worker's door over real sockets, asked by PeerClient: what is answered to whom, and who answers
// nothing.
#include "doors/peer/peer_door.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <latch>

#include "fetch/memory_page_store_test.h"
#include "http/raw_sockets_test.h"
#include "http/server.h"
#include "peer/made_cluster_test.h"
#include "peer/peer_client.h"
#include "peer/read_request.h"
#include "peer/replicas/replica_source.h"
#include "source/piecewise_source_test.h"

namespace leat {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testing::MadeMap;
using testing::MadePeer;
using testing::MemoryPageStore;
using testing::MemorySource;
using testing::PiecewiseSource;
using testing::worker_id;

const WorkerId kSelf = worker_id(0);
const WorkerId kOther = worker_id(1);

class PeerDoorTest : public ::testing::Test {
 protected:
  PeerDoorTest() {
    policy_ = std::make_shared<const Policy>();
    catalog_ = Catalog::create({}, sources_, executor_);
    fetcher_ = Fetcher::create({}, &store_, sources_, executor_);
    replica_sources_.add(make_replica_source(kSelf, source_->id(), map_, peers_));
    replicas_ = Fetcher::create({}, &store_, replica_sources_, executor_);
    mount("/train", "train/");
    target_ = std::make_unique<HostTarget>(*fetcher_, store_, nullptr, executor_);
    verify_runs_ = std::make_unique<VerifyRuns>(*target_, executor_);
    own_ = std::make_shared<OwnPeer>(OwnPeerParts{
        .self = kSelf,
        .map = map_,
        .catalog = *catalog_,
        .fetcher = *fetcher_,
        .replicas = replicas_.get(),
        .store = &store_,
        .target = target_.get(),
        .verify_runs = verify_runs_.get(),
        .policy_of =
            [this](const std::string& at) { return at == "/unserved" ? nullptr : policy_; },
        .heat = {.hot_bytes_s = 16 * kMiB}});
    serve({{}, "127.0.0.1", 0}, "first process");
    set_ring({kSelf});
    worker_ = client(TokenClaims::of_worker(kOther));
  }
  ~PeerDoorTest() override {
    executor_.wait(server_->stop());
    executor_.wait(verify_runs_->stop());
    executor_.wait(catalog_->stop());
    executor_.wait(replicas_->stop());
    executor_.wait(fetcher_->stop());
  }

  void serve(const HttpEndpoint& endpoint, const std::string& instance) {
    verifier_ = std::make_unique<RequestVerifier>(
        secrets(), RequestVerifierOptions{.self = kSelf, .instance = instance});
    door_ = std::make_unique<PeerDoor>(
        PeerDoorParts{.own = *own_,
                      .map = map_,
                      .changes = changes_,
                      .verifier = *verifier_,
                      .follows = [this] { return follows_.load(); },
                      .poll_time = std::chrono::milliseconds(50),
                      .told = [this](PeerChanges news) { told_ = std::move(news); },
                      .answers = {.bytes_max = kMiB, .patience = answer_patience_}});
    server_ = HttpServer::start(endpoint, door_->router(), {}, executor_).value();
  }
  void restart() {
    const HttpEndpoint endpoint = server_->endpoint();
    executor_.wait(server_->stop());
    server_.reset();
    serve(endpoint, "second process");
  }
  // As a worker sends it that tells of a change.
  HttpRequest signed_change(const std::string& instance) {
    HttpRequest request{.method = "POST", .path = "/peer/v1/changes"};
    request.body = encode_changes({.number = 0, .changes = {}});
    request.headers.set(kToField, kSelf.to_hex());
    if (!instance.empty()) request.headers.set(kInstanceField, instance);
    RequestSigner signer(*issue(secrets()->signing(), TokenClaims::of_worker(kOther)));
    request.target = request.path;
    signer.sign(request);
    return request;
  }
  int status_of(HttpRequest request) {
    auto response = executor_.wait(HttpClient(server_->endpoint()).request(patient(), request));
    return response ? response->status : 0;
  }

  void mount(const std::string& path, const std::string& prefix) {
    MountEntry entry{.path = path, .source = {}, .policy = *policy_};
    entry.source.prefix = prefix;
    ASSERT_TRUE(catalog_->mount(entry, source_));
    view_.mounts[path] = {.path = path,
                          .source = "memory://bucket/" + prefix,
                          .options = {},
                          .store = source_->id(),
                          .prefix = prefix};
    publish();
  }
  void set_ring(const std::vector<WorkerId>& workers) {
    std::vector<RingMember> members;
    for (const WorkerId& id : workers) members.push_back({id, 1});
    view_.ring = Ring(7, members);
    publish();
  }
  void publish() {
    ++view_.revision;
    peers_.update(view_);
    map_.set(view_);
  }
  static SecretSetPtr secrets() {
    static const auto set =
        std::make_shared<const SecretSet>(SecretSet::parse(make_secret(), "test").value());
    return set;
  }
  std::shared_ptr<PeerClient> client(const TokenClaims& claims, WorkerId to = kSelf) {
    auto token = issue(secrets()->signing(), claims);
    PeerClientOptions options{.address = server_->endpoint().to_string(), .worker = to};
    return PeerClient::make(options, std::make_shared<RequestSigner>(*token), executor_).value();
  }
  std::shared_ptr<PeerClient> reader_of(const std::string& path) {
    TokenClaims claims;
    claims.principal = "reader";
    claims.rights.add(path, {Right::kRead});
    return client(claims);
  }

  PeerRead read_of(const std::string& key, ByteRange range, const std::string& mount = "/train") {
    auto object = executor_.wait(source_->stat(Context::background(), {key}));
    PeerRead read{.mount = mount, .range = range};
    read.file = std::make_shared<const FileRef>(
        FileRef::make(source_->id(), key, object->version, object->size));
    read.route.epoch = 7;
    return read;
  }
  // What a read gives, as text; the worker's words where it gives none.
  PeerReply<void> read(PeerClient& peer, PeerRead request, std::string* text) {
    text->resize(request.range.size);
    return executor_.wait(
        peer.read(patient(), std::move(request), std::as_writable_bytes(std::span(*text))));
  }
  static Context patient() { return Context::background().with_timeout(seconds(20)); }
  PeerList list_of(const std::string& prefix, const std::string& token = "") {
    return {.mount = "/train",
            .store = source_->id(),
            .prefix = prefix,
            .token = token,
            .age_max = hours(1),
            .route = {.epoch = 7}};
  }

  Executor executor_{{.threads = 4}};
  std::shared_ptr<PiecewiseSource> source_ = std::make_shared<PiecewiseSource>();
  MemoryPageStore store_;
  SourceTable sources_;
  MadeMap map_;
  ClusterView view_;
  std::shared_ptr<const Policy> policy_;
  ChangeLog changes_{{.mounts = [] { return std::vector<std::string>{"/train"}; }}};
  PeerChanges told_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<Fetcher> fetcher_;
  // What the other worker has, if it is asked.
  std::shared_ptr<MemorySource> others_ = std::make_shared<MemorySource>();
  std::shared_ptr<MadePeer> other_ = std::make_shared<MadePeer>(kOther, others_, map_);
  PeerTable peers_{[this](const WorkerInfo& info) {
    return info.id == kSelf ? PeerPtr(own_) : PeerPtr(other_);
  }};
  SourceTable replica_sources_;
  std::unique_ptr<Fetcher> replicas_;
  std::unique_ptr<HostTarget> target_;
  std::unique_ptr<VerifyRuns> verify_runs_;
  std::shared_ptr<OwnPeer> own_;
  std::atomic<bool> follows_ = true;
  Clock::duration answer_patience_ = seconds(20);
  std::unique_ptr<RequestVerifier> verifier_;
  std::unique_ptr<PeerDoor> door_;
  std::unique_ptr<HttpServer> server_;
  std::shared_ptr<PeerClient> worker_;
};

TEST_F(PeerDoorTest, BytesComeFromTheStoreOnceAndThenFromTheCache) {
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

// --- readers that are slow to take what they asked for -------------------------------------------

class SlowReaderTest : public PeerDoorTest {
 protected:
  // More than sockets hold.
  static constexpr uint64_t kLarge = 16 * kMiB;

  SlowReaderTest() { source_->put("train/large", std::string(kLarge, 'l')); }

  // Asks for all of it and takes nothing.
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
    EXPECT_TRUE(client->say(text + "\r\n"));
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

TEST_F(SlowReaderTest, WhoHasWaitedLongIsSentElsewhereAndSmallAnswersNeedNotWait) {
  answer_patience_ = milliseconds(20);
  restart();
  worker_ = client(TokenClaims::of_worker(kOther));
  auto one = slow();
  std::string text;
  auto reply = read(*worker_, read_of("train/large", {0, 100'000}), &text);
  EXPECT_EQ(reply.reach, PeerReach::kNotReached);
  EXPECT_THAT(reply.result.error().to_string(), HasSubstr("readers are slow"));
  EXPECT_TRUE(read(*worker_, read_of("train/large", {0, 4096}), &text).result);
}

TEST_F(PeerDoorTest, AnotherWorkersBytesAreTurnedAwayUnlessTheyAreHereOrAskedInItsPlace) {
  source_->put("train/a", "aaaa");
  set_ring({kOther});
  std::string text;
  auto reply = read(*worker_, read_of("train/a", {0, 4}), &text);
  EXPECT_EQ(reply.reach, PeerReach::kMisdirected);
  EXPECT_EQ(reply.epoch, 7);
  EXPECT_EQ(source_->reads(), 0u);
  PeerRead in_place = read_of("train/a", {0, 4});
  in_place.route.instead = kOther;
  EXPECT_TRUE(read(*worker_, in_place, &text).result);
  while (store_.bytes() == 0) std::this_thread::yield();
  reply = read(*worker_, read_of("train/a", {0, 4}), &text);
  EXPECT_TRUE(reply.result) << "now it is here";
  EXPECT_EQ(source_->reads(), 1u);
}

// --- beside the first candidate ------------------------------------------------------------------

class ReplicaDoorTest : public PeerDoorTest {
 protected:
  ReplicaDoorTest() {
    for (const WorkerId& id : {kSelf, kOther}) {
      view_.workers[id] = {.id = id, .address = id == kSelf ? "here:1" : "there:1"};
    }
    set_ring({kSelf, kOther});
  }

  // Keys that are the other worker's, or this one's.
  PeerRead read_owned_by(const WorkerId& owner, const std::string& content = "aaaa") {
    std::string key;
    do {
      key = fmt::format("train/{}", ++number_);
    } while (map_.view()->ring.owner(PlacementKey::stripe(source_->id(), key, 0)) != owner);
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

TEST_F(ReplicaDoorTest, GetsFromTheFirstWhatItHasNotAndAsksNoStore) {
  const PeerRead asked = read_owned_by(kOther);
  EXPECT_EQ(read(*worker_, asked, &text_).reach, PeerReach::kMisdirected);
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

TEST_F(ReplicaDoorTest, IsNoneBeyondSoManyCandidates) {
  std::vector<RingMember> members;
  for (size_t i = 0; i < 5; ++i) members.push_back({worker_id(i), 1});
  view_.ring = Ring(7, members);
  publish();
  const auto place = [&](const std::string& key) {
    const auto all = map_.view()->ring.candidates(PlacementKey::stripe(source_->id(), key, 0), 5);
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
  EXPECT_EQ(read(*worker_, beside(read_of(third, {0, 4}), 2), &text_).reach,
            PeerReach::kMisdirected);
  EXPECT_EQ(read(*worker_, beside(read_of(fifth, {0, 4}), 4), &text_).reach,
            PeerReach::kMisdirected);
  EXPECT_EQ(source_->reads(), 0u);
}

TEST_F(ReplicaDoorTest, WhereTheFirstIsDeadItIsTheFirst) {
  const PeerRead asked = read_owned_by(kOther);
  other_->up = false;
  EXPECT_TRUE(read(*worker_, beside(asked), &text_).result);
  EXPECT_EQ(text_, "aaaa");
  EXPECT_EQ(source_->reads(), 1u);
}

TEST_F(ReplicaDoorTest, ManyAtOnceAskTheFirstOnce) {
  const PeerRead asked = beside(read_owned_by(kOther, std::string(100'000, 'x')));
  std::vector<std::future<PeerReply<PeerBytes>>> reads;
  for (int i = 0; i < 16; ++i) {
    reads.push_back(boost::asio::co_spawn(executor_.any(), own_->read_bytes(patient(), asked),
                                          boost::asio::use_future));
  }
  for (auto& one : reads) EXPECT_TRUE(one.get().result);
  EXPECT_EQ(other_->served, 1);
  EXPECT_EQ(source_->reads(), 0u);
}

TEST_F(ReplicaDoorTest, OnlyIfCachedAsksNoWorkerEither) {
  PeerRead asked = beside(read_owned_by(kOther));
  asked.only_if_cached = true;
  EXPECT_EQ(read(*worker_, asked, &text_).result.error().code(), StatusCode::kNotFound);
  EXPECT_EQ(other_->asked, 0);
}

TEST_F(ReplicaDoorTest, WhatIsReadMuchIsSaidToBeForMore) {
  const PeerRead hot = read_owned_by(kSelf, std::string(kMiB, 'h'));
  const PeerRead other = read_owned_by(kSelf);
  ReplicaAdvice advice;
  for (int i = 0; i < 500 && advice.replicas == 1; ++i) advice = read(*worker_, hot, &text_).advice;
  EXPECT_GT(advice.replicas, 1u);
  EXPECT_GT(advice.lasts.count(), 0);
  EXPECT_EQ(read(*worker_, other, &text_).advice, ReplicaAdvice{});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(read(*worker_, beside(hot), &text_).advice, ReplicaAdvice{}) << "only as the first";
  }
  PeerRead instead = hot;
  instead.route.instead = kOther;
  EXPECT_EQ(read(*worker_, instead, &text_).advice, ReplicaAdvice{});
  set_ring({kSelf});
  EXPECT_EQ(read(*worker_, hot, &text_).advice, ReplicaAdvice{}) << "there is nobody else";
}

TEST_F(PeerDoorTest, OnlyIfCachedAsksNoStore) {
  source_->put("train/a", "aaaa");
  PeerRead cached = read_of("train/a", {0, 4});
  cached.only_if_cached = true;
  std::string text;
  auto reply = read(*worker_, cached, &text);
  ASSERT_FALSE(reply.result);
  EXPECT_EQ(reply.reach, PeerReach::kAnswered);
  EXPECT_EQ(reply.result.error().code(), StatusCode::kNotFound);
  EXPECT_EQ(source_->reads(), 0u);
}

TEST_F(PeerDoorTest, AVersionThatIsGoneIsToldAsThat) {
  source_->put("train/a", "aaaa");
  const PeerRead before = read_of("train/a", {0, 4});
  source_->put("train/a", "bbbb");
  std::string text;
  auto reply = read(*worker_, before, &text);
  ASSERT_FALSE(reply.result);
  EXPECT_EQ(reply.reach, PeerReach::kAnswered);
  EXPECT_EQ(reply.result.error().code(), StatusCode::kChanged);
}

TEST_F(PeerDoorTest, ARightOnOneMountOpensNoOther) {
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
  EXPECT_EQ(executor_.wait(reader->list(patient(), list)).result.error().code(),
            StatusCode::kPermissionDenied);
  list.mount = "/secret";
  EXPECT_EQ(executor_.wait(reader->list(patient(), list)).result.error().code(),
            StatusCode::kPermissionDenied);
  PeerStat stat{.mount = "/train", .store = source_->id(), .key = "secret/s"};
  EXPECT_EQ(executor_.wait(reader->stat(patient(), stat)).result.error().code(),
            StatusCode::kPermissionDenied);
}

TEST_F(PeerDoorTest, WhoIsNotSignedGetsNothing) {
  const HttpClient nobody(server_->endpoint());
  for (const char* path : {"/peer/v1/ping", "/peer/v1/cluster", "/peer/v1/bytes", "/peer/v1/list",
                           "/peer/v1/stat", "/peer/v1/changes"}) {
    HttpRequest request{.path = path};
    request.query["after"] = "0";
    auto answer = executor_.wait(nobody.request(patient(), request));
    ASSERT_TRUE(answer) << path;
    EXPECT_EQ(answer->status, 401) << path;
  }
  HttpRequest post{.method = "POST", .path = "/peer/v1/changes", .body = "{}"};
  EXPECT_EQ(executor_.wait(nobody.request(patient(), post))->status, 401);
  EXPECT_TRUE(told_.changes.empty());
}

TEST_F(PeerDoorTest, WhatIsForAnotherWorkerIsTurnedAway) {
  source_->put("train/a", "aaaa");
  std::string text;
  auto reply =
      read(*client(TokenClaims::of_worker(kOther), kOther), read_of("train/a", {0, 4}), &text);
  EXPECT_EQ(reply.reach, PeerReach::kMisdirected);
}

TEST_F(PeerDoorTest, WhoHasNotGotTheMountIsNotTheOneToAsk) {
  source_->put("x/a", "aaaa");
  mount("/unserved", "x/");
  std::string text;
  for (const char* path : {"/unserved", "/never"}) {
    auto reply = read(*worker_, read_of("x/a", {0, 4}, path), &text);
    EXPECT_EQ(reply.reach, PeerReach::kMisdirected) << path;
  }
}

TEST_F(PeerDoorTest, WhatMayNotBeReadIsNotToldOf) {
  mount("/private", "private/");
  auto reader = reader_of("/train");
  auto view = executor_.wait(reader->view(patient(), 0));
  ASSERT_TRUE(view && *view);
  EXPECT_TRUE((*view)->mounts.contains("/train"));
  EXPECT_FALSE((*view)->mounts.contains("/private"));
  auto first = executor_.wait(reader->changes(patient(), 0));
  ASSERT_TRUE(first);
  const PeerChange hidden{.mount = "/private", .key = "a", .kind = PeerChange::Kind::kObject};
  const PeerChange shown{.mount = "/train", .key = "b", .kind = PeerChange::Kind::kObject};
  changes_.append({hidden, shown});
  auto more = executor_.wait(reader->changes(patient(), first->number));
  ASSERT_TRUE(more);
  EXPECT_EQ(more->changes, std::vector{shown});
}

TEST_F(PeerDoorTest, NamesComeInPagesAndFromOneListing) {
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
    auto reply = executor_.wait(worker_->list(patient(), list_of("train/", token)));
    ASSERT_TRUE(reply.result) << reply.result.error().to_string();
    for (const SourceObject& object : reply.result->objects) seen.push_back(object.key);
    token = reply.result->next_token;
  } while (!token.empty());
  keys.push_back("train/dir/");
  keys.push_back("train/dir-b");
  std::ranges::sort(keys);
  std::ranges::sort(seen);
  EXPECT_EQ(seen, keys);
  // Three pages of the memory's, once.
  EXPECT_EQ(source_->lists() - lists, 3u);
}

TEST_F(PeerDoorTest, OneNameIsTold) {
  source_->put("train/a", "aaaa");
  PeerStat stat{.mount = "/train", .store = source_->id(), .key = "train/a", .age_max = hours(1)};
  stat.route.epoch = 7;
  auto reply = executor_.wait(worker_->stat(patient(), stat));
  ASSERT_TRUE(reply.result) << reply.result.error().to_string();
  EXPECT_EQ(reply.result->size, 4u);
  EXPECT_EQ(reply.result->version, read_of("train/a", {0, 1}).file->version);
  stat.age_max = seconds(0);
  const uint64_t stats = source_->stats();
  EXPECT_TRUE(executor_.wait(worker_->stat(patient(), stat)).result);
  EXPECT_EQ(source_->stats(), stats + 1) << "the store itself";
  stat.key = "train/none";
  EXPECT_EQ(executor_.wait(worker_->stat(patient(), stat)).result.error().code(),
            StatusCode::kNotFound);
}

TEST_F(PeerDoorTest, EachHearsTheViewThatIsTheirs) {
  mount("/private", "private/");
  auto reader = reader_of("/train");
  auto everything = reader_of("/");
  for (int round = 0; round < 2; ++round) {
    for (const auto& [who, mounts] : {std::pair(worker_, 2), {reader, 1}, {everything, 2}}) {
      auto view = executor_.wait(who->view(patient(), 0));
      ASSERT_TRUE(view && *view);
      EXPECT_EQ((*view)->revision, view_.revision);
      EXPECT_EQ(std::ssize((*view)->mounts), mounts);
    }
    publish();
  }
}

TEST_F(PeerDoorTest, ViewAndChangesAreToldToWhoWaits) {
  auto view = executor_.wait(worker_->view(patient(), 0));
  ASSERT_TRUE(view && *view);
  EXPECT_EQ((*view)->revision, view_.revision);
  EXPECT_EQ((*view)->mounts.at("/train").prefix, "train/");
  auto waiting = boost::asio::co_spawn(executor_.any(), worker_->view(patient(), view_.revision),
                                       boost::asio::use_future);
  publish();
  auto news = waiting.get();
  ASSERT_TRUE(news && *news);
  EXPECT_EQ((*news)->revision, view_.revision);

  auto first = executor_.wait(worker_->changes(patient(), 0));
  ASSERT_TRUE(first) << first.error().to_string();
  ASSERT_EQ(first->changes.size(), 1u);
  EXPECT_EQ(first->changes[0].kind, PeerChange::Kind::kAll);
  const PeerChange change{.mount = "/train", .key = "a\xff", .kind = PeerChange::Kind::kObject};
  changes_.append({change});
  auto more = executor_.wait(worker_->changes(patient(), first->number));
  ASSERT_TRUE(more);
  EXPECT_EQ(more->changes, std::vector{change});
  EXPECT_TRUE(executor_.wait(worker_->tell(patient(), {.number = 0, .changes = {change}})));
  EXPECT_EQ(told_.changes, std::vector{change});
  EXPECT_FALSE(executor_.wait(reader_of("/")->tell(patient(), {.number = 0, .changes = {change}})))
      << "who is no worker tells of no changes";
}

TEST_F(PeerDoorTest, WhatChangesSomethingIsTakenByTheProcessThatItWasSignedForAndAgainByNone) {
  const PeerChange change{.mount = "/train", .key = "a", .kind = PeerChange::Kind::kObject};
  auto told = executor_.wait(worker_->tell(patient(), {.number = 0, .changes = {change}}));
  EXPECT_TRUE(told) << told.error().to_string();
  EXPECT_EQ(status_of(signed_change("")), 401) << "it names no process";
  const HttpRequest kept = signed_change("first process");
  EXPECT_EQ(status_of(kept), 204);
  restart();
  EXPECT_EQ(status_of(kept), 401);
  // The client still knows the process from before, and signs anew.
  told = executor_.wait(worker_->tell(patient(), {.number = 0, .changes = {change}}));
  EXPECT_TRUE(told) << told.error().to_string();
}

TEST_F(PeerDoorTest, WhoHasSeenALaterViewIsToldOfOursWhereThatIsWhatTheRegistryHolds) {
  auto view = executor_.wait(worker_->view(patient(), view_.revision + 10));
  ASSERT_TRUE(view && *view);
  EXPECT_EQ((*view)->revision, view_.revision);
  follows_ = false;
  view = executor_.wait(worker_->view(patient(), view_.revision + 10));
  ASSERT_TRUE(view);
  EXPECT_EQ(*view, nullptr) << "it may be behind";
  follows_ = true;
  view = executor_.wait(worker_->view(patient(), view_.revision));
  ASSERT_TRUE(view);
  EXPECT_EQ(*view, nullptr);
}

TEST_F(PeerDoorTest, AWorkerThatIsGoneIsNotReached) {
  source_->put("train/a", "aaaa");
  std::string text;
  const PeerRead request = read_of("train/a", {0, 4});
  EXPECT_TRUE(worker_->usable());
  PeerClientOptions options{.address = "127.0.0.1:1", .worker = kSelf};
  auto token = issue(secrets()->signing(), TokenClaims::of_worker(kOther));
  auto gone = PeerClient::make(options, std::make_shared<RequestSigner>(*token), executor_).value();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(read(*gone, request, &text).reach, PeerReach::kNotReached);
  }
  EXPECT_FALSE(gone->usable());
}

TEST_F(PeerDoorTest, JobsBringFilesIntoTheCacheAndGiveThemUp) {
  const std::string content(300'000, 'x');
  source_->put("train/a", content);
  const PeerRead read = read_of("train/a", {0, content.size()});
  PeerUpkeep upkeep{.mount = "/train", .file = read.file, .range = read.range, .route = read.route};
  auto done = [&](UpkeepAction action) {
    upkeep.action = action;
    PeerReply<uint64_t> reply = executor_.wait(worker_->upkeep(patient(), upkeep));
    EXPECT_EQ(reply.reach, PeerReach::kAnswered);
    return reply.result.value();
  };
  EXPECT_EQ(done(UpkeepAction::kMissing), content.size());
  EXPECT_EQ(done(UpkeepAction::kEnsure), content.size());
  EXPECT_EQ(done(UpkeepAction::kEnsure), 0u);
  EXPECT_EQ(done(UpkeepAction::kMissing), 0u);
  EXPECT_EQ(done(UpkeepAction::kReadBack), 0u);
  EXPECT_EQ(source_->reads(), 1u);
  EXPECT_EQ(executor_.wait(worker_->drop(patient(), {read.file->id})).result.value(),
            content.size());
  EXPECT_EQ(done(UpkeepAction::kMissing), content.size());
}

TEST_F(PeerDoorTest, WhatAnotherWorkerHoldsIsNotBroughtHere) {
  source_->put("train/a", "0123456789");
  const PeerRead read = read_of("train/a", {0, 10});
  set_ring({kOther});
  PeerUpkeep upkeep{.mount = "/train", .file = read.file, .range = read.range, .route = read.route};
  EXPECT_EQ(executor_.wait(worker_->upkeep(patient(), upkeep)).reach, PeerReach::kMisdirected);
  EXPECT_EQ(source_->reads(), 0u);
}

TEST_F(PeerDoorTest, ClientsDoNotLookAfterCaches) {
  source_->put("train/a", "0123456789");
  const PeerRead read = read_of("train/a", {0, 10});
  const auto reader = reader_of("/");
  PeerUpkeep upkeep{.mount = "/train", .file = read.file, .range = read.range, .route = read.route};
  const auto code = [](const auto& reply) { return reply.result.error().code(); };
  EXPECT_EQ(code(executor_.wait(reader->upkeep(patient(), upkeep))), StatusCode::kPermissionDenied);
  EXPECT_EQ(code(executor_.wait(reader->drop(patient(), {}))), StatusCode::kPermissionDenied);
  EXPECT_EQ(code(executor_.wait(reader->verify(patient(), 1))), StatusCode::kPermissionDenied);
}

TEST_F(PeerDoorTest, AWorkerSaysHowItsLookAtTheCacheEnded) {
  auto verify = executor_.wait(worker_->verify(patient(), 1)).result.value();
  EXPECT_FALSE(verify.ended);
  verify = executor_.wait(worker_->verify(patient(), 1)).result.value();
  EXPECT_TRUE(verify.ended);
  EXPECT_EQ(verify.trouble, "there is no cache that could be verified");
}

// --- bytes that are on their way -----------------------------------------------------------------

// A read of 4 MiB that nobody has waited for yet.
struct StreamedAnswer : ArrivalListener {
  void arrived(uint64_t bytes) override {
    EXPECT_GE(bytes, told.load());
    told = bytes;
  }
  uint64_t bytes() const override { return told; }
  void wait_for(uint64_t bytes) const {
    while (told < bytes) std::this_thread::yield();
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

class PeerStreamingTest : public PeerDoorTest {
 protected:
  PeerStreamingTest() {
    for (size_t i = 0; i < content_.size(); ++i) content_[i] = static_cast<char>(i * 31 + i / 977);
    source_->put("train/a", content_);
    source_->give(0);
  }
  ~PeerStreamingTest() override { source_->give(UINT64_MAX); }

  std::shared_ptr<StreamedAnswer> spawn(Peer& peer, ByteRange range = {0, kStreamedFile},
                                        Context context = patient()) {
    auto answer = std::make_shared<StreamedAnswer>();
    answer->text.resize(range.size);
    executor_.spawn(run_streamed(&peer, std::move(context), read_of("train/a", range), answer));
    return answer;
  }

  std::string content_ = std::string(kStreamedFile, '\0');
};

TEST_F(PeerStreamingTest, TheFirstBytesAreSentBeforeTheStoreHasGivenTheLast) {
  for (Peer* peer : {static_cast<Peer*>(worker_.get()), static_cast<Peer*>(own_.get())}) {
    source_->put("train/a", content_);  // another version: nothing of it is here
    source_->give(0);
    const uint64_t reads = source_->reads();
    auto answer = spawn(*peer);
    source_->give(100'000);
    answer->wait_for(kBlockBytes);
    EXPECT_EQ(answer->text.substr(0, kBlockBytes), content_.substr(0, kBlockBytes));
    source_->give(2 * kMiB);
    answer->wait_for(kMiB);
    EXPECT_FALSE(answer->ended.try_wait());
    source_->give(UINT64_MAX);
    answer->ended.wait();
    ASSERT_TRUE(answer->reply.result) << answer->reply.result.error().to_string();
    EXPECT_TRUE(answer->text == content_);
    EXPECT_EQ(source_->reads() - reads, 1u);
  }
}

TEST_F(PeerStreamingTest, AStoreThatFailsInMidAnswerIsNoAnswer) {
  auto answer = spawn(*worker_);
  source_->give(kMiB);
  answer->wait_for(kBlockBytes);
  source_->break_off(StatusCode::kUnavailable);
  answer->ended.wait();
  EXPECT_EQ(answer->reply.reach, PeerReach::kNotReached);
  ASSERT_FALSE(answer->reply.result);
  EXPECT_LE(answer->told, kMiB);
  EXPECT_EQ(answer->text.substr(0, answer->told), content_.substr(0, answer->told));
  // The connection is no trap for the next one.
  source_->give(UINT64_MAX);
  std::string text;
  EXPECT_TRUE(read(*worker_, read_of("train/a", {0, kStreamedFile}), &text).result);
  EXPECT_TRUE(text == content_);
}

TEST_F(PeerStreamingTest, WhatFailsBeforeItsFirstByteSaysWhy) {
  auto answer = spawn(*worker_);
  while (source_->offsets().empty()) std::this_thread::yield();
  source_->break_off(StatusCode::kThrottled);
  answer->ended.wait();
  EXPECT_EQ(answer->reply.reach, PeerReach::kAnswered);
  EXPECT_EQ(answer->reply.result.error().code(), StatusCode::kThrottled);
  EXPECT_EQ(answer->told, 0u);
}

TEST_F(PeerStreamingTest, AReaderThatGoesAwayHoldsUpNobody) {
  std::stop_source gone;
  auto leaves = spawn(*worker_, {0, kStreamedFile}, patient().with_cancel(gone.get_token()));
  auto stays = spawn(*worker_);
  source_->give(kMiB);
  leaves->wait_for(kBlockBytes);
  gone.request_stop();
  leaves->ended.wait();
  EXPECT_FALSE(leaves->reply.result);
  source_->give(UINT64_MAX);
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
  for (uint64_t given = 0; given < kStreamedFile; given += 300'000) source_->give(given);
  answers.front()->wait_for(kBlockBytes);
  source_->give(UINT64_MAX);
  for (uint64_t i = 0; i < answers.size(); ++i) {
    answers[i]->ended.wait();
    ASSERT_TRUE(answers[i]->reply.result) << answers[i]->reply.result.error().to_string();
    EXPECT_TRUE(answers[i]->text == content_.substr(i * 10'000)) << i;
  }
  EXPECT_EQ(source_->reads(), 1u);
}

// A door that stops does not wait for a store.
TEST_F(PeerStreamingTest, AServerThatStopsBreaksOffWhatIsOnItsWay) {
  auto answer = spawn(*worker_);
  source_->give(kMiB);
  answer->wait_for(kBlockBytes);
  executor_.wait(server_->stop());
  answer->ended.wait();
  EXPECT_EQ(answer->reply.reach, PeerReach::kNotReached);
}

}  // namespace
}  // namespace leat
