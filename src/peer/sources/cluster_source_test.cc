// SPDX-License-Identifier: Apache-2.0
// A cluster's namespace through its source: names, the workers that serve names and bytes, and
// failover.
#include "peer/sources/cluster_source.h"

#include <gtest/gtest.h>

#include <numeric>

#include "peer/fake_cluster_test.h"
#include "peer/sources/previous_owner_source.h"
#include "runtime/executor.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::FakeCluster;
using testing::worker_id;

class ClusterSourceTest : public ::testing::Test {
 protected:
  ClusterSourceTest() : cluster_(5) {
    cluster_.store().put("train/a.txt", "aaaa");
    cluster_.store().put("train/b/c.txt", "cc");
    cluster_.store().put("other/z.txt", "zzz");
    cluster_.mount("/data/train", "train/");
    ClusterSourceOptions options{.cluster = "made", .name = "leat://made"};
    options.router = {.epoch_timeout = seconds(30), .backoff_min = milliseconds(1)};
    source_ = make_cluster_source(options, cluster_.views(), cluster_.table());
  }

  std::vector<std::string> list(const std::string& prefix) {
    std::vector<std::string> keys;
    std::string token;
    do {
      auto page = executor_.block_on(
          source_->list(Context::background(), {.prefix = prefix, .token = token}));
      EXPECT_TRUE(page) << page.error().to_string();
      if (!page) return keys;
      for (const SourceObject& object : page->objects) keys.push_back(object.key);
      token = page->next_token;
    } while (!token.empty());
    return keys;
  }
  Result<SourceObject> stat(const std::string& key) {
    return executor_.block_on(source_->stat(Context::background(), {.key = key}));
  }
  Result<std::string> read(const std::string& key, ByteRange range = {}) {
    auto object = stat(key);
    if (!object) return error(object.error());
    if (range.empty()) range = {0, object->size};
    ReadRequest request{key, range, object->version};
    request.object_size = object->size;
    std::string text(range.size, '\0');
    auto got = executor_.block_on(source_->read(Context::background().with_timeout(patience_),
                                                request, std::as_writable_bytes(std::span(text))));
    if (!got) return error(got.error());
    return text;
  }
  PlacementKey stripe(const std::string& store_key, uint32_t number = 0) {
    return PlacementKey::stripe(cluster_.store().id(), store_key, number);
  }

  Clock::duration patience_ = seconds(30);
  Executor executor_;
  FakeCluster cluster_;
  SourcePtr source_;
};

using Keys = std::vector<std::string>;

TEST_F(ClusterSourceTest, NamesAreBoundedByTheMountsOwnAges) {
  EXPECT_EQ(source_->ttl_max("").present, Clock::duration::max()) << "above all mounts";
  EXPECT_EQ(source_->ttl_max("data/train/").present, seconds(60)) << "the default";
  EXPECT_EQ(source_->ttl_max("data/train/").missing, milliseconds(2500));
  const auto change = [&](const char* freshness, const char* negative_ttl) {
    cluster_.change([&](ClusterView& view) {
      view.mounts.at("/data/train").options = {{"freshness", freshness},
                                               {"negative_ttl", negative_ttl}};
    });
  };
  change("max-age=4s", "2s");
  EXPECT_EQ(source_->ttl_max("data/train/b/").present, seconds(4));
  EXPECT_EQ(source_->ttl_max("data/train/b/").missing, seconds(1));
  change("max-age=1s", "10s");
  EXPECT_EQ(source_->ttl_max("data/train/").missing, milliseconds(500));
  change("immutable", "2s");
  EXPECT_EQ(source_->ttl_max("data/train/").present, Clock::duration::max());
}

