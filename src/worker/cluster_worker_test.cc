// SPDX-License-Identifier: Apache-2.0
// A worker in its cluster: joining, mounts, requests, the registry and the secret.
#include "worker/cluster_worker.h"

#include <gtest/gtest.h>

#include <future>
#include <set>
#include <thread>

#include "cluster/cluster_records.h"
#include "worker/fake_worker_test.h"

namespace leat {
namespace {

using testing::FakeClient;
using testing::patient;
using testing::wait_until;
using testing::WorkerNode;

constexpr size_t kBig = 300 * kKiB;  // has a file of its own in the cache

// A cache of which no directory is open.
class ClosedCache : public HostCache {
 public:
  Task<> close() override { co_return; }
  std::optional<Bytes> try_read(const FileRef&, ByteRange) override { return std::nullopt; }
  Task<Result<Bytes>> read(Context, FileRefPtr, ByteRange) override { co_return closed(); }
  std::vector<ByteRange> missing(const FileRef&, ByteRange range) override { return {range}; }
  Task<Result<>> write(Context, FileRefPtr, uint64_t, Bytes) override { co_return closed(); }
  std::shared_ptr<BackingFile> backing(const FileRef&) override { return nullptr; }
  bool packed(const FileRef&) const override { return false; }
  uint64_t cached_bytes(const FileRef&) override { return 0; }
  uint64_t drop(const FileId&) override { return 0; }
  Task<Result<>> flush(Context) override { co_return closed(); }
  void set_pool_policy(PoolId, const PoolPolicy&) override {}
  PageStoreStats stats() const override { return {}; }
  std::vector<PoolStats> pools() const override { return {}; }
  std::vector<DirectoryStats> directories() const override { return {}; }
  WorkerId worker() const override { return {}; }
  Task<Result<ObjectPage>> objects(Context, std::string, size_t) override { co_return closed(); }
  Task<Result<>> verify(Context, StepListener) override { co_return closed(); }
  Task<uint64_t> evict(std::optional<PoolId>, uint64_t) override { co_return 0; }

