// SPDX-License-Identifier: Apache-2.0
// Invalidations: found here, found by others, versions that are gone; and what workers that do not
// answer get later.
#include "worker/invalidation_service.h"

#include <gtest/gtest.h>

#include "http/server/server.h"
#include "worker/fake_worker_test.h"

namespace leat {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using testing::MemorySource;
using testing::patient;
using testing::wait_until;
using testing::worker_id;
using testing::WorkerNode;
using Kind = Invalidation::Kind;
using Changes = std::vector<Invalidation>;

// InvalidationEndpoint: another worker, for invalidations alone. InvalidationService sends them by
// a PeerClient, so they need a socket of loopback.
class InvalidationEndpoint {
 public:
  using Receive = std::function<void(Invalidations)>;

  explicit InvalidationEndpoint(Executor& executor) : executor_(executor) {
    HttpRouter router;
    router.set_fallback([this](Context context, HttpRequest request) {
      return handle(this, std::move(context), std::move(request));
    });
    server_ = HttpServer::start({{}, "127.0.0.1", 0}, std::move(router), {}, executor).value();
  }
  ~InvalidationEndpoint() { executor_.block_on(server_->stop()); }

  std::atomic<bool> hangs = false;  // answers pings only
  std::atomic<bool> fails = false;  // answers 503
  std::atomic<int> posts = 0;

  std::string address() const { return server_->endpoint().to_string(); }
  // From now on `receive` gets the invalidations, too; null: it gets none.
  void pass_to(Receive receive) {
    std::lock_guard lock(mutex_);
    receive_ = std::move(receive);
  }
  Changes received() const {
    std::lock_guard lock(mutex_);
    return received_;
  }
  // Waits for so many invalidations, and returns all of them, sorted.
  Changes await_received(size_t count) const {
    EXPECT_TRUE(wait_until([&] { return received().size() >= count; })) << "of " << count;
    Changes all = received();
    std::ranges::sort(all, {}, &Invalidation::key);
    return all;
  }

 private:
  static Task<HttpResponse> handle(InvalidationEndpoint* self, Context context,
                                   HttpRequest request) {
    if (request.path != kInvalidationsPath) co_return HttpResponse{.status = 204};
    ++self->posts;
    if (self->hangs) {
      Result<> ended = co_await sleep_for(context, hours(1));
      static_cast<void>(ended);
      co_return HttpResponse{.status = 503};
    }
    if (self->fails) co_return HttpResponse{.status = 503};
    auto invalidations = decode_invalidations(request.body);
    if (!invalidations) co_return HttpResponse{.status = 400};
    std::lock_guard lock(self->mutex_);
    for (const Invalidation& one : invalidations->items) self->received_.push_back(one);
    if (self->receive_) self->receive_(*std::move(invalidations));
    co_return HttpResponse{.status = 204};
  }

  Executor& executor_;
  mutable std::mutex mutex_;  // held while `receive_` runs
  Receive receive_;
  Changes received_;
  std::unique_ptr<HttpServer> server_;
};

// One worker's service, between a catalog over a bucket and two other workers.
class InvalidationServiceTest : public ::testing::Test {
 protected:
  InvalidationServiceTest() {
    view_.mounts[kData] = {.path = kData,
                           .source = "memory://bucket/data/",
                           .options = {},
                           .store = store_->id(),
                           .prefix = "data/"};
    for (const char* key : {"data/a", "data/b", "data/sub/c"}) store_->put(key, key);
    MountEntry entry{.path = kData, .source = {}, .policy = {}};
    entry.source.prefix = "data/";
    EXPECT_TRUE(catalog_->mount(entry, store_));
    catalog_->set_change_listener(
        [this](const CatalogChange& change) { service_.on_local_change(change); });
    set_workers({{one_, first_.address()}, {two_, second_.address()}});
  }
  ~InvalidationServiceTest() override {
    run(service_.stop());
    run(catalog_->stop());
  }

  // Sets the other workers; an empty address cannot be reached.
  void set_workers(const std::map<WorkerId, std::string>& others) {
    view_.workers.clear();
    view_.workers[self_] = {.id = self_, .address = own_.address()};
    for (const auto& [id, address] : others) view_.workers[id] = {.id = id, .address = address};
    ++view_.revision;
    peers_.update(view_);
    views_.set(view_);
  }
  PeerPtr connect(const WorkerInfo& info) {
    if (info.address.empty()) return nullptr;
    PeerClientOptions options{.address = info.address, .worker = info.id};
    auto secrets = SecretSet::parse(make_secret(), "test").value();
    auto token = issue(secrets.signing(), TokenClaims::of_worker(self_)).value();
    return PeerClient::make(options, std::make_shared<RequestSigner>(token), executor_).value();
  }