TEST_F(ClusterSourceTest, ShowsWhatIsMountedAndWhatLeadsThere) {
  EXPECT_EQ(list(""), Keys{"data/"});
  EXPECT_EQ(list("data/"), Keys{"data/train/"});
  EXPECT_EQ(list("data/train/"), (Keys{"data/train/a.txt", "data/train/b/"}));
  EXPECT_EQ(list("data/train/b/"), Keys{"data/train/b/c.txt"});
  EXPECT_EQ(stat("data/")->kind, FileKind::kDirectory);
  EXPECT_EQ(stat("data/train/")->kind, FileKind::kDirectory);
  EXPECT_EQ(stat("data").error().code(), StatusCode::kNotFound);
  EXPECT_EQ(stat("data/train").error().code(), StatusCode::kNotFound);
  EXPECT_EQ(stat("elsewhere/x").error().code(), StatusCode::kNotFound);
  EXPECT_EQ(stat("data/train/none").error().code(), StatusCode::kNotFound);
  EXPECT_EQ(read("data/train/a.txt").value(), "aaaa");
  EXPECT_EQ(read("data/train/b/c.txt", {1, 1}).value(), "c");
}

TEST_F(ClusterSourceTest, UnknownNamespaceIsAwaitedAndNotEmpty) {
  testing::FakeViewSource views;
  ClusterSourceOptions options{.cluster = "made"};
  options.router.timeout = milliseconds(5);
  options.trouble = [] { return Status(StatusCode::kUnavailable, "nobody listens"); };
  const SourcePtr early = make_cluster_source(options, views, cluster_.table());
  auto page = executor_.block_on(early->list(Context::background(), {}));
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(page.error().to_string().contains("nobody listens")) << page.error().to_string();
  EXPECT_EQ(executor_.block_on(early->stat(Context::background(), {.key = "data/"})).error().code(),
            StatusCode::kUnavailable);

  options.router.timeout = seconds(30);
  const SourcePtr patient = make_cluster_source(options, views, cluster_.table());
  auto waiting = boost::asio::co_spawn(executor_.any(), patient->list(Context::background(), {}),
                                       boost::asio::use_future);
  views.set(*cluster_.views().view());
  page = waiting.get();
  ASSERT_TRUE(page) << page.error().to_string();
  EXPECT_EQ(page->objects.at(0).key, "data/");
}

TEST_F(ClusterSourceTest, MountsComeAndGo) {
  cluster_.mount("/more", "other/");
  EXPECT_EQ(list(""), (Keys{"data/", "more/"}));
  EXPECT_EQ(read("more/z.txt").value(), "zzz");
  cluster_.change([](ClusterView& view) { view.mounts.erase("/data/train"); });
  EXPECT_EQ(list(""), Keys{"more/"});
  EXPECT_EQ(stat("data/train/a.txt").error().code(), StatusCode::kNotFound);
}

TEST_F(ClusterSourceTest, WhatIsMountedInsideHidesWhatIsThere) {
  cluster_.mount("/data/train/b", "other/");
  cluster_.mount("/data/train/deep/er", "other/");
  EXPECT_EQ(list("data/train/"), (Keys{"data/train/a.txt", "data/train/b/", "data/train/deep/"}));
  EXPECT_EQ(list("data/train/b/"), Keys{"data/train/b/z.txt"});
  EXPECT_EQ(list("data/train/deep/"), Keys{"data/train/deep/er/"});
}

TEST_F(ClusterSourceTest, AMountAtTheRootIsAll) {
  cluster_.change([](ClusterView& view) { view.mounts.clear(); });
  cluster_.mount("/", "");
  EXPECT_EQ(list(""), (Keys{"other/", "train/"}));
  EXPECT_EQ(read("other/z.txt").value(), "zzz");
}

TEST_F(ClusterSourceTest, OnlyTheOwnerIsRequested) {
  ASSERT_TRUE(read("data/train/a.txt"));
  const int before = cluster_.requests();
  auto& owner = cluster_.owner_of(stripe("train/a.txt"));
  const int served = owner.served;
  ASSERT_TRUE(read("data/train/a.txt"));
  EXPECT_EQ(owner.served, served + (cluster_.requests() - before == 2 ? 1 : 2));
  EXPECT_EQ(owner.failovers, 0);
}

