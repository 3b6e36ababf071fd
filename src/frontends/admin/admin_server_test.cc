// SPDX-License-Identifier: Apache-2.0
#include "frontends/admin/admin_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "frontends/admin/codec_cluster.h"
#include "http/client.h"
#include "http/server/server.h"

namespace leat {
namespace {

class NamedSource : public Source {
 public:
  const StoreId& id() const override { return id_; }
  const std::string& name() const override { return name_; }
  const SourceCapabilities& capabilities() const override { return capabilities_; }
  Task<Result<SourceObject>> stat(Context, StatRequest request) override {
    co_return error(StatusCode::kNotFound, request.key);
  }
  Task<Result<ListPage>> list(Context, ListRequest) override { co_return ListPage{}; }
  Task<Result<>> read(Context, ReadRequest, std::span<std::byte>) override { co_return Result<>(); }

 private:
  StoreId id_ = make_store_id("test", "", "", "b");
  std::string name_ = "test://b";
  SourceCapabilities capabilities_;
};

// One mount at /m with the files that a test adds.
class FixedCatalog : public Catalog {
 public:
  FixedCatalog() {
    mount_->entry.path = "/m";
    mount_->source = std::make_shared<NamedSource>();
  }
  void set_freshness(Freshness freshness) { mount_->entry.policy.freshness = freshness; }
  void add_file(const std::string& name, uint64_t size, CacheUse cache = CacheUse::kDisk) {
    CatalogEntry entry;
    entry.info = {name, FileKind::kFile, size, WallTime{}};
    entry.mount = mount_;
    entry.ref = std::make_shared<FileRef>(
        FileRef::make(mount_->source->id(), "data/" + name, Version::etag("\"1\""), size, cache));
    files_[name] = entry;
  }
  std::atomic<int> lists = 0;
  uint64_t skipped = 0;

  Result<> mount(MountEntry, SourcePtr, SnapshotPtr) override { return {}; }
  Task<Result<>> use_snapshot(std::string, SnapshotPtr) override { co_return Result<>(); }
  Task<Result<>> set_policy(std::string, Policy) override { co_return Result<>(); }
  Result<> move(std::string, std::string, Policy) override { return {}; }
  Task<Result<RefreshResult>> refresh(Context, std::string) override { co_return RefreshResult{}; }
  Task<Result<RefreshResult>> refresh_name(Context, std::string) override {
    co_return RefreshResult{};
  }
  void note_changed(const std::string&, const std::optional<SourceObject>&) override {}
  std::vector<std::string> cached_directories(std::string_view) const override { return {}; }
  std::vector<std::string> directories_by_use(std::string_view) const override { return {}; }
  Result<> unmount(std::string) override { return {}; }
  std::vector<MountPtr> mounts() const override { return {mount_}; }
  std::optional<Result<CatalogEntry>> try_lookup(std::string_view) override { return {}; }
  Task<Result<CatalogEntry>> lookup(Context, std::string path) override {
    if (path == "/m") {
      CatalogEntry root;
      root.info.kind = FileKind::kDirectory;
      root.mount = mount_;
      root.directory_key = "data/";
      co_return root;
    }
    auto found = files_.find(path.substr(std::min<size_t>(path.size(), 3)));
    if (!path.starts_with("/m/") || found == files_.end()) {
      co_return error(StatusCode::kNotFound, "there is no " + path);
    }
    co_return found->second;
  }
  Task<Result<CatalogEntry>> lookup_for_open(Context context, std::string path) override {
    return lookup(std::move(context), std::move(path));
  }
  ListingPtr try_list(std::string_view) override { return nullptr; }
  Task<Result<ListingPtr>> list(Context, std::string) override {
    ++lists;
    std::vector<CatalogEntry> entries;
    for (const auto& [name, entry] : files_) entries.push_back(entry);
    co_return Listing::of(std::move(entries), Clock::now(), skipped);
  }
  void invalidate(std::string_view) override {}
  void expire(std::string_view) override {}
  void report_changed(std::string_view) override {}
  void set_change_listener(std::function<void(const CatalogChange&)>) override {}
  Task<> stop() override { co_return; }

 private:
  const std::shared_ptr<Mount> mount_ = std::make_shared<Mount>();
  std::map<std::string, CatalogEntry> files_;  // sorted by bytes, as listings are
};

std::byte byte_at(uint64_t offset) {
  return static_cast<std::byte>(offset * 31 % 251);
}

class PatternFetcher : public Fetcher {
 public:
  uint64_t fails_from = UINT64_MAX;

