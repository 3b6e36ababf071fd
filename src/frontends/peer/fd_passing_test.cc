// SPDX-License-Identifier: Apache-2.0
// Which readers get cached files by fd passing, over a real page store.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "frontends/peer/peer_server.h"
#include "peer/fake_cluster_test.h"
#include "wire/read_request.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using testing::FakeViewSource;
using testing::MemorySource;
using testing::worker_id;

const WorkerId kSelf = worker_id(0);

template <class Condition>
void wait_until(Condition condition) {
  while (!condition()) std::this_thread::yield();
}

class FdPassingTest : public ::testing::Test {
 protected:
  FdPassingTest() {
    PageStoreOptions options{.directory = folder_, .capacity_bytes = 64 * kMiB};
    options.free_bytes_min = 1;
    options.packed_bytes_max = 64 * kKiB;
    options.segment_bytes = 1 * kMiB;
    store_ = executor_
                 .block_on(PageStore::open(Context::background(), std::move(options), executor_,
                                           make_disk(executor_)))
                 .value();
    catalog_ = Catalog::create({}, sources_, executor_);
    fetcher_ = Fetcher::create({}, store_.get(), sources_, executor_);
    view_.mounts["/train"] = {.path = "/train",
                              .source = "memory://bucket/train/",
                              .options = {},
                              .store = source_->id(),
                              .prefix = "train/"};
    view_.revision = 1;
    views_.set(view_);
    sources_.add(source_);
    service_ = std::make_unique<WorkerService>(
        WorkerServiceDeps{.self = kSelf,
                          .views = views_,
                          .catalog = *catalog_,
                          .fetcher = *fetcher_,
                          .store = store_.get(),
                          .job_cache = nullptr,
                          .verify_sessions = nullptr,
                          .policy_of = [this](const std::string&) { return policy_; }});
    peer_server_ =
        std::make_unique<PeerServer>(PeerServerDeps{.service = *service_,
                                                    .views = views_,
                                                    .changes = changes_,
                                                    .verifier = verifier_,
                                                    .view_is_current = [] { return true; },
                                                    .on_invalidations = {}});
  }
  ~FdPassingTest() override {
    executor_.block_on(fetcher_->stop());
    executor_.block_on(catalog_->stop());
    executor_.block_on(store_->close());
    fs::remove_all(folder_);
  }

  // Puts an object into the store and completely into the cache, by the mount's policy.
  FileRef cached(const std::string& key, uint64_t size) {
    const Version version = source_->put(key, std::string(size, 'x'));
    auto ref = std::make_shared<const FileRef>(FileRef::make(source_->id(), key, version, size));
    EXPECT_TRUE(executor_.block_on(fetcher_->ensure(Context::background(), ref, {0, size})));
    EXPECT_TRUE(executor_.block_on(store_->flush(Context::background())));
    return *ref;
  }
  HttpRequest request_of(const FileRef& file, const std::string& mount = "/train",
                         const std::string& rights = "/", WorkerId to = kSelf) {
    HttpRequest request = to_fd_request({.mount = mount, .file = file, .range = {}});
    request.headers.set(kToField, to.to_hex());
    request.target = make_target(request.path, request.query);
    TokenClaims claims;
    claims.principal = "reader";
    claims.rights.add(rights, {Right::kRead});
    RequestSigner(*issue(secret_, claims)).sign(request);
    return request;
  }
  Result<PassedFd> ask(HttpRequest request) {
    return executor_.block_on(peer_server_->descriptor(Context::background(), std::move(request)));
  }
  StatusCode refusal(HttpRequest request) {
    Result<PassedFd> file = ask(std::move(request));
    EXPECT_FALSE(file);
    return file ? StatusCode::kInternal : file.error().code();
  }

  const std::string folder_ = fs::temp_directory_path() / ("leat-door-" + Id128::random().to_hex());
  const Secret secret_{std::string(32, 's')};
  Executor executor_{{.threads = 2}};
  std::shared_ptr<MemorySource> source_ = std::make_shared<MemorySource>();
  std::unique_ptr<PageStore> store_;
  SourceTable sources_;
  FakeViewSource views_;
  ClusterView view_;
  std::shared_ptr<const Policy> policy_ = std::make_shared<const Policy>();
  InvalidationLog changes_{{.mounts = [] { return std::vector<std::string>{"/train"}; }}};
  RequestVerifier verifier_{std::make_shared<const SecretSet>(std::vector{secret_}),
                            {.self = kSelf}};
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<Fetcher> fetcher_;
  std::unique_ptr<WorkerService> service_;
  std::unique_ptr<PeerServer> peer_server_;
};