TEST_F(ClusterSourceTest, NextCandidateIsTheFailover) {
  cluster_.owner_of(stripe("train/a.txt")).up = false;
  EXPECT_EQ(read("data/train/a.txt").value(), "aaaa");
  int stood_in = 0;
  for (size_t i = 0; i < 5; ++i) stood_in += cluster_.peer(worker_id(i)).failovers;
  EXPECT_GE(stood_in, 1);
}

// So a broken connection does not make a second worker read the store.
TEST_F(ClusterSourceTest, OwnerIsRetriedWhileItsCircuitIsClosed) {
  auto object = stat("data/train/a.txt");
  auto& owner = cluster_.owner_of(stripe("train/a.txt"));
  const auto stood_in = [this] {
    int all = 0;
    for (size_t i = 0; i < 5; ++i) all += cluster_.peer(worker_id(i)).failovers;
    return all;
  };
  ReadRequest request{"data/train/a.txt", {0, 4}, object->version};
  request.object_size = 4;
  std::string text(4, '\0');
  const auto read_it = [&] {
    return executor_.block_on(source_->read(Context::background().with_timeout(patience_), request,
                                            std::as_writable_bytes(std::span(text))));
  };
  owner.unanswered = 2;
  EXPECT_TRUE(read_it());
  EXPECT_EQ(text, "aaaa");
  EXPECT_EQ(stood_in(), 0);
  owner.unanswered = 3;
  EXPECT_TRUE(read_it());
  EXPECT_EQ(stood_in(), 1) << "for one that did not answer three times";
}

TEST_F(ClusterSourceTest, ReadAcrossStripesUsesBothOwners) {
  constexpr uint64_t kSize = 2 * kStripeBytes + 100;
  std::string content(kSize, '.');
  content.replace(kStripeBytes - 4, 8, "12345678");
  // A file with different owners of its first two stripes.
  std::string name = "train/large";
  while (cluster_.views().view()->ring.owner(stripe(name, 0)) ==
         cluster_.views().view()->ring.owner(stripe(name, 1))) {
    name += 'x';
  }
  cluster_.store().put(name, content);
  auto& first = cluster_.owner_of(stripe(name, 0));
  auto& second = cluster_.owner_of(stripe(name, 1));
  ASSERT_TRUE(stat("data/" + name));
  const int before = cluster_.requests(), of_first = first.served, of_second = second.served;
  EXPECT_EQ(read("data/" + name, {kStripeBytes - 4, 8}).value(), "12345678");
  EXPECT_EQ(cluster_.requests() - before, 3) << "one for the name, and one for each stripe";
  EXPECT_GE(first.served, of_first + 1);
  EXPECT_GE(second.served, of_second + 1);
  // If one owner is dead, only its part fails over.
  second.up = false;
  EXPECT_EQ(read("data/" + name, {kStripeBytes - 4, 8}).value(), "12345678");
  EXPECT_GE(first.served, of_first + 2);
  EXPECT_EQ(first.failovers + second.failovers, 0);
}

TEST_F(ClusterSourceTest, OpenCircuitIsSkipped) {
  auto& owner = cluster_.owner_of(stripe("train/a.txt"));
  owner.circuit_closed = false;
  const int before = owner.requests;
  EXPECT_EQ(read("data/train/a.txt").value(), "aaaa");
  EXPECT_EQ(owner.requests, before);
}

TEST_F(ClusterSourceTest, WorkerWithoutLeaseIsLastResort) {
  const WorkerId owner = cluster_.views().view()->ring.owner(stripe("train/a.txt"));
  cluster_.change([&](ClusterView& view) { view.workers.erase(owner); });
  const int before = cluster_.peer(owner).requests;
  EXPECT_EQ(read("data/train/a.txt").value(), "aaaa");
  EXPECT_EQ(cluster_.peer(owner).requests, before);
  // All leases are gone, so the registry must have lost them.
  cluster_.change([](ClusterView& view) { view.workers.clear(); });
  EXPECT_EQ(read("data/train/a.txt").value(), "aaaa");
  EXPECT_GT(cluster_.peer(owner).requests, before);
}

