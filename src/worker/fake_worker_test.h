// SPDX-License-Identifier: Apache-2.0
// WorkerNode: a ClusterWorker of a cluster in this process, with a real cache and a server that
// only records. FakeNetwork connects the nodes: a request to a worker is a call of its service.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cache/store_fixture_test.h"
#include "cluster/embedded_registry.h"
#include "cluster/faulty_registry_test.h"
#include "cluster/wait_until_test.h"
#include "peer/client/peer_client.h"
#include "peer/fake_cluster_test.h"
#include "peer/sources/cluster_source.h"
#include "telemetry/metrics.h"
#include "worker/cluster_worker.h"

namespace leat::testing {

// A bound for waits that end by an event.
inline Context patient() {
  return Context::background().with_timeout(std::chrono::minutes(1));
}

// FakeLink: the way to one worker, with its faults and counters. Outlives restarts of the worker.
// Thread-safe.
class FakeLink {
 public:
  std::atomic<bool> cut_off = false;  // requests get no answer
  std::atomic<bool> hangs = false;    // requests wait until their context ends
  std::atomic<int> reads = 0, cached_reads = 0, names = 0, cache_ops = 0;

  template <class T>
  using Call = std::function<Task<PeerReply<T>>(Context, Peer&)>;

  // Requests in flight end at close().
  void open(Peer& service) {
    std::lock_guard lock(mutex_);
    server_ = std::make_shared<Server>(service);
  }
  Task<> close() {
    std::shared_ptr<Server> server;
    {
      std::lock_guard lock(mutex_);
      server.swap(server_);
    }
    if (server == nullptr) co_return;
    server->stopping.request_stop();
    server->gate.close();
    co_await server->gate.wait_idle();
  }

  template <class T>
  static Task<PeerReply<T>> pass(std::shared_ptr<FakeLink> self, Context context, Call<T> call) {
    const std::shared_ptr<Server> server = self->server();
    std::optional<Gate::Holder> holder;
    if (server != nullptr) holder = server->gate.enter();
    if (!holder || self->cut_off) co_return unreachable<T>();
    std::stop_source ending;
    std::stop_callback by_caller(context.cancel, [&ending] { ending.request_stop(); });
    std::stop_callback by_server(server->stopping.get_token(),
                                 [&ending] { ending.request_stop(); });
    const Context until_end = context.with_cancel(ending.get_token());
    if (self->hangs) {
      Result<> ended = co_await sleep_for(until_end, std::chrono::hours(1));
      static_cast<void>(ended);
      co_return unreachable<T>();
    }
    PeerReply<T> reply = co_await call(until_end, server->service);
    co_return reply;
  }

 private:
  struct Server {
    explicit Server(Peer& of) : service(of) {}
    Peer& service;
    Gate gate;
    std::stop_source stopping;
  };
  template <class T>
  static PeerReply<T> unreachable() {
    return {PeerOutcome::kUnreachable, error(StatusCode::kUnavailable, "made not to answer"), 0};
  }
  std::shared_ptr<Server> server() {
    std::lock_guard lock(mutex_);
    return server_;
  }

  std::mutex mutex_;  // leaf
  std::shared_ptr<Server> server_;
};
using FakeLinkPtr = std::shared_ptr<FakeLink>;

// LinkedStaging and LinkedWrites: those parts of a worker over its link.
class LinkedStaging : public StagingPeer {
 public:
  explicit LinkedStaging(FakeLinkPtr link) : link_(std::move(link)) {}