 private:
  static Error closed() { return error(StatusCode::kUnavailable, "closed"); }
};

class ClusterWorkerTest : public testing::ClusterWorkerTestBase {
 protected:
  static std::set<std::string> keys_of(const ListPage& page) {
    std::set<std::string> keys;
    for (const SourceObject& object : page.objects) keys.insert(object.key);
    return keys;
  }
  // Returns the code of the verdict of `by` on a request that `from` signs for `to`.
  static StatusCode verdict(RequestVerifier& by, RequestSigner& from, const WorkerId& to) {
    HttpRequest request{.path = "/peer/v1/cluster", .target = "/peer/v1/cluster"};
    request.headers.set(kToField, to.to_hex());
    from.sign(request);
    const auto principal = by.verify(request);
    return principal ? StatusCode() : principal.error().code();
  }
  bool accepts(WorkerNode& by, WorkerNode& from) {
    return verdict(by.server().deps.verifier, *from->signer(), by.id()) == StatusCode();
  }
};

// --- joining -------------------------------------------------------------------------------------

TEST_F(ClusterWorkerTest, JoinedWorkerIsInTheViewOfAll) {
  WorkerNode a(network_), b(network_);
  const ClusterViewPtr view = a.await_ring({&a, &b});
  EXPECT_EQ(view->cluster, "test");
  const WorkerInfo* info = view->worker(b.id());
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(*info, b->self());
  EXPECT_EQ(info->address, b.server().address());
  EXPECT_EQ(info->fd_socket, "/run/fake.sock");
  EXPECT_EQ(info->host_id, "host");
  EXPECT_EQ(info->protocol, kPeerProtocol);
  EXPECT_EQ(info->capacity_bytes, b.cache().stats().capacity_bytes);
  EXPECT_EQ(info->state, WorkerState::kActive);
  EXPECT_EQ(b.await_ring({&a, &b})->ring.epoch(), view->ring.epoch());
  EXPECT_EQ(a->view()->revision, a.server().deps.views.view()->revision);
  EXPECT_FALSE(a->trouble());
  EXPECT_TRUE(a->rejected().empty());
}

TEST_F(ClusterWorkerTest, AdvertisedAddressIsPublished) {
  WorkerNode a(network_, {.advertise = "host-7.example:7480"});
  EXPECT_EQ(a->self().address, "host-7.example:7480");
  EXPECT_EQ(a.await_ring({&a})->worker(a.id())->address, "host-7.example:7480");
}

TEST_F(ClusterWorkerTest, ServerGetsTheJobStore) {
  WorkerNode a(network_);
  EXPECT_EQ(a.server().jobs, &a->jobs());
  EXPECT_EQ(static_cast<Peer*>(&a.server().deps.service), a->service().get());
}

TEST_F(ClusterWorkerTest, WorkerWithoutCacheDirectoryFails) {
  WorkerNode a(network_, {.server_fails = Status(StatusCode::kBusy, "not reached")});
  ClosedCache closed;
  const auto started = a.try_start(closed);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(started.error().message().contains("no cache directory is open"));
}

TEST_F(ClusterWorkerTest, ServerThatCannotStartIsReported) {
  WorkerNode a(network_, {.server_fails = Status(StatusCode::kBusy, "port 7480 is in use")});
  const auto started = a.try_start(a.cache());
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code(), StatusCode::kBusy);
  EXPECT_EQ(started.error().message(), "port 7480 is in use");
  EXPECT_TRUE(network_.keys("").empty()) << "it has joined all the same";
}

// --- mounts --------------------------------------------------------------------------------------

TEST_F(ClusterWorkerTest, AddedMountIsSeenByOtherWorker) {
  write("a", "text");
  WorkerNode a(network_), b(network_);
  a.await_ring({&a, &b});
  const auto added =
      add_mount(a, "/data", "file://" + folder(), {{"replicas", "2"}, {"freshness", "immutable"}});
  ASSERT_TRUE(added) << added.error().to_string();
  EXPECT_EQ(added->prefix, folder().substr(1) + "/");
  EXPECT_EQ(added->replicas, 2u);
  EXPECT_FALSE(added->options.contains("replicas"));
  EXPECT_EQ(added->options.at("freshness"), "immutable");
  ASSERT_TRUE(a->view()->mounts.contains("/data")) << "the own view is behind the answer";
  const auto view =
      b.await_view([](const ClusterView& now) { return now.mounts.contains("/data"); });
  EXPECT_EQ(view->mounts.at("/data"), *added);
  await_served(b, *added);
  EXPECT_FALSE(b->mount_trouble("/data"));
}

TEST_F(ClusterWorkerTest, TakenMountPathIsRejected) {
  write("a", "text");
  write("b", "other", "second");
  WorkerNode a(network_), b(network_);
  a.await_ring({&a, &b});
  const ClusterMount first = mount_data({&a, &b});
  const auto second = add_mount(b, kData, "file://" + folder("second"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), StatusCode::kExists);
  EXPECT_EQ(b->view()->mounts.at(kData), first);
}

TEST_F(ClusterWorkerTest, StoreThatCannotBeListedIsNotMounted) {
  WorkerNode a(network_);
  a.await_ring({&a});
  const auto added = add_mount(a, kData, "file://" + folder("absent"));
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code(), StatusCode::kNotFound);
  EXPECT_TRUE(network_.keys(std::string(kMountKeys)).empty());
}

TEST_F(ClusterWorkerTest, ForbiddenFolderIsNotMounted) {
  WorkerNode a(network_);
  a.await_ring({&a});
  const auto added = add_mount(a, kData, "file:///etc");
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(added.error().message().contains("worker.local_paths"));
  EXPECT_TRUE(network_.keys(std::string(kMountKeys)).empty());
}