TEST_F(ClusterSourceTest, ANewerRingIsWaitedFor) {
  auto& owner = cluster_.owner_of(stripe("train/a.txt"));
  auto object = stat("data/train/a.txt");
  ASSERT_TRUE(object);
  owner.known_epoch = 7;
  ReadRequest request{"data/train/a.txt", {0, 4}, object->version};
  request.object_size = 4;
  std::string text(4, '\0');
  auto reading = boost::asio::co_spawn(
      executor_.any(),
      source_->read(Context::background(), request, std::as_writable_bytes(std::span(text))),
      boost::asio::use_future);
  while (owner.requests == 0) std::this_thread::yield();
  owner.known_epoch = 0;
  cluster_.set_ring(7);
  auto got = reading.get();
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(text, "aaaa");
}

TEST_F(ClusterSourceTest, WorkerWithOlderRingServesAsFailover) {
  cluster_.set_ring(9);
  auto& owner = cluster_.owner_of(stripe("train/a.txt"));
  owner.known_epoch = 3;
  EXPECT_EQ(read("data/train/a.txt").value(), "aaaa");
  EXPECT_GE(owner.failovers, 1);
}

struct Progress : ProgressListener {
  void on_bytes(uint64_t bytes) override {
    EXPECT_GE(bytes, reported);
    reported = bytes;
  }
  uint64_t bytes() const override { return reported; }
  uint64_t reported = 0;
};

TEST_F(ClusterSourceTest, BrokenReadIsCompletedByTheNext) {
  cluster_.store().put("train/d.txt", "0123456789");
  auto object = stat("data/train/d.txt");
  ASSERT_TRUE(object);
  cluster_.owner_of(stripe("train/d.txt")).breaks_after = 3;
  ReadRequest request{"data/train/d.txt", {1, 8}, object->version};
  request.object_size = 10;
  Progress progress;
  request.progress = ReadProgress(progress);
  std::string text(8, '\0');
  const uint64_t before = cluster_.store().read_bytes();
  auto got = executor_.block_on(
      source_->read(Context::background(), request, std::as_writable_bytes(std::span(text))));
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(text, "12345678");
  EXPECT_EQ(progress.reported, 3u);
  EXPECT_EQ(cluster_.store().read_bytes() - before, 8u) << "of each byte once";
  // Without a progress listener, another worker serves all bytes.
  request.progress = {};
  cluster_.owner_of(stripe("train/d.txt")).circuit_closed = true;
  got = executor_.block_on(
      source_->read(Context::background(), request, std::as_writable_bytes(std::span(text))));
  ASSERT_TRUE(got);
  EXPECT_EQ(text, "12345678");
  EXPECT_EQ(cluster_.store().read_bytes() - before, 8u + 3 + 8);
}

TEST_F(ClusterSourceTest, ErrorNamesTheWorkersTried) {
  auto object = stat("data/train/a.txt");
  for (size_t i = 0; i < 5; ++i) cluster_.peer(worker_id(i)).up = false;
  patience_ = milliseconds(50);
  ReadRequest request{"data/train/a.txt", {0, 4}, object->version};
  request.object_size = 4;
  std::string text(4, '\0');
  auto got = executor_.block_on(source_->read(Context::background().with_timeout(patience_),
                                              request, std::as_writable_bytes(std::span(text))));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), StatusCode::kTimedOut);
  EXPECT_NE(got.error().to_string().find("made not to answer"), std::string::npos);
}

