// SPDX-License-Identifier: Apache-2.0
// PeerServerTestBase: a worker's server over real sockets with a PeerClient, and a second, fake
// worker.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "fetch/memory_page_store_test.h"
#include "frontends/peer/peer_server.h"
#include "http/server/server.h"
#include "peer/client/peer_client.h"
#include "peer/fake_cluster_test.h"
#include "peer/replication/replica_source.h"
#include "source/piecewise_source_test.h"
#include "wire/batch.h"
#include "worker/writing/worker_write_service.h"

namespace leat::testing {

inline const WorkerId kSelf = worker_id(0);
inline const WorkerId kOther = worker_id(1);

class PeerServerTestBase : public ::testing::Test {
 protected:
  PeerServerTestBase() {
    policy_ = std::make_shared<const Policy>();
    catalog_ = Catalog::create({}, sources_, executor_);
    fetcher_ = Fetcher::create({}, &store_, sources_, executor_);
    replica_sources_.add(make_replica_source(kSelf, source_->id(), views_, peers_));
    replicas_ = Fetcher::create({}, &store_, replica_sources_, executor_);
    mount("/train", "train/");
    job_cache_ = std::make_unique<LocalJobCache>(*fetcher_, store_, nullptr, executor_);
    verify_sessions_ = std::make_unique<VerifySessions>(*job_cache_, executor_);
    writes_ = std::make_unique<WorkerWriteService>(
        WorkerWriteServiceDeps{
            .self = kSelf,
            .views = views_,
            .catalog = *catalog_,
            .on_change = [this](const std::string& mount,
                                const std::string& key) { changed_.push_back(mount + ":" + key); }},
        executor_);
    service_ = std::make_shared<WorkerService>(WorkerServiceDeps{
        .self = kSelf,
        .views = views_,
        .catalog = *catalog_,
        .fetcher = *fetcher_,
        .replicas = replicas_.get(),
        .store = &store_,
        .job_cache = job_cache_.get(),
        .verify_sessions = verify_sessions_.get(),
        .writes = writes_.get(),
        .policy_of =
            [this](const std::string& at) { return at == "/unserved" ? nullptr : policy_; },
        .on_version_gone =
            [this](const std::string& mount, const FileRefPtr& file) {
              gone_.push_back(mount + ":" + file->key);
            },
        // A clock that stands still, so that no stripe cools down while readers are slow.
        .heat = {.hot_stripe_bandwidth = 16 * kMiB, .now = [now = Clock::now()] { return now; }},
        .epochs = {.wait_max = std::chrono::minutes(1),
                   .cache_op_wait_max = std::chrono::minutes(1)}});
    serve({{}, "127.0.0.1", 0}, "first process");
    set_ring({kSelf});
    worker_ = client(TokenClaims::of_worker(kOther));
  }
  ~PeerServerTestBase() override {
    executor_.block_on(server_->stop());
    executor_.block_on(writes_->stop());
    executor_.block_on(verify_sessions_->stop());
    executor_.block_on(catalog_->stop());
    executor_.block_on(replicas_->stop());
    executor_.block_on(fetcher_->stop());
  }