  Task<PeerReply<SourceObject>> append(Context context, StagedAppend request) override {
    return pass<SourceObject>(std::move(context), [=](Context c, StagingPeer& to) {
      return to.append(std::move(c), request);
    });
  }
  Task<PeerReply<StagedEvents>> events(Context context, StagedEventsRequest request) override {
    return pass<StagedEvents>(std::move(context), [=](Context c, StagingPeer& to) {
      return to.events(std::move(c), request);
    });
  }
  Task<PeerReply<uint64_t>> wait_sent(Context context, StagedWait request) override {
    return pass<uint64_t>(std::move(context), [=](Context c, StagingPeer& to) {
      return to.wait_sent(std::move(c), request);
    });
  }
  Task<PeerReply<uint64_t>> replicate(Context context, StagedReplicate request) override {
    return pass<uint64_t>(std::move(context), [=](Context c, StagingPeer& to) {
      return to.replicate(std::move(c), request);
    });
  }
  Task<PeerReply<uint64_t>> put_content(Context context, StagedPiece piece,
                                        std::span<const std::byte> bytes) override {
    return pass<uint64_t>(std::move(context), [=](Context c, StagingPeer& to) {
      return to.put_content(std::move(c), piece, bytes);
    });
  }
  Task<PeerReply<uint64_t>> drop_content(Context context, Id128 content) override {
    return pass<uint64_t>(std::move(context), [=](Context c, StagingPeer& to) {
      return to.drop_content(std::move(c), content);
    });
  }
  Task<PeerReply<std::string>> read_content(Context context, Id128 content,
                                            ByteRange range) override {
    return pass<std::string>(std::move(context), [=](Context c, StagingPeer& to) {
      return to.read_content(std::move(c), content, range);
    });
  }
  Task<PeerReply<SourceObject>> send_content(Context context, StagedSend request) override {
    return pass<SourceObject>(std::move(context), [=](Context c, StagingPeer& to) {
      return to.send_content(std::move(c), request);
    });
  }

 private:
  template <class T, class F>
  Task<PeerReply<T>> pass(Context context, F call) {
    return FakeLink::pass<T>(link_, std::move(context), [call](Context c, Peer& to) {
      return call(std::move(c), *to.staging());
    });
  }

  const FakeLinkPtr link_;
};

class LinkedWrites : public WritePeer {
 public:
  explicit LinkedWrites(FakeLinkPtr link) : link_(std::move(link)) {}

  Task<PeerReply<SourceObject>> write(Context context, PeerWrite request, PeerRoute route,
                                      std::span<const std::byte> content) override {
    return FakeLink::pass<SourceObject>(link_, std::move(context), [=](Context c, Peer& to) {
      return to.writes()->write(std::move(c), request, route, content);
    });
  }
  Task<PeerReply<SourceObject>> change(Context context, PeerChange request,
                                       PeerRoute route) override {
    return FakeLink::pass<SourceObject>(link_, std::move(context), [=](Context c, Peer& to) {
      return to.writes()->change(std::move(c), request, route);
    });
  }

 private:
  const FakeLinkPtr link_;
};

// LinkedPeer: a worker as others reach it over its link.
class LinkedPeer : public Peer {
 public:
  explicit LinkedPeer(FakeLinkPtr link) : link_(link), staging_(link), writes_(std::move(link)) {}

  StagingPeer* staging() override { return &staging_; }
  WritePeer* writes() override { return &writes_; }

  bool usable() const override { return !link_->cut_off; }
  Task<PeerReply<void>> read(Context context, PeerRead request,
                             std::span<std::byte> into) override {
    ++link_->reads;
    if (request.only_if_cached) ++link_->cached_reads;
    return pass<void>(context,
                      [=](Context c, Peer& to) { return to.read(std::move(c), request, into); });
  }
  Task<PeerReply<ListPage>> list(Context context, PeerList request) override {
    ++link_->names;
    return pass<ListPage>(context,
                          [=](Context c, Peer& to) { return to.list(std::move(c), request); });
  }
  Task<PeerReply<SourceObject>> stat(Context context, PeerStat request) override {
    ++link_->names;
    return pass<SourceObject>(context,
                              [=](Context c, Peer& to) { return to.stat(std::move(c), request); });
  }
  Task<PeerReply<uint64_t>> cache_op(Context context, PeerCacheOp request) override {
    ++link_->cache_ops;
    return pass<uint64_t>(context,
                          [=](Context c, Peer& to) { return to.cache_op(std::move(c), request); });
  }
  Task<PeerReply<uint64_t>> drop(Context context, std::vector<FileId> files) override {
    return pass<uint64_t>(context,
                          [=](Context c, Peer& to) { return to.drop(std::move(c), files); });
  }
  Task<PeerReply<VerifyProgress>> verify(Context context, uint64_t job) override {
    return pass<VerifyProgress>(context,
                                [=](Context c, Peer& to) { return to.verify(std::move(c), job); });
  }
  Task<PeerReply<CopyStep>> copy(Context context, PeerCopy request) override {
    return pass<CopyStep>(context,
                          [=](Context c, Peer& to) { return to.copy(std::move(c), request); });
  }