TEST_F(ClusterWorkerTest, WrongMountOptionIsRejected) {
  write("a", "text");
  WorkerNode a(network_);
  a.await_ring({&a});
  using Options = std::map<std::string, std::string>;
  for (const Options& options : {Options{{"replicas", "0"}}, Options{{"replicas", "5"}},
                                 Options{{"replicas", "two"}}, Options{{"cache", "perhaps"}}}) {
    const auto added = add_mount(a, kData, "file://" + folder(), options);
    ASSERT_FALSE(added) << options.begin()->second;
    EXPECT_EQ(added.error().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(network_.keys(std::string(kMountKeys)).empty());
}

TEST_F(ClusterWorkerTest, RemovedMountIsGoneForAll) {
  write("a", "text");
  WorkerNode a(network_), b(network_);
  a.await_ring({&a, &b});
  const ClusterMount mount = mount_data({&a, &b});
  EXPECT_TRUE(run(b->remove_mount(patient(), kData)));
  EXPECT_TRUE(b->view()->mounts.empty());
  a.await_view([](const ClusterView& view) { return view.mounts.empty(); });
  EXPECT_TRUE(wait_until([&] { return !is_served(a, mount) && !is_served(b, mount); }));
  const auto again = run(a->remove_mount(patient(), kData));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), StatusCode::kNotFound);
}

TEST_F(ClusterWorkerTest, MountDeniedHereIsServedByOthers) {
  write("a", "served elsewhere");
  WorkerNode a(network_), b(network_, {.local_paths = std::vector<std::string>()});
  a.await_ring({&a, &b});
  const ClusterMount mount = mount_data({&a});
  ASSERT_TRUE(wait_until([&] { return b->mount_trouble(kData).has_value(); }));
  EXPECT_EQ(b->mount_trouble(kData)->code(), StatusCode::kPermissionDenied);
  EXPECT_FALSE(a->mount_trouble(kData));
  EXPECT_FALSE(is_served(b, mount));
  b.await_view([](const ClusterView& view) { return view.mounts.contains(kData); });
  FakeClient client(b);
  for (int i = 0; i < 8; ++i) {
    const std::string name = fmt::format("f{}", i);
    write(name, name);
    const auto text = client.read("data/" + name);
    ASSERT_TRUE(text) << text.error().to_string();
    EXPECT_EQ(*text, name);
  }
  // The trouble ends with the mount.
  ASSERT_TRUE(run(a->remove_mount(patient(), kData)));
  EXPECT_TRUE(wait_until([&] { return !b->mount_trouble(kData); }));
}

// --- requests ------------------------------------------------------------------------------------

TEST_F(ClusterWorkerTest, OwnerServesBytesAndNames) {
  write("a", "some text");
  write("sub/b", "below");
  WorkerNode a(network_);
  a.await_ring({&a});
  const ClusterMount mount = mount_data({&a});
  PeerList list{.mount = kData, .store = mount.store, .prefix = mount.prefix};
  const auto names = run(a->service()->list(patient(), std::move(list)));
  ASSERT_TRUE(names.result) << names.result.error().to_string();
  EXPECT_EQ(names.outcome, PeerOutcome::kAnswered);
  EXPECT_EQ(names.epoch, a->view()->ring.epoch());
  EXPECT_EQ(keys_of(*names.result),
            (std::set<std::string>{mount.prefix + "a", mount.prefix + "sub/"}));
  std::string text;
  const auto bytes = read(a, file(a, mount, "sub/b"), &text);
  ASSERT_TRUE(bytes.result) << bytes.result.error().to_string();
  EXPECT_EQ(text, "below");
}

TEST_F(ClusterWorkerTest, OtherThanOwnerTurnsRequestAway) {
  WorkerNode a(network_), b(network_);
  const ClusterViewPtr view = a.await_ring({&a, &b});
  b.await_ring({&a, &b});
  const ClusterMount mount = mount_data({&a, &b});
  const std::string name = name_owned_by(a, *view, mount);
  write(name, "text");
  std::string text;
  EXPECT_EQ(read(b, file(b, mount, name), &text).outcome, PeerOutcome::kNotOwner);
  EXPECT_EQ(read(a, file(a, mount, name), &text).outcome, PeerOutcome::kAnswered);
  EXPECT_EQ(text, "text");
}