// A request that waits for a worker also waits while the worker's store is unavailable.
TEST_F(ClusterSourceTest, AWorkersStoreThatIsAwayIsWaitedFor) {
  ClusterSourceOptions options{.cluster = "made"};
  options.router.io_timeout = seconds(60);
  options.router.timeout = milliseconds(5);
  const SourcePtr patient = make_cluster_source(options, cluster_.views(), cluster_.table());
  cluster_.store().fail_next(StatusCode::kUnavailable, 3);
  auto object =
      executor_.block_on(patient->stat(Context::background(), {.key = "data/train/a.txt"}));
  EXPECT_TRUE(object);

  cluster_.store().fail_next(StatusCode::kUnavailable, 1);
  object = executor_.block_on(
      patient->stat(Context::background().with_timeout(seconds(30)), {.key = "data/train/a.txt"}));
  EXPECT_EQ(object.error().code(), StatusCode::kUnavailable) << "not with a deadline";
  cluster_.store().fail_next(StatusCode::kPermissionDenied, 1);
  object = executor_.block_on(patient->stat(Context::background(), {.key = "data/train/a.txt"}));
  EXPECT_EQ(object.error().code(), StatusCode::kPermissionDenied) << "what is certain is final";
}

TEST_F(ClusterSourceTest, ARoundInVainIsFollowedByAnotherOne) {
  auto object = stat("data/train/a.txt");
  for (size_t i = 0; i < 5; ++i) cluster_.peer(worker_id(i)).up = false;
  ReadRequest request{"data/train/a.txt", {0, 4}, object->version};
  request.object_size = 4;
  std::string text(4, '\0');
  const int before = cluster_.requests();
  auto reading = boost::asio::co_spawn(
      executor_.any(),
      source_->read(Context::background(), request, std::as_writable_bytes(std::span(text))),
      boost::asio::use_future);
  while (cluster_.requests() - before < 8) std::this_thread::yield();
  for (size_t i = 0; i < 5; ++i) cluster_.peer(worker_id(i)).up = true;
  EXPECT_TRUE(reading.get());
}

TEST_F(ClusterSourceTest, AStoresFailureIsNotTheWorkers) {
  auto object = stat("data/train/a.txt");
  ASSERT_TRUE(object);
  const int before = cluster_.requests();
  cluster_.store().fail_next(StatusCode::kPermissionDenied, 1);
  ReadRequest request{"data/train/a.txt", {0, 4}, object->version};
  request.object_size = 4;
  std::string text(4, '\0');
  auto got = executor_.block_on(
      source_->read(Context::background(), request, std::as_writable_bytes(std::span(text))));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(cluster_.requests(), before + 1);
}

TEST_F(ClusterSourceTest, ReadNeedsTheObjectSize) {
  std::string text(4, '\0');
  auto got = executor_.block_on(source_->read(Context::background(),
                                              {"data/train/a.txt", {0, 4}, Version::etag("\"x\"")},
                                              std::as_writable_bytes(std::span(text))));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), StatusCode::kInvalidArgument);
}

// --- after a ring change
// --------------------------------------------------------------------------

// A file that is never read.
class MarkedFile : public SourceFile {
 public:
  explicit MarkedFile(uint64_t size) : size_(size) {}
  int fd() const override { return -1; }
  uint64_t size() const override { return size_; }
  bool immutable() const override { return true; }
  bool try_read(uint64_t, std::span<std::byte>) override { return false; }
  Task<Result<>> read(Context, uint64_t, std::span<std::byte>) override { co_return Result<>(); }

 private:
  const uint64_t size_;
};

class FakeFdProvider : public FdProvider {
 public:
  std::atomic<bool> willing = true, has_it = true;
  std::vector<PeerReadRequest> requests;

  bool usable() const override { return willing; }
  Task<Result<SourceFilePtr>> open(Context, PeerReadRequest request) override {
    requests.push_back(request);
    if (!has_it) co_return error(StatusCode::kNotFound, "not complete");
    co_return std::make_shared<MarkedFile>(request.file.size);
  }
};