  template <class T>
  T run(Task<T> task) {
    return executor_.block_on(std::move(task));
  }
  static Invalidation object(const std::string& key) {
    return {.mount = kData, .key = key, .kind = Kind::kObject};
  }
  // A change of the file `name`, as a catalog finds it.
  void change(const std::string& name) {
    service_.on_local_change({.parent = kData, .name = name});
  }
  // Returns the next changes for clients after `number`.
  Changes logged(uint64_t number) {
    const auto next = run(service_.log().wait_after(patient(), number, hours(1)));
    return next && *next ? (*next)->items : Changes();
  }
  FileRefPtr ref(const std::string& key, const std::string& etag = "old") {
    return std::make_shared<const FileRef>(
        FileRef::make(store_->id(), key, Version::etag(etag), 4));
  }
  uint64_t names(const std::string& path) {
    return run(catalog_->list(patient(), path)).value()->from(0).next() ? store_->lists() : 0;
  }
  std::vector<std::string> changed() {
    std::lock_guard lock(mutex_);
    return changed_;
  }

  static constexpr char kData[] = "/data";
  const WorkerId self_ = worker_id(0), one_ = worker_id(1), two_ = worker_id(2);
  Executor executor_{{.threads = 4}};
  std::mutex mutex_;  // leaf
  std::vector<std::string> changed_;
  const std::shared_ptr<MemorySource> store_ = std::make_shared<MemorySource>();
  MemorySource files_{"cluster"};  // the cluster's namespace
  SourceTable sources_;
  const std::unique_ptr<Catalog> catalog_ =
      Catalog::create({.notify_on_create = true}, sources_, executor_);
  testing::FakeViewSource views_;
  ClusterView view_;
  PeerTable peers_{[this](const WorkerInfo& info) { return connect(info); }};
  InvalidationEndpoint own_{executor_}, first_{executor_}, second_{executor_};
  InvalidationService service_{{.self = self_,
                                .views = views_,
                                .peers = peers_,
                                .catalog = *catalog_,
                                .files = files_,
                                .changed =
                                    [this](std::string path) {
                                      std::lock_guard lock(mutex_);
                                      changed_.push_back(std::move(path));
                                    }},
                               executor_};
};

// --- found here ----------------------------------------------------------------------------------

TEST_F(InvalidationServiceTest, LocalChangeReachesAll) {
  ASSERT_NE(names(kData), 0u);
  const uint64_t number = service_.log().number();
  store_->put("data/a", "other");
  const auto found = run(catalog_->refresh(patient(), kData));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->changed, 1u);
  EXPECT_EQ(logged(number), Changes{object("a")});
  EXPECT_EQ(first_.await_received(1), Changes{object("a")});
  EXPECT_EQ(second_.await_received(1), Changes{object("a")});
  EXPECT_EQ(changed(), std::vector<std::string>{"/data/a"});
}

TEST_F(InvalidationServiceTest, WorkerSendsNothingToItself) {
  for (const size_t count : {1, 2, 3}) {
    change("a");
    first_.await_received(count);
    second_.await_received(count);
  }
  EXPECT_EQ(own_.posts, 0);
}

TEST_F(InvalidationServiceTest, ChangeBelowADirectoryHasItsKey) {
  const uint64_t number = service_.log().number();
  service_.on_local_change({.parent = "/data/sub", .name = "c"});
  EXPECT_EQ(logged(number), Changes{object("sub/c")});
  EXPECT_EQ(first_.await_received(1), Changes{object("sub/c")});
  EXPECT_EQ(changed(), std::vector<std::string>{"/data/sub/c"});
}

TEST_F(InvalidationServiceTest, ChangeOutsideMountsIsDropped) {
  service_.on_local_change({.parent = "/elsewhere", .name = "a"});
  change("b");
  EXPECT_EQ(first_.await_received(1), Changes{object("b")});
  EXPECT_EQ(changed(), std::vector<std::string>{"/data/b"});
}

TEST_F(InvalidationServiceTest, ChangeOfAWholeMountIsOfAll) {
  for (const bool whole : {true, false}) {
    const uint64_t number = service_.log().number();
    service_.on_local_change({.parent = kData, .name = "", .whole = whole, .listings = !whole});
    EXPECT_EQ(logged(number), (Changes{{.mount = kData, .key = "", .kind = Kind::kAll}}));
  }
}

TEST_F(InvalidationServiceTest, NewSubscriberDropsAllMounts) {
  view_.mounts["/more"] = {.path = "/more", .source = "memory://more"};
  set_workers({});
  EXPECT_EQ(logged(0), (Changes{{.mount = kData, .key = "", .kind = Kind::kAll},
                                {.mount = "/more", .key = "", .kind = Kind::kAll}}));
}