 private:
  template <class T>
  Task<PeerReply<T>> pass(Context context, FakeLink::Call<T> call) {
    return FakeLink::pass<T>(link_, std::move(context), std::move(call));
  }

  const FakeLinkPtr link_;
  LinkedStaging staging_;
  LinkedWrites writes_;
};

// FakeNetwork: the executor, the registry, the secret and the links of a cluster.
class FakeNetwork {
 public:
  FakeNetwork() : registry_(EmbeddedRegistry::open({}, make_disk(executor), executor).value()) {}
  ~FakeNetwork() { executor.block_on(registry_->stop()); }

  Executor executor{{.threads = 4}};
  const std::string secret = make_secret();

  Registry& registry() { return *registry_; }
  // A folder for file:// stores that each node allows.
  const std::string& stores() const { return stores_path_; }
  FakeLinkPtr link(const WorkerId& id) {
    std::lock_guard lock(mutex_);
    FakeLinkPtr& link = links_[id];
    if (link == nullptr) link = std::make_shared<FakeLink>();
    return link;
  }
  // A worker with an address of loopback gets invalidations there, and serves nothing else.
  PeerPtr connect(const WorkerInfo& info, std::shared_ptr<RequestSigner> signer) {
    if (!info.address.starts_with("127.")) return std::make_shared<LinkedPeer>(link(info.id));
    PeerClientOptions options{.address = info.address, .worker = info.id};
    return PeerClient::make(std::move(options), std::move(signer), executor).value();
  }
  // Returns the keys of all records that begin with `prefix`.
  std::vector<std::string> keys(const std::string& prefix) {
    std::vector<std::string> keys;
    const auto entries = executor.block_on(registry_->list(patient(), prefix)).value().entries;
    for (const RegistryEntry& entry : entries) keys.push_back(entry.key);
    return keys;
  }

 private:
  TempDirectory stores_;
  const std::string stores_path_ =
      std::filesystem::path(stores_.path()).lexically_normal().string();
  std::unique_ptr<Registry> registry_;
  std::mutex mutex_;  // leaf
  std::map<WorkerId, FakeLinkPtr> links_;
};

// FakeWorkerServer: records its parts, and serves by the worker's link.
class FakeWorkerServer : public WorkerServer {
 public:
  FakeWorkerServer(const WorkerServerDeps& parts, FakeLinkPtr link, std::string address,
                   std::function<void()> on_stop)
      : deps(parts),
        link_(std::move(link)),
        address_(std::move(address)),
        on_stop_(std::move(on_stop)) {
    link_->open(deps.service);
  }

  const WorkerServerDeps deps;
  ClusterJobStore* jobs = nullptr;

  std::string address() const override { return address_; }
  std::string fd_socket() const override { return "/run/fake.sock"; }
  void set_job_store(ClusterJobStore& store) override { jobs = &store; }
  Task<> stop() override {
    if (on_stop_) on_stop_();
    return link_->close();
  }