  Task<Result<Bytes>> read(Context, FileRefPtr ref, ByteRange range) override {
    if (range.end() > ref->size) co_return error(StatusCode::kOutOfRange, "past the end");
    if (range.end() > fails_from) co_return error(StatusCode::kUnavailable, "the store is away");
    Buffer buffer(range.size);
    for (uint64_t i = 0; i < range.size; ++i) buffer.span()[i] = byte_at(range.offset + i);
    co_return Bytes(std::move(buffer));
  }
  StreamedReadPtr stream(FileRefPtr, ByteRange) override { return nullptr; }
  std::optional<Bytes> try_read(const FileRef&, ByteRange) override { return {}; }
  bool prefetch(FileRefPtr, ByteRange) override { return true; }
  Task<Result<uint64_t>> ensure(Context, FileRefPtr, ByteRange) override { co_return 0; }
  Task<> stop() override { co_return; }
  FetcherStats stats() const override { return {}; }
};

class RecordingDaemon : public DaemonApi {
 public:
  Task<Result<MountView>> mount(Context, MountRequest request) override {
    if (request.source == "s3://taken") {
      co_return error(
          Status(StatusCode::kExists, "there is a mount already", {StatusCode::kBusy, "why"}));
    }
    mounted = request;
    co_return MountView{.path = request.path, .source = request.source, .uid = request.uid};
  }
  Task<Result<>> unmount(Context, std::string path, bool lazy) override {
    unmounted = fmt::format("{} {}", path, lazy);
    co_return Result<>();
  }
  Task<Result<MountView>> change_mount(Context, MountChange change) override {
    changed = change;
    co_return MountView{.path = change.path, .paths = {{"a", {{"pin", "true"}}}}};
  }
  Task<Result<FlushView>> flush(Context, FlushRequest request) override {
    co_return FlushView{.done = request.path == "/done", .unsent = {.changes = 3, .bytes = 5}};
  }
  Task<Result<MountView>> move_mount(Context, MountMove move) override {
    moved = move;
    co_return MountView{.path = move.to};
  }
  std::vector<MountView> mounts() const override { return mount_views; }
  DaemonStatus status() const override {
    DaemonStatus status{.version = "1.2.3", .pid = 7, .mounts = mounts()};
    status.clusters = {{.role = "worker",
                        .name = "train",
                        .address = "h:1",
                        .worker = "aa",
                        .leader = "bb",
                        .epoch = 9,
                        .workers = 4,
                        .draining = 1,
                        .down = 2,
                        .unresponsive = 3,
                        .share = 0.25,
                        .mounts = 6,
                        .mounts_rejected = 5,
                        .trouble = "no etcd"}};
    status.unavailable = {
        {.store = "s3://b", .seconds = 12.5, .waiting = 3, .reason = "connection refused"}};
    status.cache.directories = {
        {.path = "/c", .state = DirectoryState::kUnstable, .why = "EIO", .stats = {}}};
    status.cache.stats.used_bytes = 5;
    status.cache.pools = {
        {.id = pool_of_mount("/m"),
         .policy = {.name = "/m",
                    .quota_bytes = 7,
                    .ttl = std::chrono::milliseconds(1500),
                    .priority = Priority::kHigh,
                    .pinned = true},
         .used_bytes = 3,
         .unlinked_bytes = 1,
         .cyclic = true},
        {.id = PoolId::kNone, .policy = {}, .used_bytes = 2, .unlinked_bytes = 0, .cyclic = false}};
    status.counters = {{"leat_x_total{origin=\"cache\"}", 3}};
    return status;
  }
  HistoryView history() const override {
    return {.pid = 7, .step_seconds = 5, .ages_seconds = {5.5, 0.5}, .series = {{"a", {1, 2}}}};
  }
  std::vector<ErrorView> errors() const override {
    return {{.mount = "/m", .path = "k\xff", .code = StatusCode::kUnavailable, .reason = "away"}};
  }
  Findings findings() const override {
    return {{Level::kProblem, "errors.store", "/m\xff", "a path failed", "an error", "look"}};
  }
  Result<JobView> start_job(JobRequest request) override {
    if (request.kind != "load") return error(StatusCode::kInvalidArgument, "unknown kind");
    return JobView{.id = 1, .kind = request.kind, .path = request.path, .state = "running"};
  }
  std::vector<JobView> jobs() const override {
    return {{.id = 1, .kind = "load", .state = "done"}};
  }
  Result<JobView> job(uint64_t id) const override {
    if (id != 1) return error(StatusCode::kNotFound, "no such job");
    return JobView{.id = 1, .state = "failed", .errors = {"a: b"}};
  }
  Result<JobView> cancel_job(uint64_t id) override {
    cancelled = id;
    return job(id);
  }
  Task<Result<ObjectPage>> cached_objects(Context, std::string after, size_t) override {
    if (after == "bad") co_return error(StatusCode::kInvalidArgument, "bad place");
    ObjectPage page;
    CachedObject object{
        .ref = FileRef::make(make_store_id("s3", "", "", "b"), "k\xff", Version::etag("\"1\""), 9),
        .cached_bytes = 4,
        .packed = true,
        .complete = true,
        .directory = "/c"};
    object.ref.pool = pool_of_mount("/m");
    page.objects.push_back(object);
    if (after.empty()) page.next = "0:f";
    co_return page;
  }
  Task<Result<EvictView>> evict(Context, EvictRequest request) override {
    evicted = request;
    co_return EvictView{77};
  }
  Task<Result<std::vector<SnapshotView>>> snapshots(Context) override {
    co_return std::vector{snapshot};
  }
  Result<> upgrade(UpgradeRequest request) override {
    upgraded = request.executable;
    return {};
  }
  Task<Result<>> use_snapshot(Context, SnapshotUse use) override {
    if (use.name == "none") co_return error(StatusCode::kNotFound, "no such snapshot");
    snapshot_use = use;
    co_return Result<>();
  }
  Task<Result<>> remove_snapshot(Context, std::string name) override {
    removed = name;
    co_return Result<>();
  }
  std::vector<OptionView> options() const override {
    return {{.name = "log.level",
             .value = "info",
             .origin = "file",
             .place = "/f:3",
             .reloadable = true}};
  }
  Result<ReloadView> reload_options() override {
    return ReloadView{.changed = {"log.level"}, .waiting = {"cache.size"}};
  }
  void shut_down() override { shut_down_requested = true; }