class FdPassingTest : public ClusterSourceTest {
 protected:
  FdPassingTest() {
    ClusterSourceOptions options{
        .cluster = "made", .name = "leat://made", .fd_providers = &providers_};
    source_ = make_cluster_source(options, cluster_.views(), cluster_.table());
    update();
  }
  void update() { providers_.update(*cluster_.views().view()); }
  const WorkerId& owner() {
    return owner_ = cluster_.views().view()->ring.owner(stripe("train/a.txt"));
  }
  // Makes `worker` the only one on this host.
  FakeFdProvider& local(const WorkerId& worker) {
    local_ = worker;
    cluster_.change([](ClusterView&) {});
    providers_.update(ClusterView());
    update();
    return *provider_;
  }
  SourceFilePtr open(uint64_t size) {
    OpenRequest request{"data/train/a.txt", Version::etag("v"), size};
    return executor_.block_on(source_->open_file(Context::background(), request)).value();
  }
  bool has_local_file(uint64_t size) { return source_->has_local_file("data/train/a.txt", size); }

  WorkerId owner_, local_;
  std::shared_ptr<FakeFdProvider> provider_ = std::make_shared<FakeFdProvider>();
  FdProviders providers_{{.own = [this](const WorkerInfo& info) -> FdProviderPtr {
    return info.id == local_ ? provider_ : nullptr;
  }}};
};

TEST_F(FdPassingTest, LocalOwnerPassesTheFile) {
  FakeFdProvider& provider = local(owner());
  EXPECT_TRUE(has_local_file(2 * kMiB));
  ASSERT_NE(open(2 * kMiB), nullptr);
  ASSERT_EQ(provider.requests.size(), 1u);
  EXPECT_EQ(provider.requests[0].mount, "/data/train");
  EXPECT_EQ(provider.requests[0].file.id,
            FileRef::make(cluster_.store().id(), "train/a.txt", Version::etag("v"), 2 * kMiB).id);
  provider.has_it = false;
  EXPECT_EQ(open(2 * kMiB), nullptr);
  EXPECT_EQ(cluster_.requests(), 0) << "nobody was asked for bytes";
}

TEST_F(FdPassingTest, SmallAndRemoteFilesAreNotPassed) {
  const WorkerId first = owner();
  FakeFdProvider& provider = local(first);
  EXPECT_FALSE(has_local_file(1000));
  EXPECT_FALSE(source_->has_local_file("data", 2 * kMiB)) << "above all mounts";
  EXPECT_FALSE(source_->has_local_file("other/x", 2 * kMiB));
  for (size_t i = 0; i < 5; ++i) {
    if (worker_id(i) == first) continue;
    local(worker_id(i));
    EXPECT_FALSE(has_local_file(2 * kMiB)) << "it is not the owner";
    EXPECT_EQ(open(2 * kMiB), nullptr);
  }
  EXPECT_TRUE(provider.requests.empty());
}

TEST_F(FdPassingTest, FailoverWorkerPassesWhatItHas) {
  const auto candidates = cluster_.views().view()->ring.candidates(stripe("train/a.txt"), 2);
  local(candidates[1]);
  EXPECT_FALSE(has_local_file(2 * kMiB));
  cluster_.peer(candidates[0]).circuit_closed = false;
  EXPECT_TRUE(has_local_file(2 * kMiB)) << "the owner does not answer";
  cluster_.peer(candidates[0]).circuit_closed = true;
  cluster_.change([&](ClusterView& view) { view.workers.erase(candidates[0]); });
  EXPECT_TRUE(has_local_file(2 * kMiB)) << "the owner is gone";
}

TEST_F(FdPassingTest, WorkerInBackOffIsNotRequested) {
  FakeFdProvider& provider = local(owner());
  provider.willing = false;
  EXPECT_FALSE(has_local_file(2 * kMiB));
  EXPECT_EQ(open(2 * kMiB), nullptr);
  provider.willing = true;
  cluster_.peer(owner()).circuit_closed = false;
  EXPECT_FALSE(has_local_file(2 * kMiB));
  EXPECT_TRUE(provider.requests.empty());
}