  void serve(const HttpEndpoint& endpoint, const std::string& instance) {
    verifier_ = std::make_unique<RequestVerifier>(
        secrets(), RequestVerifierOptions{.self = kSelf, .instance = instance});
    peer_server_ = std::make_unique<PeerServer>(PeerServerDeps{
        .service = *service_,
        .views = views_,
        .changes = changes_,
        .verifier = *verifier_,
        .view_is_current = [this] { return view_is_current_.load(); },
        .poll_timeout = poll_time_,
        .on_invalidations =
            [this](Invalidations invalidations) { received_ = std::move(invalidations); },
        .response_memory = response_memory_});
    server_ = HttpServer::start(endpoint, peer_server_->router(),
                                {.body_bytes_max = kBatchRequestBytesMax}, executor_)
                  .value();
  }
  void restart() {
    const HttpEndpoint endpoint = server_->endpoint();
    executor_.block_on(server_->stop());
    server_.reset();
    serve(endpoint, "second process");
  }
  // A change request as another worker sends it.
  HttpRequest signed_change(const std::string& instance) {
    HttpRequest request{.method = "POST", .path = "/peer/v1/changes"};
    request.body = encode_invalidations({.number = 0, .items = {}});
    request.headers.set(kToField, kSelf.to_hex());
    if (!instance.empty()) request.headers.set(kInstanceField, instance);
    RequestSigner signer(*issue(secrets()->signing(), TokenClaims::of_worker(kOther)));
    request.target = request.path;
    signer.sign(request);
    return request;
  }
  static HttpRequest signed_batch(const std::vector<PeerReadRequest>& records,
                                  PeerRequestHeader terms, const TokenClaims& claims) {
    HttpRequest request{.method = "POST", .path = kBatchPath, .body = encode_batch(records)};
    request.headers.set(kToField, kSelf.to_hex());
    terms.epoch = 7;
    put_request_header(terms, request);
    request.target = make_target(request.path, request.query);
    RequestSigner(*issue(secrets()->signing(), claims)).sign(request);
    return request;
  }
  int status_of(HttpRequest request) {
    auto response = executor_.block_on(HttpClient(server_->endpoint()).request(patient(), request));
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
    views_.set(view_);
  }
  static SecretSetPtr secrets() {
    static const auto set =
        std::make_shared<const SecretSet>(SecretSet::parse(make_secret(), "test").value());
    return set;
  }
  // Timeouts long enough that a slow worker never counts as dead.
  PeerClientOptions client_options(WorkerId to = kSelf) const {
    return {.address = server_->endpoint().to_string(),
            .worker = to,
            .connect_timeout = std::chrono::minutes(1),
            .ping_timeout = std::chrono::minutes(1)};
  }
  std::shared_ptr<PeerClient> client(const TokenClaims& claims, WorkerId to = kSelf) {
    auto token = issue(secrets()->signing(), claims);
    auto signer = std::make_shared<RequestSigner>(*token);
    return PeerClient::make(client_options(to), std::move(signer), executor_).value();
  }
  std::shared_ptr<PeerClient> reader_of(const std::string& path) {
    TokenClaims claims;
    claims.principal = "reader";
    claims.rights.add(path, {Right::kRead});
    return client(claims);
  }

  PeerRead read_of(const std::string& key, ByteRange range, const std::string& mount = "/train") {
    auto object = executor_.block_on(source_->stat(Context::background(), {key}));
    PeerRead read{.mount = mount, .range = range};
    read.file = std::make_shared<const FileRef>(
        FileRef::make(source_->id(), key, object->version, object->size));
    read.route.epoch = 7;
    return read;
  }
  // Reads into `text`; returns the worker's reply.
  PeerReply<void> read(PeerClient& peer, PeerRead request, std::string* text) {
    text->resize(request.range.size);
    return executor_.block_on(
        peer.read(patient(), std::move(request), std::as_writable_bytes(std::span(*text))));
  }
  static Context patient() { return Context::background().with_timeout(std::chrono::seconds(20)); }
  PeerList list_of(const std::string& prefix, const std::string& token = "") {
    return {.mount = "/train",
            .store = source_->id(),
            .prefix = prefix,
            .token = token,
            .age_max = std::chrono::hours(1),
            .route = {.epoch = 7}};
  }

  Executor executor_{{.threads = 4}};
  std::shared_ptr<PiecewiseSource> source_ = std::make_shared<PiecewiseSource>();
  MemoryPageStore store_;
  SourceTable sources_;
  FakeViewSource views_;
  ClusterView view_;
  std::shared_ptr<const Policy> policy_;
  InvalidationLog changes_{{.mounts = [] { return std::vector<std::string>{"/train"}; }}};
  Invalidations received_;
  std::vector<std::string> gone_;     // versions that reads found missing
  std::vector<std::string> changed_;  // by clients
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<Fetcher> fetcher_;
  // The other worker's store.
  std::shared_ptr<MemorySource> others_ = std::make_shared<MemorySource>();
  std::shared_ptr<FakePeer> other_ = std::make_shared<FakePeer>(kOther, others_, views_);
  PeerTable peers_{[this](const WorkerInfo& info) {
    return info.id == kSelf ? PeerPtr(service_) : PeerPtr(other_);
  }};
  SourceTable replica_sources_;
  std::unique_ptr<Fetcher> replicas_;
  std::unique_ptr<LocalJobCache> job_cache_;
  std::unique_ptr<VerifySessions> verify_sessions_;
  std::unique_ptr<WorkerWriteService> writes_;
  std::shared_ptr<WorkerService> service_;
  std::atomic<bool> view_is_current_ = true;
  Clock::duration poll_time_ = std::chrono::hours(1);  // of servers created later
  ResponseMemoryLimiterOptions response_memory_{};
  std::unique_ptr<RequestVerifier> verifier_;
  std::unique_ptr<PeerServer> peer_server_;
  std::unique_ptr<HttpServer> server_;
  std::shared_ptr<PeerClient> worker_;
};

}  // namespace leat::testing