// --- found by others -----------------------------------------------------------------------------

TEST_F(InvalidationServiceTest, RemoteChangeExpiresTheDirectory) {
  const uint64_t first = names(kData);
  names("/data/sub");
  const uint64_t before = names(kData);
  EXPECT_EQ(before, first + 1) << "names are cached";
  const uint64_t number = service_.log().number();
  service_.on_remote_change({.number = 0, .items = {object("a")}});
  EXPECT_EQ(names("/data/sub"), before) << "only its own directory is stale";
  EXPECT_EQ(names(kData), before + 1);
  EXPECT_EQ(logged(number), Changes{object("a")});
  EXPECT_EQ(changed(), std::vector<std::string>{"/data/a"});
}

TEST_F(InvalidationServiceTest, RemoteChangeOfAllExpiresAll) {
  names(kData);
  names("/data/sub");
  const uint64_t before = store_->lists();
  service_.on_remote_change(
      {.number = 0, .items = {{.mount = kData, .key = "", .kind = Kind::kAll}}});
  EXPECT_EQ(names("/data/sub"), before + 1);
  EXPECT_EQ(names(kData), before + 2);
}

TEST_F(InvalidationServiceTest, RemoteDirectoryChangeExpiresIt) {
  names(kData);
  names("/data/sub");
  const uint64_t before = store_->lists();
  service_.on_remote_change(
      {.number = 0, .items = {{.mount = kData, .key = "sub/", .kind = Kind::kDirectory}}});
  EXPECT_EQ(names(kData), before);
  EXPECT_EQ(names("/data/sub"), before + 1);
}

TEST_F(InvalidationServiceTest, RemoteChangeIsForClientsOnly) {
  const uint64_t number = service_.log().number();
  service_.on_remote_change({.number = 0, .items = {object("a")}});
  EXPECT_EQ(logged(number), Changes{object("a")});
  change("b");
  EXPECT_EQ(first_.await_received(1), Changes{object("b")}) << "its finder tells the workers";
  EXPECT_EQ(logged(number + 1), Changes{object("b")});
}

// --- versions that are gone ----------------------------------------------------------------------

TEST_F(InvalidationServiceTest, GoneVersionIsCheckedOnce) {
  files_.put("data/a", "present");
  const uint64_t number = service_.log().number();
  service_.on_version_gone(kData, ref("data/a"));
  service_.on_version_gone(kData, ref("data/a"));
  EXPECT_EQ(logged(number), Changes{object("a")});
  service_.on_version_gone(kData, ref("data/a"));
  service_.on_version_gone(kData, ref("data/a", "older"));
  EXPECT_EQ(logged(number + 1), Changes{object("a")}) << "another version";
  EXPECT_EQ(files_.stats(), 2u);
  EXPECT_EQ(service_.log().number(), number + 2);
  EXPECT_EQ(changed(), (std::vector<std::string>{"/data/a", "/data/a"}));
}

TEST_F(InvalidationServiceTest, GoneVersionIsPublishedWhateverTheOwner) {
  files_.fail_next(StatusCode::kUnavailable, 1);
  service_.on_version_gone(kData, ref("data/sub/c"));
  EXPECT_EQ(first_.await_received(1), Changes{object("sub/c")});
  service_.on_version_gone(kData, ref("data/removed"));
  EXPECT_EQ(first_.await_received(2), (Changes{object("removed"), object("sub/c")}));
  EXPECT_EQ(files_.stats(), 2u);
}

TEST_F(InvalidationServiceTest, GoneVersionOfNoMountIsIgnored) {
  const uint64_t number = service_.log().number();
  service_.on_version_gone("/unmounted", ref("data/a"));
  service_.on_version_gone(kData, ref("data/b"));
  EXPECT_EQ(logged(number), Changes{object("b")});
  EXPECT_EQ(files_.stats(), 1u);
}

// --- workers that do not answer ------------------------------------------------------------------

TEST_F(InvalidationServiceTest, HangingWorkerGetsItsChangesLater) {
  first_.hangs = true;
  change("a");
  ASSERT_TRUE(wait_until([&] { return first_.posts > 0; }));
  change("b");
  EXPECT_EQ(second_.await_received(2), (Changes{object("a"), object("b")}))
      << "the other worker does not wait for it";
  EXPECT_TRUE(first_.received().empty());
  first_.hangs = false;
  EXPECT_EQ(first_.await_received(2), (Changes{object("a"), object("b")}));
}

TEST_F(InvalidationServiceTest, FailedRequestIsSentAgain) {
  second_.fails = true;
  change("a");
  ASSERT_TRUE(wait_until([&] { return second_.posts > 1; }));
  EXPECT_TRUE(second_.received().empty());
  EXPECT_EQ(first_.await_received(1), Changes{object("a")});
  second_.fails = false;
  EXPECT_EQ(second_.await_received(1), Changes{object("a")});
  EXPECT_EQ(first_.posts, 1);
}