 private:
  const FakeLinkPtr link_;
  const std::string address_;
  const std::function<void()> on_stop_;
};

struct WorkerNodeOptions {
  std::string secret{};                                   // text; empty: the network's
  std::string advertise{};                                // as in ClusterWorkerOptions
  std::optional<std::vector<std::string>> local_paths{};  // nothing: the network's stores
  // Returns the worker's connection to the registry; null: one without faults at first.
  std::function<std::unique_ptr<FaultyRegistry>(Registry&)> connect_registry{};
  bool registry_down = false;            // the registry is disconnected at first
  std::optional<Status> server_fails{};  // the server does not start
  // Returns the address of the server; null: any.
  std::function<std::string(const WorkerServerDeps&)> listen{};
  std::function<void()> on_server_stop{};
  Clock::duration absence_timeout = std::chrono::minutes(10);
  StagingPrimaryOptions staging{};
  std::string failure_domain{};
};

class WorkerNode {
 public:
  explicit WorkerNode(FakeNetwork& network, WorkerNodeOptions options = {})
      : network_(network), options_(std::move(options)) {
    set_secret(options_.secret.empty() ? network_.secret : options_.secret);
    std::filesystem::create_directory(directory_.path() + "/scratch");
    Executor& executor = network_.executor;
    auto make = [&executor] { return std::make_shared<FaultyDisk>(make_disk(executor)); };
    cache_ = executor
                 .block_on(HostCache::open(
                     patient(), {TestStore::options(directory_.path() + "/cache")}, executor, make))
                 .value();
    if (!options_.server_fails) start();
  }
  ~WorkerNode() {
    stop();
    network_.executor.block_on(cache_->close());
  }

  void start() { worker_ = try_start(*cache_).value(); }
  Result<std::unique_ptr<ClusterWorker>> try_start(HostCache& cache) {
    auto registry = options_.connect_registry
                        ? options_.connect_registry(network_.registry())
                        : std::make_unique<FaultyRegistry>(network_.registry());
    if (options_.registry_down) registry->disconnect();
    registry_ = registry.get();
    ClusterWorkerOptions options{.cluster = "test",
                                 .advertise = options_.advertise,
                                 .host_id = "host",
                                 .host_name = "node",
                                 .version = "1"};
    options.local_paths =
        LocalPaths(options_.local_paths.value_or(std::vector<std::string>{network_.stores()}));
    options.scratch_directory = directory_.path() + "/scratch";
    options.staging_directory = directory_.path() + "/staging";
    options.staging_bytes_max = 1 * kGiB;
    options.staging = options_.staging;
    options.failure_domain = options_.failure_domain;
    options.ttl = std::chrono::seconds(20);  // no lease ends by itself, however slow the machine is
    options.ring = {.absence_timeout = options_.absence_timeout,
                    .debounce = std::chrono::milliseconds(1),
                    .interval_per_member = Clock::duration(0)};
    ClusterWorkerNetwork network{
        .start_server = [this](const WorkerServerDeps& deps,
                               Executor&) { return start_server(deps); },
        .connect =
            [&net = network_](const WorkerInfo& info, std::shared_ptr<RequestSigner> signer) {
              return net.connect(info, std::move(signer));
            }};
    return ClusterWorker::start(std::move(options), std::move(network), std::move(registry),
                                SecretFile::open(secret_path()).value(), cache, network_.executor);
  }
  void stop() {
    if (worker_ == nullptr) return;
    network_.executor.block_on(worker_->stop());
    worker_ = nullptr;
    server_ = nullptr;
  }
  void set_secret(const std::string& text) {
    const std::string next = secret_path() + ".new";
    std::ofstream(next) << text;
    ASSERT_EQ(::chmod(next.c_str(), 0600), 0);
    std::filesystem::rename(next, secret_path());
  }

  ClusterWorker* operator->() { return worker_.get(); }
  FakeWorkerServer& server() { return *server_; }
  FaultyRegistry& registry() { return *registry_; }
  HostCache& cache() { return *cache_; }
  WorkerId id() const { return cache_->worker(); }
  FakeLink& link() { return *network_.link(id()); }
  FakeNetwork& network() { return network_; }