TEST_F(FdPassingTest, StripedFileIsPassedIfItHasOneOwner) {
  local(owner());
  EXPECT_TRUE(has_local_file(2 * kStripeBytes)) << "one stripe";
  EXPECT_FALSE(has_local_file(40 * kStripeBytes)) << "of several workers";
  cluster_.change([&](ClusterView& view) { view.ring = Ring(9, {{local_, 1}}); });
  EXPECT_TRUE(has_local_file(40 * kStripeBytes));
}

class PreviousOwnerTest : public ClusterSourceTest {
 protected:
  PreviousOwnerTest() {
    const auto key = stripe("train/a.txt");
    const auto order = cluster_.views().view()->ring.candidates(key, 2);
    self_ = order[1];
    before_ = order[0];
    store_ = std::make_shared<testing::MemorySource>();
    version_ = store_->put("train/a.txt", "aaaa");
    make_owned({});
    // The previous owner left the ring.
    cluster_.change([&](ClusterView& view) {
      view.previous = view.ring;
      std::vector<RingMember> left = view.ring.members();
      std::erase_if(left, [&](const RingMember& one) { return one.worker == before_; });
      view.ring = Ring(2, left);
    });
  }
  void make_owned(PreviousOwnerOptions options) {
    options.self = self_;
    options.mount = "/data/train";
    owned_ = make_previous_owner_source(options, store_, cluster_.views(), cluster_.table());
  }
  Result<std::string> read_owned() {
    ReadRequest request{"train/a.txt", {0, 4}, version_};
    request.object_size = 4;
    std::string text(4, '\0');
    auto got = executor_.block_on(
        owned_->read(Context::background(), request, std::as_writable_bytes(std::span(text))));
    if (!got) return error(got.error());
    return text;
  }

  WorkerId self_, before_;
  std::shared_ptr<testing::MemorySource> store_;
  Version version_;
  SourcePtr owned_;
};

TEST_F(PreviousOwnerTest, PreviousOwnerIsReadFirst) {
  // The fake peer receives it without `failover_for` and rejects the read, as a worker without the
  // bytes does.
  const int before = cluster_.peer(before_).requests;
  EXPECT_EQ(read_owned().value(), "aaaa");
  EXPECT_EQ(cluster_.peer(before_).requests, before + 1);
  EXPECT_EQ(store_->reads(), 1u);
}

TEST_F(PreviousOwnerTest, OldestOwnerIsReadAfterSeveralChanges) {
  EXPECT_EQ(read_owned().value(), "aaaa");
  // By the previous ring this worker already owned the object.
  cluster_.change([&](ClusterView& view) {
    view.previous = view.ring;
    std::vector<RingMember> left = view.ring.members();
    std::erase_if(left, [&](const RingMember& one) { return one.worker == worker_id(4); });
    view.ring = Ring(3, left);
  });
  const int before = cluster_.peer(before_).requests;
  EXPECT_EQ(read_owned().value(), "aaaa");
  EXPECT_EQ(cluster_.peer(before_).requests, before + 1);
}

// Both previous owners are present and differ from the reader.
class PreviousOwnersTest : public PreviousOwnerTest {
 protected:
  PreviousOwnersTest() {
    const auto order = cluster_.views().view()->ring.candidates(stripe("train/a.txt"), 2);
    last_ = order[0];
    self_ = order[1];
    make_owned({.timeout = seconds(60), .slow_min = seconds(60)});
    EXPECT_EQ(read_owned().value(), "aaaa");
    reset();
    cluster_.change([&](ClusterView& view) {
      view.previous = view.ring;
      std::vector<RingMember> left = view.ring.members();
      std::erase_if(left, [&](const RingMember& one) { return one.worker == last_; });
      view.ring = Ring(3, left);
    });
  }
  void reset() {
    before_requests_ = cluster_.peer(before_).requests;
    last_requests_ = cluster_.peer(last_).requests;
    store_reads_ = store_->reads();
  }
  // Requests since reset(): to the oldest owner, to the last ring's owner, to the store.
  using Requests = std::vector<uint64_t>;
  Requests requests() {
    return {static_cast<uint64_t>(cluster_.peer(before_).requests - before_requests_),
            static_cast<uint64_t>(cluster_.peer(last_).requests - last_requests_),
            store_->reads() - store_reads_};
  }