TEST_F(ClusterWorkerTest, ClientReadsFromTheOwners) {
  for (int i = 0; i < 24; ++i) write(fmt::format("f{}", i), text_of(fmt::format("f{}", i), 5000));
  WorkerNode a(network_), b(network_);
  a.await_ring({&a, &b});
  b.await_ring({&a, &b});
  mount_data({&a, &b});
  FakeClient client(a);
  const auto page = client.list("data/");
  ASSERT_TRUE(page) << page.error().to_string();
  ASSERT_EQ(page->objects.size(), 24u);
  for (const SourceObject& object : page->objects) {
    const auto text = client.read(object);
    ASSERT_TRUE(text) << text.error().to_string();
    EXPECT_TRUE(*text == text_of(object.key.substr(5), 5000)) << object.key;
  }
  EXPECT_GT(a.link().reads, 0);
  EXPECT_GT(b.link().reads, 0);
  EXPECT_GE(a.link().reads + b.link().reads, 24);
}

TEST_F(ClusterWorkerTest, StoreSeesEachByteOnce) {
  constexpr int kFiles = 6, kReaders = 8;
  for (int i = 0; i < kFiles; ++i)
    write(fmt::format("f{}", i), text_of(fmt::format("f{}", i), kBig));
  WorkerNode a(network_), b(network_);
  a.await_ring({&a, &b});
  b.await_ring({&a, &b});
  mount_data({&a, &b});
  const double before = store_bytes();
  std::vector<std::future<int>> readers;
  for (int reader = 0; reader < kReaders; ++reader) {
    readers.push_back(std::async(std::launch::async, [&, reader] {
      FakeClient client(reader % 2 == 0 ? a : b);
      int right = 0;
      for (int i = 0; i < kFiles; ++i) {
        const auto text = client.read(fmt::format("data/f{}", i));
        if (text && *text == text_of(fmt::format("f{}", i), kBig)) ++right;
      }
      return right;
    }));
  }
  for (auto& reader : readers) EXPECT_EQ(reader.get(), kFiles);
  EXPECT_EQ(store_bytes() - before, static_cast<double>(kFiles * kBig));
}

TEST_F(ClusterWorkerTest, OtherWorkerServesForOneCutOff) {
  WorkerNode a(network_), b(network_);
  const ClusterViewPtr view = a.await_ring({&a, &b});
  b.await_ring({&a, &b});
  const ClusterMount mount = mount_data({&a, &b});
  const std::string name = name_owned_by(b, *view, mount);
  write(name, "text");
  FakeClient client(a);
  b.link().cut_off = true;
  const auto text = client.read("data/" + name);
  ASSERT_TRUE(text) << text.error().to_string();
  EXPECT_EQ(*text, "text");
  EXPECT_EQ(b.link().reads, 0);
  const FileRefPtr cached = file(a, mount, name);
  EXPECT_TRUE(wait_until([&] { return is_cached(a, cached); }));
}

TEST_F(ClusterWorkerTest, CompleteFileIsPassed) {
  write("big", text_of("big", kBig));
  write("small", "text");
  WorkerNode a(network_);
  a.await_ring({&a});
  const ClusterMount mount = mount_data({&a});
  const FileRefPtr big = file(a, mount, "big"), small = file(a, mount, "small");
  const auto open = [&](const FileRefPtr& which) {
    return run(a->fd_provider()->open(patient(), {.mount = kData, .file = *which, .range = {}}));
  };
  EXPECT_EQ(open(big).error().code(), StatusCode::kNotFound) << "not cached yet";
  ASSERT_TRUE(ensure(a, big));
  ASSERT_TRUE(ensure(a, small));
  const auto passed = open(big);
  ASSERT_TRUE(passed) << passed.error().to_string();
  EXPECT_EQ((*passed)->size(), kBig);
  std::string text(kBig, '\0');
  ASSERT_EQ(::pread((*passed)->fd(), text.data(), kBig, 0), static_cast<ssize_t>(kBig));
  EXPECT_TRUE(text == text_of("big", kBig));
  EXPECT_EQ(open(small).error().code(), StatusCode::kNotFound) << "packed with others";
}

// --- registry and secret -------------------------------------------------------------------------