TEST_F(FdPassingTest, ACompleteFileIsGivenToWhoMayReadItsMount) {
  const FileRef file = cached("train/a", 300'000);
  wait_until([&] { return store_->backing(file) != nullptr; });
  Result<PassedFd> given = ask(request_of(file));
  ASSERT_TRUE(given) << given.error().to_string();
  char into[4];
  ASSERT_EQ(pread(given->fd, into, sizeof into, 299'996), 4);
  EXPECT_EQ(std::string(into, 4), "xxxx");
  // The worker's own process needs no signature.
  auto own = executor_.block_on(
      service_->open(Context::background(), {.mount = "/train", .file = file, .range = {}}));
  ASSERT_TRUE(own) << own.error().to_string();
  EXPECT_EQ((*own)->size(), 300'000u);
}

TEST_F(FdPassingTest, WhoMayNotReadItGetsNothing) {
  const FileRef file = cached("train/a", 300'000);
  wait_until([&] { return store_->backing(file) != nullptr; });
  EXPECT_EQ(refusal(request_of(file, "/train", "/other")), StatusCode::kPermissionDenied);
  EXPECT_EQ(refusal(request_of(file, "/train", "/", worker_id(1))), StatusCode::kPermissionDenied);
  HttpRequest unsigned_one = to_fd_request({.mount = "/train", .file = file, .range = {}});
  EXPECT_EQ(refusal(unsigned_one), StatusCode::kPermissionDenied);
  HttpRequest twice = request_of(file);
  EXPECT_TRUE(ask(twice));
  EXPECT_EQ(refusal(twice), StatusCode::kPermissionDenied) << "each signature once";
  HttpRequest changed = request_of(file);
  changed.query["key"] = "train/b";
  changed.target = make_target(changed.path, changed.query);
  EXPECT_EQ(refusal(changed), StatusCode::kPermissionDenied);
}

TEST_F(FdPassingTest, FileOutsideTheMountIsNotPassed) {
  const FileRef outside = cached("other/a", 300'000);
  wait_until([&] { return store_->backing(outside) != nullptr; });
  EXPECT_EQ(refusal(request_of(outside)), StatusCode::kPermissionDenied);
  EXPECT_EQ(refusal(request_of(outside, "/unknown")), StatusCode::kBusy);
}

TEST_F(FdPassingTest, PartialPackedOrOtherVersionIsNotPassed) {
  const FileRef file = cached("train/a", 300'000);
  wait_until([&] { return store_->backing(file) != nullptr; });
  const FileRef other = FileRef::make(file.store, file.key, Version::etag("another"), file.size);
  EXPECT_EQ(refusal(request_of(other)), StatusCode::kNotFound);
  const FileRef unknown = FileRef::make(file.store, file.key, Version(), file.size);
  EXPECT_EQ(refusal(request_of(unknown)), StatusCode::kNotFound);
  const FileRef larger = FileRef::make(file.store, file.key, file.version, file.size + 1);
  EXPECT_EQ(refusal(request_of(larger)), StatusCode::kNotFound);
  EXPECT_EQ(refusal(request_of(cached("train/small", 1000))), StatusCode::kNotFound);
  const Version version = source_->put("train/part", std::string(400'000, 'y'));
  auto part =
      std::make_shared<const FileRef>(FileRef::make(source_->id(), "train/part", version, 400'000));
  ASSERT_TRUE(executor_.block_on(fetcher_->ensure(Context::background(), part, {0, 100})));
  ASSERT_TRUE(executor_.block_on(store_->flush(Context::background())));
  EXPECT_EQ(refusal(request_of(*part)), StatusCode::kNotFound);
}

TEST_F(FdPassingTest, PassedFileStaysCountedAfterDrop) {
  const FileRef file = cached("train/a", 300'000);
  wait_until([&] { return store_->backing(file) != nullptr; });
  Result<PassedFd> given = ask(request_of(file));
  ASSERT_TRUE(given);
  EXPECT_GT(store_->drop(file.id), 0u);
  wait_until([&] { return store_->stats().unlinked_bytes >= 300'000; });
  char into[4];
  EXPECT_EQ(pread(given->fd, into, sizeof into, 299'996), 4);
  EXPECT_EQ(refusal(request_of(file)), StatusCode::kNotFound);
  given->owner.reset();
  wait_until([&] { return store_->stats().unlinked_bytes == 0; });
}

}  // namespace
}  // namespace leat