  std::vector<MountView> mount_views = {{.path = "/m",
                                         .source = "test://b/data/",
                                         .features = {{"passthrough", false}},
                                         .passthrough_off = "it was not requested"}};
  MountRequest mounted;
  MountChange changed;
  MountMove moved;
  std::string unmounted;
  EvictRequest evicted;
  SnapshotView snapshot{.name = "n",
                        .file = "/s/n.snapshot",
                        .source = "s3://b/p/",
                        .created = WallTime(std::chrono::seconds(1)),
                        .files = 2,
                        .directories = 1,
                        .bytes = 3,
                        .skipped = 4,
                        .file_bytes = 5,
                        .used_by = {"/m"},
                        .broken = "it is cut short"};
  SnapshotUse snapshot_use;
  std::string upgraded;
  std::string removed;
  uint64_t cancelled = 0;
  bool shut_down_requested = false;
};

// A daemon that is no worker, or a worker with one mount.
class RecordingCluster : public ClusterApi {
 public:
  Task<Result<ClusterStatusView>> cluster_status() override {
    if (!worker) co_return error(StatusCode::kUnsupported, "no worker");
    co_return view;
  }
  Task<Result<ClusterMountView>> add_cluster_mount(Context, ClusterMountRequest request) override {
    co_return ClusterMountView{
        .path = request.path, .source = request.source, .options = request.options};
  }
  Task<Result<>> remove_cluster_mount(Context, std::string path) override {
    removed = std::move(path);
    co_return Result<>();
  }
  Task<Result<>> drain_worker(Context, ClusterDrainRequest request) override {
    undrain = request.undrain;
    bandwidth = request.bandwidth;
    co_return Result<>();
  }
  Task<Result<std::vector<SnapshotView>>> cluster_snapshots(Context, std::string path) override {
    co_return std::vector{SnapshotView{.name = "of " + path}};
  }
  Task<Result<>> remove_cluster_snapshot(Context, std::string path, std::string name) override {
    removed = path + " " + name;
    co_return Result<>();
  }
  Task<Result<ClusterJobView>> start_cluster_job(Context, ClusterJobRequest request) override {
    started_job = std::move(request);
    co_return job_view();
  }
  Task<Result<std::vector<ClusterJobView>>> cluster_jobs(Context) const override {
    co_return std::vector<ClusterJobView>{job_view()};
  }
  Task<Result<ClusterJobView>> cluster_job(Context, uint64_t id) const override {
    if (id == 7) co_return job_view();
    co_return error(StatusCode::kNotFound, "no such job");
  }
  Task<Result<ClusterJobView>> cancel_cluster_job(Context context, uint64_t id) override {
    cancelled = id;
    co_return co_await cluster_job(std::move(context), id);
  }
  static ClusterJobView job_view() {
    return {.job = {.id = 7, .kind = "load", .path = "/a\xff", .state = "waiting"},
            .principal = "me",
            .worker = "01",
            .starts = 2,
            .schedule = {.every_seconds = 60, .on_change = true},
            .runs = 3};
  }

  ClusterJobRequest started_job;
  uint64_t cancelled = 0;

  bool worker = false;
  std::optional<bool> undrain;
  uint64_t bandwidth = 0;
  std::string removed;
  ClusterStatusView view{
      .name = "t",
      .self = "01",
      .leader = "02",
      .epoch = 5,
      .trouble = "etcd does not answer",
      .workers = {{.id = "01", .address = "a:1", .host = "h", .state = "active", .share = 0.5}},
      .mounts = {{.path = "/d", .source = "s3://b", .options = {{"region", "x"}}, .trouble = "no"}},
      .drain = ClusterDrainView{.ended = true, .objects_done = 3, .errors = {"why"}}};
};

class AdminServerTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "/leat_admin_" + Id128::random().to_hex();
    endpoint_ = HttpEndpoint::unix_socket(path_);
    server_ = HttpServer::start(endpoint_, admin_.control_router(), {}, executor_).value();
  }
  void TearDown() override { executor_.block_on(server_->stop()); }

  HttpResponse send_request(std::string method, std::string path,
                            std::map<std::string, std::string> query = {}, std::string body = "") {
    HttpRequest request{.method = std::move(method), .path = std::move(path)};
    request.query = std::move(query);
    request.body = std::move(body);
    auto response = executor_.block_on(HttpClient(endpoint_).request({}, std::move(request)));
    if (!response) return HttpResponse::text(0, response.error().to_string());
    return *response;
  }
  Json get_json(std::string method, std::string path,
                std::map<std::string, std::string> query = {}) {
    return Json::parse(send_request(std::move(method), std::move(path), std::move(query)).body);
  }
  static std::string pattern(uint64_t from, uint64_t size) {
    std::string text(size, 0);
    for (uint64_t i = 0; i < size; ++i) text[i] = static_cast<char>(byte_at(from + i));
    return text;
  }