  // Returns the first view for which `holds` returns true; a failure after a minute.
  template <class F>
  ClusterViewPtr await_view(F holds) {
    const Context context = patient();
    for (RegistryRevision seen = 0;;) {
      const auto view = network_.executor.block_on(server_->deps.views.newer(context, seen));
      if (!view) ADD_FAILURE() << "no such view: " << view.error().to_string();
      if (!view) return server_->deps.views.view();
      if (holds(**view)) return *view;
      seen = (*view)->revision;
    }
  }
  // Waits until exactly these nodes are in the ring and present.
  ClusterViewPtr await_ring(const std::vector<const WorkerNode*>& nodes) {
    return await_view([&](const ClusterView& view) {
      if (view.ring.members().size() != nodes.size()) return false;
      return std::ranges::all_of(nodes, [&](const WorkerNode* node) {
        const auto& members = view.ring.members();
        return std::ranges::find(members, node->id(), &RingMember::worker) != members.end() &&
               view.worker(node->id()) != nullptr;
      });
    });
  }

 private:
  std::string secret_path() const { return directory_.path() + "/secret"; }
  Result<std::unique_ptr<WorkerServer>> start_server(const WorkerServerDeps& deps) {
    if (options_.server_fails) return Error(*options_.server_fails);
    auto server = std::make_unique<FakeWorkerServer>(
        deps, network_.link(id()),
        options_.listen ? options_.listen(deps) : "fake-" + id().to_hex() + ":7480",
        options_.on_server_stop);
    server_ = server.get();
    return server;
  }

  FakeNetwork& network_;
  const WorkerNodeOptions options_;
  TempDirectory directory_;
  std::unique_ptr<HostCache> cache_;
  std::unique_ptr<ClusterWorker> worker_;
  FaultyRegistry* registry_ = nullptr;  // owned by the worker
  FakeWorkerServer* server_ = nullptr;  // same
};

// FakeClient: a client of the cluster that follows the views of one node.
class FakeClient {
 public:
  explicit FakeClient(WorkerNode& node) : node_(node), views_(node.server().deps.views) {
    source_ = make_cluster_source({.cluster = "test", .name = "leat://test"}, views_, peers_);
  }

  Result<ListPage> list(const std::string& prefix) {
    return run(source_->list(patient(), {.prefix = prefix, .token = {}}));
  }
  Result<SourceObject> stat(const std::string& key) {
    return run(source_->stat(patient(), {.key = key}));
  }
  Result<std::string> read(const std::string& key) {
    LEAT_TRY(const SourceObject object, stat(key));
    return read(object);
  }
  Result<SourceObject> write(const std::string& key, const std::string& text,
                             WriteCondition condition = {}) {
    return run(source_->write(patient(), {.key = key, .condition = condition},
                              std::as_bytes(std::span(text))));
  }
  Result<> rename(const std::string& from, const std::string& to) {
    return run(source_->rename(patient(), {.from = from, .to = to}));
  }
  Result<> remove(const std::string& key) {
    return run(source_->remove(patient(), {.keys = {key}}));
  }
  Source& source() { return *source_; }

  Result<std::string> read(const SourceObject& object) {
    std::string text(object.size, '\0');
    ReadRequest request{.key = object.key,
                        .range = {0, object.size},
                        .if_version = object.version,
                        .object_size = object.size};
    Result<> done =
        run(source_->read(patient(), std::move(request), std::as_writable_bytes(std::span(text))));
    if (!done) return Error(done.error());
    return text;
  }

 private:
  template <class T>
  T run(Task<T> task) {
    peers_.update(*views_.view());
    return node_.network().executor.block_on(std::move(task));
  }

  WorkerNode& node_;
  ClusterViewSource& views_;
  PeerTable peers_{
      [this](const WorkerInfo& info) { return node_.network().connect(info, node_->signer()); }};
  SourcePtr source_;
};

// ClusterWorkerTestBase: stores of files, mounts, and direct requests to a node.
class ClusterWorkerTestBase : public ::testing::Test {
 protected:
  static constexpr char kData[] = "/data";