TEST_F(ClusterWorkerTest, RegistryFailureIsTroubleUntilItEnds) {
  write("a", "text");
  WorkerNode a(network_), b(network_);
  a.await_ring({&a, &b});
  const ClusterMount mount = mount_data({&a, &b});
  ASSERT_TRUE(wait_until([&] { return a.server().deps.view_is_current(); }));
  a.registry().disconnect();
  ASSERT_TRUE(wait_until([&] { return a->trouble().has_value(); }));
  EXPECT_EQ(a->trouble()->code(), StatusCode::kUnavailable);
  EXPECT_TRUE(wait_until([&] { return !a.server().deps.view_is_current(); }));
  EXPECT_FALSE(b->trouble());
  // The last view stays in use.
  EXPECT_NE(a->view()->worker(b.id()), nullptr);
  EXPECT_TRUE(is_served(a, mount));
  EXPECT_TRUE(FakeClient(a).read("data/a"));
  const auto added = add_mount(a, "/other", "file://" + folder());
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(added.error().to_string().contains("whether /other is mounted now is not known"));
  ASSERT_TRUE(add_mount(b, "/meanwhile", "file://" + folder()));
  EXPECT_FALSE(a->view()->mounts.contains("/meanwhile"));
  a.registry().connect();
  a.await_view([](const ClusterView& view) { return view.mounts.contains("/meanwhile"); });
  EXPECT_TRUE(wait_until([&] { return !a->trouble() && a.server().deps.view_is_current(); }));
}

TEST_F(ClusterWorkerTest, WorkerStartsWithoutRegistry) {
  WorkerNode a(network_, {.registry_down = true});
  ASSERT_TRUE(wait_until([&] { return a->trouble().has_value(); }));
  EXPECT_EQ(a->view()->revision, 0);
  EXPECT_FALSE(a.server().deps.view_is_current());
  EXPECT_EQ(a->self().id, a.id());
  a.registry().connect();
  a.await_ring({&a});
  EXPECT_TRUE(wait_until([&] { return !a->trouble(); }));
}

TEST_F(ClusterWorkerTest, WorkerWithOtherSecretIsRejected) {
  WorkerNode a(network_);
  a.await_ring({&a});
  // A record without a signature is no worker with another secret.
  const std::string unsigned_key = worker_key(testing::worker_id(7));
  ASSERT_TRUE(run(network_.registry().commit(patient(), {.puts = {{unsigned_key, "{}"}}})));
  WorkerNode stranger(network_, {.secret = make_secret()});
  ASSERT_TRUE(wait_until([&] { return !a->rejected().empty(); }));
  EXPECT_EQ(a->rejected(), std::vector<WorkerId>{stranger.id()});
  EXPECT_FALSE(a->trouble()) << "the leader has the right one";
  EXPECT_EQ(a->view()->worker(stranger.id()), nullptr);
  std::optional<Status> trouble;
  ASSERT_TRUE(wait_until([&] { return (trouble = stranger->trouble()).has_value(); }));
  EXPECT_EQ(trouble->code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(trouble->message().contains("cluster.secret_file"));
  EXPECT_EQ(stranger->rejected(), std::vector<WorkerId>{a.id()});
  EXPECT_FALSE(accepts(a, stranger));
  EXPECT_TRUE(accepts(a, a));
}

// The worker looks at the file every ten seconds.
TEST_F(ClusterWorkerTest, ReplacedSecretIsUsedWithoutRestart) {
  WorkerNode a(network_), b(network_);
  a.await_ring({&a, &b});
  ASSERT_TRUE(accepts(b, a));
  const std::string next = make_secret();
  RequestVerifier new_only(
      std::make_shared<const SecretSet>(SecretSet::parse(next, "next").value()), {.self = a.id()});
  ASSERT_EQ(verdict(new_only, *a->signer(), a.id()), StatusCode::kPermissionDenied);
  for (WorkerNode* node : {&a, &b}) node->set_secret(next + network_.secret);
  ASSERT_TRUE(wait_until([&] {
    return verdict(new_only, *a->signer(), a.id()) == StatusCode() && accepts(a, b) &&
           accepts(b, a);
  }));
  // All records are signed again, so a worker with the new secret alone reads all of them.
  WorkerNode c(network_, {.secret = next});
  c.await_ring({&a, &b, &c});
  EXPECT_TRUE(wait_until([&] { return c->rejected().empty() && !c->trouble(); }));
  EXPECT_TRUE(accepts(a, c));
}

}  // namespace
}  // namespace leat