  Executor executor_;
  RecordingDaemon daemon_;
  RecordingCluster cluster_;
  FixedCatalog catalog_;
  PatternFetcher fetcher_;
  AdminServer admin_{daemon_, cluster_, catalog_, fetcher_, nullptr};
  std::string path_;
  HttpEndpoint endpoint_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(AdminServerTest, StatusAndMountsSurviveTheWay) {
  auto status = from_json<DaemonStatus>(get_json("GET", "/v1/status"));
  ASSERT_TRUE(status) << status.error().to_string();
  EXPECT_EQ(status->version, "1.2.3");
  EXPECT_EQ(status->cache.stats.used_bytes, 5u);
  EXPECT_EQ(status->cache.pools, daemon_.status().cache.pools);
  EXPECT_EQ(status->counters, daemon_.status().counters);
  EXPECT_EQ(status->mounts, daemon_.mounts());
  EXPECT_EQ(status->clusters, daemon_.status().clusters);
  EXPECT_EQ(status->unavailable, daemon_.status().unavailable);
  EXPECT_EQ(get_json("GET", "/v1/mounts")["mounts"][0]["path"], "/m");
}

TEST_F(AdminServerTest, HistorySurvivesTheWay) {
  auto history = from_json<HistoryView>(get_json("GET", "/v1/history"));
  ASSERT_TRUE(history) << history.error().to_string();
  EXPECT_EQ(history->pid, 7);
  EXPECT_EQ(history->step_seconds, 5);
  EXPECT_EQ(history->ages_seconds, daemon_.history().ages_seconds);
  EXPECT_EQ(history->series, daemon_.history().series);
}

TEST_F(AdminServerTest, WhatIsBelowWaitsForNoStore) {
  const Json sum = get_json("GET", "/v1/below", {{"path", "/m"}});
  EXPECT_EQ(sum, (Json{{"files", 0}, {"bytes", 0}, {"cached_bytes", 0}, {"partial", true}}));
  EXPECT_EQ(catalog_.lists, 0);
  EXPECT_EQ(send_request("GET", "/v1/below").status, 400);
  const EntryView entry{.name = "d",
                        .kind = FileKind::kDirectory,
                        .below = TreeSum{.files = 3, .bytes = 2, .cached_bytes = 1}};
  EXPECT_EQ(from_json<EntryView>(to_json(entry)).value(), entry);
}

TEST_F(AdminServerTest, FindingsSurviveTheWay) {
  const Json list = get_json("GET", "/v1/findings")["findings"];
  ASSERT_EQ(list.size(), 1);
  EXPECT_EQ(from_json<Finding>(list[0]).value(), daemon_.findings()[0]);
  EXPECT_EQ(list[0]["level"], "problem");
  EXPECT_EQ(from_json<Finding>(Json{{"level", "worse"}, {"name", "n"}})->level, Level::kNote);
}

TEST_F(AdminServerTest, ReportsWhyPathsFailed) {
  Json failed = get_json("GET", "/v1/errors")["errors"][0];
  EXPECT_EQ(failed["mount"], "/m");
  EXPECT_EQ(failed["path_encoded"], "k%FF");
  EXPECT_EQ(failed["code"], "unavailable");
  EXPECT_EQ(failed["reason"], "away");
  EXPECT_EQ(failed["time"], "1970-01-01T00:00:00Z");
}

TEST_F(AdminServerTest, MountsAndUnmounts) {
  MountRequest request{.source = "s3://b", .path = "/x//y/", .options = {{"region", "r"}}};
  request.uid = 1000;
  request.umask = 077;
  HttpResponse made = send_request("POST", "/v1/mounts", {}, dump_json(to_json(request)));
  EXPECT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(daemon_.mounted.path, "/x/y");
  EXPECT_EQ(daemon_.mounted.options, request.options);
  EXPECT_EQ(daemon_.mounted.uid, 1000u);
  EXPECT_EQ(daemon_.mounted.umask, 077u);
  EXPECT_EQ(send_request("DELETE", "/v1/mounts", {{"path", "/x/y"}, {"lazy", "1"}}).status, 200);
  EXPECT_EQ(daemon_.unmounted, "/x/y true");
}

TEST_F(AdminServerTest, ChangesAndMovesMounts) {
  MountRequest request{.source = "s3://b", .path = "/x", .snapshot = "s"};
  request.paths = {{"a/\xff", {{"pin", "true"}}}, {"b", {{"ttl", "1h"}, {"cache", "never"}}}};
  ASSERT_EQ(send_request("POST", "/v1/mounts", {}, dump_json(to_json(request))).status, 201);
  EXPECT_EQ(daemon_.mounted.paths, request.paths);
  EXPECT_EQ(daemon_.mounted.snapshot, "s");

  MountChange change{.path = "/x//\xff/", .set = {{"quota", "1GiB"}}, .unset = {"ttl"}};
  HttpResponse done = send_request("POST", "/v1/mounts/change", {}, dump_json(to_json(change)));
  EXPECT_EQ(daemon_.changed.path, "/x/\xff");
  EXPECT_EQ(daemon_.changed.set, change.set);
  EXPECT_EQ(daemon_.changed.unset, change.unset);
  auto view = from_json<MountView>(Json::parse(done.body));
  ASSERT_TRUE(view);
  EXPECT_EQ(view->paths, (std::map<std::string, OptionValues>{{"a", {{"pin", "true"}}}}));
  EXPECT_EQ(send_request("POST", "/v1/mounts/change", {}, "{}").status, 400);

  MountMove move{.from = "/x/", .to = "/y//z"};
  EXPECT_EQ(send_request("POST", "/v1/mounts/move", {}, dump_json(to_json(move))).status, 200);
  EXPECT_EQ(daemon_.moved.from + " " + daemon_.moved.to, "/x /y/z");
  EXPECT_EQ(send_request("POST", "/v1/mounts/move", {}, R"({"from": "/x", "to": "y"})").status,
            400);
}

TEST_F(AdminServerTest, WhatARefreshFoundSurvivesTheWay) {
  JobView job{.id = 4, .kind = "refresh", .path = "/m", .state = "done"};
  job.added = 3;
  job.changed = 2;
  job.removed = 1;
  job.changes = {{"added", "/m/a"}, {"removed", "/m/\xff/"}};
  EXPECT_EQ(from_json<JobView>(to_json(job)).value(), job);
}

TEST_F(AdminServerTest, WhatALoadSkippedSurvivesTheWay) {
  JobView job{.id = 4, .kind = "load", .path = "/m", .state = "done"};
  job.names_skipped = 3;
  job.skipped = {{"/m/a", 2, "a//x"}, {"/m/\xff", 1, "\xff/./y"}};
  EXPECT_EQ(from_json<JobView>(to_json(job)).value(), job);
}

TEST_F(AdminServerTest, ListsAndSwitchesSnapshots) {
  Json answer = get_json("GET", "/v1/snapshots");
  ASSERT_EQ(answer["snapshots"].size(), 1);
  EXPECT_EQ(from_json<SnapshotView>(answer["snapshots"][0]).value(), daemon_.snapshot);
  EXPECT_EQ(
      send_request("POST", "/v1/snapshots/use", {}, R"({"path": "/m//x", "name": "n"})").status,
      200);
  EXPECT_EQ(daemon_.snapshot_use.path, "/m/x");
  EXPECT_EQ(daemon_.snapshot_use.name, "n");
  EXPECT_EQ(send_request("POST", "/v1/snapshots/use", {}, R"({"path": "/m"})").status, 200);
  EXPECT_EQ(daemon_.snapshot_use.name, "");
  EXPECT_EQ(
      send_request("POST", "/v1/snapshots/use", {}, R"({"path": "/m", "name": "none"})").status,
      404);
  EXPECT_EQ(send_request("POST", "/v1/snapshots/use", {}, R"({"name": "n"})").status, 400);
  EXPECT_EQ(send_request("DELETE", "/v1/snapshots", {{"name", "n"}}).status, 200);
  EXPECT_EQ(daemon_.removed, "n");
}

TEST_F(AdminServerTest, ListsAndEvictsCachedObjects) {
  Json first = get_json("GET", "/v1/cache/objects");
  auto list = from_json<CachedListView>(first);
  ASSERT_TRUE(list) << list.error().to_string();
  ASSERT_EQ(list->objects.size(), 1);
  EXPECT_EQ(list->objects[0], (CachedObjectView{.key = "k\xff",
                                                .size = 9,
                                                .cached_bytes = 4,
                                                .version = "etag:\"1\"",
                                                .store = make_store_id("s3", "", "", "b").to_hex(),
                                                .pool = pool_of_mount("/m"),
                                                .mount = "/m",
                                                .packed = true,
                                                .complete = true,
                                                .directory = "/c"}));
  EXPECT_EQ(list->next, "0:f");
  EXPECT_FALSE(get_json("GET", "/v1/cache/objects", {{"after", "0:f"}}).contains("next"));
  EXPECT_EQ(send_request("GET", "/v1/cache/objects", {{"after", "bad"}}).status, 400);

  HttpResponse gone =
      send_request("POST", "/v1/cache/evict", {}, R"({"mount": "/m//x/", "bytes": 12})");
  EXPECT_EQ(gone.status, 200);
  EXPECT_EQ(Json::parse(gone.body)["bytes"], 77);
  EXPECT_EQ(daemon_.evicted.mount, "/m/x");
  EXPECT_EQ(daemon_.evicted.bytes, 12);
  send_request("POST", "/v1/cache/evict", {}, "{}");
  EXPECT_EQ(daemon_.evicted.mount, "");
  EXPECT_FALSE(daemon_.evicted.bytes);
  EXPECT_EQ(send_request("POST", "/v1/cache/evict", {}, R"({"mount": "m"})").status, 400);
  EXPECT_EQ(send_request("POST", "/v1/cache/evict", {}, R"({"bytes": "many"})").status, 400);
}

TEST_F(AdminServerTest, ShowsAndChangesACluster) {
  EXPECT_EQ(send_request("GET", "/v1/cluster").status / 100, 5) << "of one that is no worker";
  cluster_.worker = true;
  auto view = from_json<ClusterStatusView>(get_json("GET", "/v1/cluster"));
  ASSERT_TRUE(view) << view.error().to_string();
  EXPECT_EQ(view->workers, cluster_.view.workers);
  EXPECT_EQ(view->mounts, cluster_.view.mounts);
  EXPECT_EQ(view->trouble, cluster_.view.trouble);
  EXPECT_EQ(view->epoch, 5);
  const ClusterMountRequest wanted{.path = "/a//b", .source = "s3://c", .options = {{"x", "y"}}};
  auto made = from_json<ClusterMountView>(
      Json::parse(send_request("POST", "/v1/cluster/mounts", {}, to_json(wanted).dump()).body));
  ASSERT_TRUE(made);
  EXPECT_EQ(made->path, "/a/b");
  EXPECT_EQ(made->options, wanted.options);
  EXPECT_EQ(send_request("DELETE", "/v1/cluster/mounts", {{"path", "/a/b/"}}).status, 200);
  EXPECT_EQ(cluster_.removed, "/a/b");
  EXPECT_EQ(send_request("POST", "/v1/cluster/drain", {}, R"({"undrain": true})").status, 200);
  EXPECT_EQ(send_request("POST", "/v1/cluster/drain", {}, R"({"bandwidth": 7})").status, 200);
  EXPECT_EQ(cluster_.bandwidth, 7u);
  EXPECT_EQ(send_request("POST", "/v1/cluster/drain", {}, R"({"undrain": true})").status, 200);
  EXPECT_EQ(cluster_.undrain, true);
  Json snapshots = get_json("GET", "/v1/cluster/snapshots", {{"path", "/m//x"}});
  ASSERT_EQ(snapshots["snapshots"].size(), 1);
  EXPECT_EQ(snapshots["snapshots"][0]["name"], "of /m/x");
  EXPECT_EQ(send_request("GET", "/v1/cluster/snapshots", {{"path", "m"}}).status, 400);
  EXPECT_EQ(send_request("DELETE", "/v1/cluster/snapshots", {{"path", "/m"}, {"name", "n"}}).status,
            200);
  EXPECT_EQ(cluster_.removed, "/m n");
}

TEST_F(AdminServerTest, StartsJobsOfACluster) {
  const ClusterJobRequest wanted{.job = {.kind = "load", .path = "/a\xff", .bandwidth = 5},
                                 .schedule = {.every_seconds = 60, .on_mount = true}};
  HttpResponse answer =
      send_request("POST", "/v1/cluster/jobs", {},
                   to_json(wanted).dump(-1, ' ', false, Json::error_handler_t::replace));
  EXPECT_EQ(answer.status, 202);
  EXPECT_EQ(cluster_.started_job.job, wanted.job);
  EXPECT_EQ(cluster_.started_job.schedule.every_seconds, 60u);
  EXPECT_TRUE(cluster_.started_job.schedule.on_mount);
  EXPECT_FALSE(cluster_.started_job.schedule.on_change);
  auto shown = from_json<ClusterJobView>(get_json("GET", "/v1/cluster/jobs/7"));
  ASSERT_TRUE(shown) << shown.error().to_string();
  EXPECT_EQ(shown->job, cluster_.job_view().job);
  EXPECT_EQ(shown->principal, "me");
  EXPECT_EQ(shown->starts, 2u);
  EXPECT_EQ(shown->schedule.every_seconds, 60u);
  EXPECT_TRUE(shown->schedule.on_change);
  EXPECT_EQ(shown->runs, 3u);
  EXPECT_EQ(get_json("GET", "/v1/cluster/jobs")["jobs"].size(), 1u);
  EXPECT_EQ(send_request("DELETE", "/v1/cluster/jobs/7").status, 200);
  EXPECT_EQ(cluster_.cancelled, 7u);
  EXPECT_EQ(send_request("GET", "/v1/cluster/jobs/8").status, 404);
  EXPECT_EQ(send_request("GET", "/v1/cluster/jobs/x").status, 400);
}

TEST_F(AdminServerTest, FailuresKeepTheirCodeAndReason) {
  HttpResponse taken =
      send_request("POST", "/v1/mounts", {}, R"({"source": "s3://taken", "path": "/x"})");
  EXPECT_EQ(taken.status, 409);
  Status status = status_of(taken);
  EXPECT_EQ(status.code(), StatusCode::kExists);
  EXPECT_EQ(status.message(), "there is a mount already: why");
  for (const char* body : {"", "{", "[]", "7", R"({"source": 1, "path": "/x"})",
                           R"({"path": "/x"})", R"({"source": "s3://b", "path": "relative"})"}) {
    EXPECT_EQ(send_request("POST", "/v1/mounts", {}, body).status, 400) << body;
  }
  const char* umask = R"({"source": "s3://b", "path": "/x", "umask": "9"})";
  EXPECT_EQ(send_request("POST", "/v1/mounts", {}, umask).status, 400);
  EXPECT_EQ(send_request("GET", "/v1/stat").status, 400);
  EXPECT_EQ(send_request("GET", "/v1/stat", {{"path", "/m/../x"}}).status, 400);
  EXPECT_EQ(send_request("GET", "/v1/stat", {{"path", "/m/none"}}).status, 404);
  EXPECT_EQ(send_request("GET", "/v1/cat", {{"path", "/m"}}).status, 400);
  EXPECT_EQ(status_of(HttpResponse::text(500, "oops")).code(), StatusCode::kInternal);
}

TEST_F(AdminServerTest, ListsInPages) {
  for (int i = 0; i < 25; ++i) catalog_.add_file(fmt::format("f{:02}", i), 100 + i);
  std::vector<std::string> names;
  std::map<std::string, std::string> query = {{"path", "/m"}, {"limit", "10"}};
  int pages = 0;
  for (bool more = true; more; ++pages) {
    auto page = from_json<ListView>(get_json("GET", "/v1/ls", query));
    ASSERT_TRUE(page) << page.error().to_string();
    for (const EntryView& entry : page->entries) names.push_back(entry.name);
    more = !page->next.empty();
    query["after"] = page->next;
  }
  EXPECT_EQ(pages, 3);
  EXPECT_EQ(catalog_.lists, 1) << "all pages are of one listing";
  ASSERT_EQ(names.size(), 25u);
  EXPECT_TRUE(std::ranges::is_sorted(names));
  auto one = from_json<ListView>(get_json("GET", "/v1/ls", {{"path", "/m/f03"}}));
  EXPECT_EQ(one->kind, FileKind::kFile);
  EXPECT_EQ(one->entries.at(0).size, 103u);
}

TEST_F(AdminServerTest, NamesThatAreNoTextArePagedThrough) {
  std::vector<std::string> names = {"a",        "\xff\x01", "\xff\x02",
                                    "\xfe\xff", "f%20\xe9", "z\xc3\xbc"};
  for (const std::string& name : names) catalog_.add_file(name, 1);
  std::ranges::sort(names);
  catalog_.skipped = 2;
  std::vector<std::string> seen;
  std::map<std::string, std::string> query = {{"path", "/m"}, {"limit", "1"}};
  do {
    auto page = from_json<ListView>(get_json("GET", "/v1/ls", query));
    ASSERT_TRUE(page) << page.error().to_string();
    EXPECT_EQ(page->skipped, 2u);
    seen.push_back(page->entries.at(0).name);
    query["after"] = page->next;
  } while (!query["after"].empty() && seen.size() < 20);
  EXPECT_EQ(seen, names);
  auto stat = from_json<StatView>(get_json("GET", "/v1/stat", {{"path", "/m/\xff\x01"}}));
  ASSERT_TRUE(stat) << stat.error().to_string();
  EXPECT_EQ(stat->path, "/m/\xff\x01");
  EXPECT_FALSE(to_json(EntryView{.name = "z\xc3\xbc"}).contains("name_encoded"));
}

TEST_F(AdminServerTest, PathsThatAreNoTextComeInBodies) {
  MountRequest request{.source = "s3://b/\xff", .path = "/x/\xfe"};
  ASSERT_EQ(send_request("POST", "/v1/mounts", {}, dump_json(to_json(request))).status, 201);
  EXPECT_EQ(daemon_.mounted.source, request.source);
  EXPECT_EQ(daemon_.mounted.path, request.path);
  HttpResponse job =
      send_request("POST", "/v1/jobs", {}, dump_json(to_json(JobRequest{"load", "/\xfe"})));
  EXPECT_EQ(from_json<JobView>(Json::parse(job.body))->path, "/\xfe");
}

TEST_F(AdminServerTest, StatSaysWhereTheBytesComeFrom) {
  catalog_.add_file("f", 5);
  auto stat = from_json<StatView>(get_json("GET", "/v1/stat", {{"path", "/m/f"}}));
  ASSERT_TRUE(stat) << stat.error().to_string();
  EXPECT_EQ(stat->source, "test://b/data/f");
  EXPECT_EQ(stat->mount, "/m");
  EXPECT_EQ(stat->entry.size, 5u);
  EXPECT_EQ(stat->entry.mtime, WallTime{});
  EXPECT_EQ(stat->fuse_mount, "/m");
  EXPECT_EQ(stat->served_by, "daemon");  // the mount has no passthrough
  auto folder = from_json<StatView>(get_json("GET", "/v1/stat", {{"path", "/m"}}));
  EXPECT_EQ(folder->fuse_mount, "/m");
  EXPECT_EQ(folder->served_by, "");
}

TEST_F(AdminServerTest, StatNamesFuseMountAndServer) {
  catalog_.add_file("f", 5, CacheUse::kBypass);
  catalog_.set_freshness({.mode = Freshness::Mode::kImmutable});
  daemon_.mount_views = {{.path = "/", .features = {{"passthrough", true}}},
                         {.path = "/m", .own_fuse_mount = false},  // inside the outer one
                         {.path = "/m/f/x", .features = {{"passthrough", false}}}};
  auto stat = from_json<StatView>(get_json("GET", "/v1/stat", {{"path", "/m/f"}}));
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->mount, "/m");
  EXPECT_EQ(stat->fuse_mount, "/");
  EXPECT_EQ(stat->served_by, "kernel");
  // Another program may write into it while it is open.
  catalog_.set_freshness({.mode = Freshness::Mode::kValidate});
  stat = from_json<StatView>(get_json("GET", "/v1/stat", {{"path", "/m/f"}}));
  EXPECT_EQ(stat->served_by, "daemon");
  daemon_.mount_views = {};
  EXPECT_EQ(from_json<StatView>(get_json("GET", "/v1/stat", {{"path", "/m/f"}}))->fuse_mount, "");
}

TEST_F(AdminServerTest, CatGivesTheBytesOfTheRange) {
  catalog_.add_file("big", 9 * kMiB + 17);
  catalog_.add_file("empty", 0);
  EXPECT_TRUE(send_request("GET", "/v1/cat", {{"path", "/m/big"}}).body ==
              pattern(0, 9 * kMiB + 17));
  HttpResponse part = send_request(
      "GET", "/v1/cat", {{"path", "/m/big"}, {"offset", "5000000"}, {"size", "4500000"}});
  EXPECT_EQ(part.headers.find("leat-size"), "4437201");
  EXPECT_TRUE(part.body == pattern(5'000'000, 4'437'201));
  EXPECT_EQ(send_request("GET", "/v1/cat", {{"path", "/m/empty"}}).status, 200);
  EXPECT_EQ(send_request("GET", "/v1/cat", {{"path", "/m/big"}, {"offset", "99999999"}}).status,
            416);
  EXPECT_EQ(send_request("GET", "/v1/cat", {{"path", "/m/big"}, {"offset", "x"}}).status, 400);
}

TEST_F(AdminServerTest, UnreadableFileReportsReasonAnywhere) {
  catalog_.add_file("big", 20 * kMiB);
  fetcher_.fails_from = 10 * kMiB;
  HttpResponse middle = send_request("GET", "/v1/cat", {{"path", "/m/big"}});
  EXPECT_EQ(middle.status, 0);
  EXPECT_EQ(middle.body, "the store is away");
  fetcher_.fails_from = 0;
  HttpResponse start = send_request("GET", "/v1/cat", {{"path", "/m/big"}});
  EXPECT_EQ(start.status, 503);
  EXPECT_EQ(status_of(start).message(), "the store is away");
}

TEST_F(AdminServerTest, Jobs) {
  EXPECT_EQ(send_request("POST", "/v1/jobs", {}, R"({"kind": "load", "path": "/m"})").status, 202);
  EXPECT_EQ(send_request("POST", "/v1/jobs", {}, R"({"kind": "dance", "path": "/m"})").status, 400);
  EXPECT_EQ(get_json("GET", "/v1/jobs")["jobs"][0]["state"], "done");
  auto job = from_json<JobView>(get_json("GET", "/v1/jobs/1"));
  EXPECT_EQ(*job, *daemon_.job(1));
  EXPECT_EQ(send_request("GET", "/v1/jobs/2").status, 404);
  EXPECT_EQ(send_request("GET", "/v1/jobs/x").status, 400);
  EXPECT_EQ(send_request("DELETE", "/v1/jobs/1").status, 200);
  EXPECT_EQ(daemon_.cancelled, 1u);
}

TEST_F(AdminServerTest, TheMetricsAddressHasNothingElse) {
  EXPECT_TRUE(send_request("GET", "/metrics").body.contains("leat_http_requests_total"));
  HttpServerOptions options;
  auto open = HttpServer::start(*HttpEndpoint::parse("127.0.0.1:0"), AdminServer::metrics_router(),
                                options, executor_);
  ASSERT_TRUE(open);
  auto get = [&](const char* path) {
    HttpRequest request{.path = path};
    return executor_.block_on(HttpClient((*open)->endpoint()).request({}, request))->status;
  };
  EXPECT_EQ(get("/metrics"), 200);
  EXPECT_EQ(get("/healthz"), 200);
  EXPECT_EQ(get("/v1/status"), 404);
  executor_.block_on((*open)->stop());
}

TEST_F(AdminServerTest, ShutdownIsAnswered) {
  EXPECT_EQ(send_request("POST", "/v1/upgrade", {}, R"({"executable": "/opt/leat"})").status, 202);
  EXPECT_EQ(daemon_.upgraded, "/opt/leat");
  EXPECT_EQ(send_request("POST", "/v1/shutdown").status, 202);
  EXPECT_TRUE(daemon_.shut_down_requested);
}

TEST(AdminTimes, WhatIsWrittenIsParsed) {
  for (int64_t ns : {0L, 1L, 1'700'000'000'123'456'789L, 1'700'000'000'000'000'000L, -5L}) {
    WallTime time{std::chrono::nanoseconds(ns)};
    auto parsed = parse_time(format_time(time));
    ASSERT_TRUE(parsed) << format_time(time);
    EXPECT_EQ(*parsed, time);
  }
  EXPECT_EQ(format_time(WallTime(std::chrono::milliseconds(1500))), "1970-01-01T00:00:01.5Z");
  EXPECT_FALSE(parse_time("yesterday"));
}

TEST_F(AdminServerTest, OptionsAreListedAndReadAgain) {
  const Json listed = get_json("GET", "/v1/config");
  auto option = from_json<OptionView>(listed["options"][0]);
  ASSERT_TRUE(option);
  EXPECT_EQ(*option, daemon_.options().front());
  auto read = from_json<ReloadView>(get_json("POST", "/v1/config/reload"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->changed, std::vector<std::string>{"log.level"});
  EXPECT_EQ(read->waiting, std::vector<std::string>{"cache.size"});
}

}  // namespace
}  // namespace leat
