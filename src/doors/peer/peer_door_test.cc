// SPDX-License-Identifier: Apache-2.0
// A worker's door over real sockets, asked by PeerClient: what is answered to whom, and who answers
// nothing.
#include "doors/peer/peer_door.h"

#include <gtest/gtest.h>

#include "fetch/memory_page_store_test.h"
#include "http/server.h"
#include "peer/made_cluster_test.h"
#include "peer/peer_client.h"

namespace leat {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::MadeMap;
using testing::MemoryPageStore;
using testing::MemorySource;
using testing::worker_id;

const WorkerId kSelf = worker_id(0);
const WorkerId kOther = worker_id(1);

class PeerDoorTest : public ::testing::Test {
 protected:
  PeerDoorTest() {
    policy_ = std::make_shared<const Policy>();
    catalog_ = Catalog::create({}, sources_, executor_);
    fetcher_ = Fetcher::create({}, &store_, sources_, executor_);
    mount("/train", "train/");
    target_ = std::make_unique<HostTarget>(*fetcher_, store_, nullptr, executor_);
    verify_runs_ = std::make_unique<VerifyRuns>(*target_, executor_);
    own_ = std::make_unique<OwnPeer>(OwnPeerParts{.self = kSelf,
                                                  .map = map_,
                                                  .catalog = *catalog_,
                                                  .fetcher = *fetcher_,
                                                  .store = &store_,
                                                  .target = target_.get(),
                                                  .verify_runs = verify_runs_.get(),
                                                  .copy_runs = nullptr,
                                                  .policy_of = [this](const std::string& at) {
                                                    return at == "/unserved" ? nullptr : policy_;
                                                  }});
    serve({{}, "127.0.0.1", 0}, "first process");
    set_ring({kSelf});
    worker_ = client(TokenClaims::of_worker(kOther));
  }
  ~PeerDoorTest() override {
    executor_.wait(server_->stop());
    executor_.wait(verify_runs_->stop());
    executor_.wait(catalog_->stop());
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
                      .told = [this](PeerChanges news) { told_ = std::move(news); }});
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
  std::shared_ptr<MemorySource> source_ = std::make_shared<MemorySource>();
  MemoryPageStore store_;
  SourceTable sources_;
  MadeMap map_;
  ClusterView view_;
  std::shared_ptr<const Policy> policy_;
  ChangeLog changes_{{.mounts = [] { return std::vector<std::string>{"/train"}; }}};
  PeerChanges told_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<Fetcher> fetcher_;
  std::unique_ptr<HostTarget> target_;
  std::unique_ptr<VerifyRuns> verify_runs_;
  std::unique_ptr<OwnPeer> own_;
  std::atomic<bool> follows_ = true;
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

}  // namespace
}  // namespace leat