  std::string folder(const std::string& name = "data") const {
    return network_.stores() + "/" + name;
  }
  void write(const std::string& name, const std::string& text, const std::string& in = "data") {
    const std::filesystem::path path = folder(in) + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void remove(const std::string& name) {
    ASSERT_TRUE(std::filesystem::remove(folder() + "/" + name));
  }
  // Any text, different for each name.
  static std::string text_of(const std::string& name, size_t size) {
    std::string text;
    while (text.size() < size) text += fmt::format("{}@{} ", name, text.size());
    text.resize(size);
    return text;
  }

  template <class T>
  T run(Task<T> task) {
    return network_.executor.block_on(std::move(task));
  }
  Result<ClusterMount> add_mount(WorkerNode& node, const std::string& path,
                                 const std::string& source,
                                 std::map<std::string, std::string> options = {}) {
    ClusterMount mount{.path = path, .source = source, .options = std::move(options)};
    return run(node->add_mount(patient(), std::move(mount)));
  }
  // Mounts the folder at kData, and waits until all of the nodes serve it.
  ClusterMount mount_data(const std::vector<WorkerNode*>& nodes) {
    std::filesystem::create_directories(folder());
    const ClusterMount mount = add_mount(*nodes.front(), kData, "file://" + folder()).value();
    for (WorkerNode* node : nodes) await_served(*node, mount);
    return mount;
  }
  // Requests with this route are answered by any worker that serves the mount.
  static PeerRoute to_any(WorkerNode& node) {
    return {.epoch = 0, .failover_for = node.id(), .replicas = 1};
  }
  bool is_served(WorkerNode& node, const ClusterMount& mount) {
    PeerList list{.mount = mount.path, .store = mount.store, .prefix = mount.prefix};
    list.age_max = std::chrono::hours(1);
    list.route = to_any(node);
    return run(node->service()->list(patient(), std::move(list))).outcome != PeerOutcome::kNotOwner;
  }
  void await_served(WorkerNode& node, const ClusterMount& mount) {
    EXPECT_TRUE(wait_until([&] { return is_served(node, mount); })) << mount.path;
  }

  FileRefPtr file(WorkerNode& node, const ClusterMount& mount, const std::string& name) {
    PeerStat stat{.mount = mount.path, .store = mount.store, .key = mount.prefix + name};
    stat.route = to_any(node);
    const SourceObject object = run(node->service()->stat(patient(), stat)).result.value();
    return std::make_shared<const FileRef>(
        FileRef::make(mount.store, object.key, object.version, object.size));
  }
  // A read of the whole file as of its owner.
  PeerReply<void> read(WorkerNode& node, const FileRefPtr& file, std::string* text) {
    text->assign(file->size, '\0');
    PeerRead read{.mount = kData, .file = file, .range = {0, file->size}};
    return run(node->service()->read(patient(), std::move(read),
                                     std::as_writable_bytes(std::span(*text))));
  }
  Result<uint64_t> ensure(WorkerNode& node, const FileRefPtr& file) {
    PeerCacheOp ensure{.op = CacheOp::kEnsure, .mount = kData, .file = file};
    ensure.range = {0, file->size};
    return run(node->service()->cache_op(patient(), std::move(ensure))).result;
  }
  static bool is_cached(WorkerNode& node, const FileRefPtr& file) {
    return node.cache().missing(*file, {0, file->size}).empty();
  }
  static WorkerId owner(const ClusterView& view, const ClusterMount& mount,
                        const std::string& name) {
    return view.ring.owner(PlacementKey::stripe(mount.store, mount.prefix + name, 0));
  }
  // Returns a name that this node owns.
  static std::string name_owned_by(const WorkerNode& node, const ClusterView& view,
                                   const ClusterMount& mount, const std::string& stem = "f") {
    for (int i = 0; i < 10'000; ++i) {
      const std::string name = fmt::format("{}{}", stem, i);
      if (owner(view, mount, name) == node.id()) return name;
    }
    ADD_FAILURE() << "the node owns nothing";
    return stem;
  }
  // Returns the bytes read from all stores.
  static double store_bytes() {
    double bytes = 0;
    for (const MetricSample& sample : metrics_samples()) {
      if (sample.name == "leat_source_bytes_total") bytes += sample.value;
    }
    return bytes;
  }

  FakeNetwork network_;
};

}  // namespace leat::testing