  WorkerId last_;
  int before_requests_ = 0, last_requests_ = 0;
  uint64_t store_reads_ = 0;
};

TEST_F(PreviousOwnersTest, EitherPreviousOwnerServesTheBytes) {
  cluster_.peer(before_).has_all = true;
  EXPECT_EQ(read_owned().value(), "aaaa");
  EXPECT_EQ(requests(), (Requests{1, 0, 0}));
  reset();
  cluster_.peer(before_).has_all = false;
  cluster_.peer(last_).has_all = true;
  EXPECT_EQ(read_owned().value(), "aaaa");
  EXPECT_EQ(requests(), (Requests{1, 1, 0}));
  reset();
  cluster_.peer(last_).has_all = false;
  EXPECT_EQ(read_owned().value(), "aaaa");
  EXPECT_EQ(requests(), (Requests{1, 1, 1}));
}

TEST_F(PreviousOwnersTest, DrainingOwnerIsReadFirst) {
  cluster_.change([&](ClusterView& view) { view.workers[last_].state = WorkerState::kDraining; });
  cluster_.peer(last_).has_all = true;
  EXPECT_EQ(read_owned().value(), "aaaa");
  EXPECT_EQ(requests(), (Requests{0, 1, 0}));
}

TEST_F(PreviousOwnerTest, AbsentPreviousOwnerIsSkipped) {
  cluster_.change([&](ClusterView& view) { view.workers.erase(before_); });
  const int before = cluster_.peer(before_).requests;
  EXPECT_EQ(read_owned().value(), "aaaa");
  EXPECT_EQ(cluster_.peer(before_).requests, before);
}

TEST_F(PreviousOwnerTest, SlowPreviousOwnerIsSkippedForAWhile) {
  make_owned({.timeout = milliseconds(5), .slow_min = milliseconds(5)});
  testing::FakePeer& before = cluster_.peer(before_);
  before.hangs = true;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(read_owned().value(), "aaaa");
  EXPECT_EQ(before.requests, 1);
  // A new ring starts without back-off.
  cluster_.change([](ClusterView& view) { view.ring = Ring(3, view.ring.members()); });
  before.hangs = false;
  before.up = false;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(read_owned().value(), "aaaa");
  EXPECT_EQ(before.requests, 2);
}

TEST_F(PreviousOwnerTest, SlowPreviousOwnerIsRetriedLater) {
  make_owned({.timeout = milliseconds(5), .slow_min = milliseconds(5), .backoff = seconds(0)});
  cluster_.peer(before_).hangs = true;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(read_owned().value(), "aaaa");
  EXPECT_EQ(cluster_.peer(before_).requests, 3);
}

TEST_F(PreviousOwnerTest, StoreCompletesABrokenRead) {
  cluster_.peer(before_).breaks_after = 3;
  ReadRequest request{"train/a.txt", {0, 4}, version_};
  request.object_size = 4;
  Progress progress;
  request.progress = ReadProgress(progress);
  std::string text(4, '\0');
  auto got = executor_.block_on(
      owned_->read(Context::background(), request, std::as_writable_bytes(std::span(text))));
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(text, "aaaa");
  EXPECT_EQ(progress.reported, 3u);
  EXPECT_EQ(store_->read_bytes(), 1u);
}

TEST_F(PreviousOwnerTest, StoreIsReadWithoutARingChange) {
  cluster_.change([](ClusterView& view) { view.previous.reset(); });
  EXPECT_EQ(read_owned().value(), "aaaa");
  EXPECT_EQ(cluster_.peer(before_).requests, 0);
}

}  // namespace
}  // namespace leat