TEST_F(InvalidationServiceTest, WorkerWithoutAddressIsSentToLater) {
  set_workers({{one_, ""}, {two_, second_.address()}});
  change("a");
  EXPECT_EQ(second_.await_received(1), Changes{object("a")});
  set_workers({{one_, first_.address()}, {two_, second_.address()}});
  EXPECT_EQ(first_.await_received(1), Changes{object("a")});
}

TEST_F(InvalidationServiceTest, StopEndsRequestsInFlight) {
  first_.hangs = true;
  change("a");
  ASSERT_TRUE(wait_until([&] { return first_.posts > 0; }));
  run(service_.stop());
  const int posts = first_.posts;
  const uint64_t number = service_.log().number();
  change("b");
  service_.on_version_gone(kData, ref("data/a"));
  EXPECT_EQ(first_.posts, posts);
  EXPECT_EQ(files_.stats(), 0u);
  EXPECT_EQ(service_.log().number(), number);
  run(service_.stop());
}

// --- between workers -----------------------------------------------------------------------------

class InvalidationServiceWorkersTest : public testing::ClusterWorkerTestBase {
 protected:
  // A worker that gets the invalidations of this endpoint.
  static testing::WorkerNodeOptions reached_at(InvalidationEndpoint& endpoint) {
    return {.listen =
                [&endpoint](const WorkerServerDeps& deps) {
                  endpoint.pass_to(deps.on_invalidations);
                  return endpoint.address();
                },
            .on_server_stop = [&endpoint] { endpoint.pass_to(nullptr); }};
  }
  size_t names(WorkerNode& node, const ClusterMount& mount, Clock::duration age_max) {
    PeerList list{.mount = kData, .store = mount.store, .prefix = mount.prefix};
    list.age_max = age_max;
    list.route = to_any(node);
    return run(node->service()->list(patient(), std::move(list))).result.value().objects.size();
  }
  Changes next(WorkerNode& node, uint64_t number) {
    auto found = run(node.server().deps.invalidations.wait_after(patient(), number, hours(1)));
    return found.value().value_or(Invalidations()).items;
  }

  InvalidationEndpoint to_a_{network_.executor}, to_b_{network_.executor};
};

TEST_F(InvalidationServiceWorkersTest, ChangeReachesTheOtherCatalog) {
  write("a", "text");
  WorkerNode a(network_, reached_at(to_a_)), b(network_, reached_at(to_b_));
  a.await_ring({&a, &b});
  b.await_ring({&a, &b});
  const ClusterMount mount = mount_data({&a, &b});
  ASSERT_EQ(names(a, mount, hours(1)), 1u);
  ASSERT_EQ(names(b, mount, hours(1)), 1u);
  write("b", "new");
  ASSERT_EQ(names(b, mount, hours(1)), 1u) << "it has cached the names";
  const uint64_t number = b.server().deps.invalidations.number();
  EXPECT_EQ(names(a, mount, Clock::duration(0)), 2u);
  const Changes expected{{.mount = kData, .key = "b", .kind = Kind::kObject}};
  EXPECT_EQ(next(b, number), expected) << "for its clients";
  EXPECT_EQ(names(b, mount, hours(1)), 2u);
  EXPECT_TRUE(to_a_.received().empty()) << "it is passed on once";
}

// A read of the old version fails; the owner checks the store and notifies all.
TEST_F(InvalidationServiceWorkersTest, ReadOfAGoneVersionTellsAll) {
  write("a", "old text");
  WorkerNode a(network_, reached_at(to_a_)), b(network_, reached_at(to_b_));
  a.await_ring({&a, &b});
  b.await_ring({&a, &b});
  const ClusterMount mount = mount_data({&a, &b});
  const FileRefPtr old = file(a, mount, "a");
  write("a", "another text");
  WorkerNode& owning = owner(*a->view(), mount, "a") == a.id() ? a : b;
  WorkerNode& other = &owning == &a ? b : a;
  const uint64_t number = other.server().deps.invalidations.number();
  std::string text;
  const auto reply = read(owning, old, &text);
  ASSERT_FALSE(reply.result);
  EXPECT_EQ(reply.result.error().code(), StatusCode::kVersionChanged);
  const Changes told = next(other, number);
  ASSERT_FALSE(told.empty());
  // Twice, if the owner of the names has found the change, too.
  for (const Invalidation& one : told) {
    EXPECT_EQ(one.mount + " " + one.key, "/data a");
    EXPECT_EQ(one.kind, Kind::kObject);
  }
}

}  // namespace
}  // namespace leat
