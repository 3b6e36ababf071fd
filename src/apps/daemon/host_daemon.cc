// SPDX-License-Identifier: Apache-2.0
#include "apps/daemon/host_daemon.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "apps/daemon/daemon_options.h"
#include "apps/daemon/dead_daemon.h"
#include "apps/daemon/job_view.h"
#include "apps/daemon/memory_size.h"
#include "apps/daemon/process_usage.h"
#include "apps/daemon/unavailable_stores.h"
#include "apps/findings/status_findings.h"
#include "apps/paths.h"
#include "apps/program_version.h"
#include "base/buffer_pool.h"
#include "base/heap.h"
#include "doors/console/console_token.h"
#include "doors/console/host_field.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// One request carries a whole list of files.
constexpr uint64_t kControlBodyMax = 256 * kMiB;
// A daemon that ends closes its cache first, which takes as long as its last writes.
constexpr auto kPredecessorPatience = std::chrono::seconds(20);
// Bound of the C library's unused memory.
constexpr uint64_t kUnusedHeapMax = 32 * kMiB;
constexpr auto kHeapLookedAt = std::chrono::seconds(15);
// Time for the first mount; without one the daemon ends.
constexpr auto kUnusedPatience = std::chrono::seconds(30);

uint64_t memory_bytes_of(const Config& config) {
  const uint64_t configured = config.bytes("memory.size");
  return configured > 0 ? configured : default_memory_bytes(usable_memory_bytes());
}

}  // namespace

HostDaemon::HostDaemon(HostDaemonOptions options, Config config, PidFile pid_file)
    : options_(std::move(options)),
      config_(std::move(config)),
      hot_(config_),
      memory_bytes_max_(memory_bytes_of(config_)),
      pid_file_(std::move(pid_file)),
      kept_(options_.keeper),
      kept_jobs_(leat::kept_jobs(options_.runtime),
                 options_.restarts > 0 || !options_.keeper.left().empty()),
      connections_(connection_record(options_.runtime),
                   kept_.kept() ? process_mark(::getppid()) : ProcessMark()),
      windows_(memory_bytes_max_ - memory_bytes_max_ / 4) {
  keep_buffer_bytes(memory_bytes_max_ / 4);
}

Result<std::unique_ptr<HostDaemon>> HostDaemon::start(HostDaemonOptions options, Config config) {
  LEAT_CHECK_OK(make_runtime_directory(options.runtime));
  // A hanging predecessor never releases the lock. But if it left descriptors, this successor
  // answers its requests instead.
  if (options.keeper.left().empty()) {
    LEAT_CHECK_OK(clear_dead_daemon(
        options.runtime, [](const std::string& what) { log::warning("{}", what); }, true));
  }
  LEAT_TRY(PidFile pid_file,
           PidFile::acquire(leat::pid_file(options.runtime), kPredecessorPatience));
  raise_open_files_limit();
  std::unique_ptr<HostDaemon> daemon(
      new HostDaemon(std::move(options), std::move(config), std::move(pid_file)));
  LEAT_CHECK_OK(daemon->open_cache());
  if (auto serving = daemon->serve(); !serving) {
    if (daemon->kept_.kept() && daemon->mounts_ && !daemon->mounts_->views().empty()) {
      // A later attempt may use the mounts that were taken over.
      daemon->hand_over();
      static_cast<void>(daemon.release());
    } else {
      daemon->stop();
    }
    return error(serving.error());
  }
  return daemon;
}

Result<> HostDaemon::open_cache() {
  LEAT_TRY(auto directories, cache_options(config_));
  for (PageStoreOptions& directory : directories) {
    directory.on_damage = [damaged = damaged_](const FileId& id) { damaged->add(id); };
  }
  LEAT_TRY(store_,
           executor_.wait(HostCache::open(Context::background(), std::move(directories), executor_,
                                          [this] { return make_disk(executor_); })));
  return {};
}

Result<> HostDaemon::serve() {
  CatalogOptions names;
  LEAT_TRY(auto cache, cache_options(config_));
  names.scratch_directory = cache.front().directory;
  LEAT_TRY(cluster_, HostCluster::start({.config = config_,
                                         .memory_bytes_max = memory_bytes_max_,
                                         .scratch_directory = names.scratch_directory,
                                         .runtime_directory = options_.runtime,
                                         .version = std::string(program_version())},
                                        *store_, executor_));
  catalog_ = Catalog::create(std::move(names), sources_, executor_);
  cluster_->attach(catalog_.get());
  snapshots_ =
      std::make_unique<SnapshotService>(config_.text("snapshot.directory"), *catalog_, executor_);
  cluster_snapshots_ =
      std::make_unique<ClusterSnapshots>(*cluster_, *snapshots_, *catalog_, executor_);
  FetcherOptions fetch;
  fetch.memory_bytes_max = memory_bytes_max_;
  fetch.requests_max = static_cast<unsigned>(config_.integer("fetch.requests"));
  fetcher_ = Fetcher::create(fetch, store_.get(), sources_, executor_);
  job_target_ = std::make_unique<HostTarget>(*fetcher_, *store_, store_.get(), executor_);
  JobTableOptions jobs;
  jobs.refreshed = [this](std::string path) { return mounts_->compare_held(std::move(path)); };
  jobs.verified = [this] { return damaged_->all_dropped(); };
  jobs.snapshot_elsewhere = [this](Context context, CatalogEntry entry, std::string output,
                                   std::function<void(const SnapshotProgress&)> progress) {
    return cluster_snapshots_->build(std::move(context), std::move(entry), std::move(output),
                                     std::move(progress));
  };
  jobs.ended = [this](uint64_t id) { kept_jobs_.forget(id); };
  jobs_ = std::make_unique<JobTable>(std::move(jobs), *catalog_, job_target_.get(), executor_);
  MountServiceOptions mounting;
  mounting.io_uring = config_.boolean("fuse.io_uring");
  mounting.threads = static_cast<unsigned>(config_.integer("fuse.threads"));
  LEAT_TRY(mounting.without, FuseFeatureSet::parse(config_.text("fuse.without")));
  mounting.close_when_empty = !options_.stays_when_empty;
  mounting.connections = &connections_;
  mounting.kept = &kept_;
  mounting.inspection = [this](const std::string& folder, const FileSystem& files) {
    return inspection_files(folder, files, [this, folder] { return inspection_of(folder); });
  };
  mounting.windows = &windows_;
  mounting.open_cluster = [this](Context context, StoreUrl url, bool must_answer) {
    return cluster_->open_source(std::move(context), std::move(url), must_answer);
  };
  mounting.on_empty = [this] { options_.on_stop("nothing is mounted any more"); };
  mounts_ = std::make_unique<MountService>(mounting, *catalog_, *fetcher_, store_.get(), sources_,
                                           executor_);
  damaged_->begin([this](FileIdSet files) { return mounts_->bytes_dropped(std::move(files)); });
  admin_ = std::make_unique<AdminDoor>(*this, *cluster_, *catalog_, *fetcher_, store_.get());
  take_over_mounts();
  go_on_with_jobs();
  listen_on_loopback();
  // `leat cat | less` takes as long as its reader likes.
  HttpServerOptions patient{.body_bytes_max = kControlBodyMax,
                            .write_timeout = Clock::duration::max()};
  LEAT_TRY(control_, HttpServer::start(HttpEndpoint::unix_socket(control_socket(options_.runtime)),
                                       admin_->control_router(), patient, executor_));
  if (auto token = activity_.enter()) executor_.spawn(end_if_unused(std::move(*token)));
  if (auto token = activity_.enter()) executor_.spawn(tend_heap(std::move(*token)));
  if (auto token = activity_.enter()) executor_.spawn(keep_history(std::move(*token)));
  return {};
}

// Programs wait for replies from these mounts meanwhile, so this sends no request to a store.
void HostDaemon::take_over_mounts() {
  std::vector<KeptMount> left = kept_.left();
  std::vector<std::string> known;
  auto lost = [](const std::string& path, const Result<>& taken) {
    if (!taken) log::error("the mount at {} is lost: {}", path, taken.error().to_string());
    return !taken;
  };
  for (KeptMount& kept : left) {
    const std::string path = kept.request.path;
    const bool lingers = kept.lingering;
    if (lost(path, executor_.wait(take_over(std::move(kept)))) || lingers) continue;
    known.push_back(path);
  }
  for (const std::string& path : known) {
    if (lost(path, executor_.wait(mounts_->take_over_folder(path)))) continue;
    log::info("{} goes on", path);
  }
  mounts_->taken_over();
  kept_.drop_what_is_left();
  // All were unmounted while no daemon ran.
  if (!left.empty()) mounts_->close_if_empty();
}

Task<Result<>> HostDaemon::take_over(KeptMount kept) {
  SnapshotService::Held held;
  if (!kept.request.snapshot.empty() && !kept.lingering) {
    LEAT_CO_TRY(held, co_await snapshots_->open(kept.request.snapshot));
  }
  co_return co_await mounts_->take_over(Context::background(), std::move(kept), held.snapshot);
}

// A daemon without metrics and console is still useful, so a failure here is not an error.
void HostDaemon::listen_on_loopback() {
  const std::string& listen = config_.text("telemetry.listen");
  if (listen == "off") {
    metrics_note_ = "off, by telemetry.listen";
    return;
  }
  auto endpoint = HttpEndpoint::parse(listen);
  if (endpoint && !endpoint->local()) {
    endpoint =
        error(StatusCode::kPermissionDenied,
              fmt::format("{} is not a loopback address; metrics have no authentication", listen));
  }
  if (endpoint) {
    Result<std::string> token = make_console_token(options_.runtime);
    if (!token) log::warning("no console: {}", token.error().to_string());
    auto hosts = parse_host_names(config_.text("telemetry.hosts"));  // validated when it was read
    console_ = std::make_unique<ConsoleDoor>(admin_->control_router(), token.value_or(""),
                                             hosts.value_or(std::vector<std::string>()));
    auto server = HttpServer::start(*endpoint, console_->router(), {}, executor_);
    if (server) {
      metrics_ = std::move(*server);
      return;
    }
    endpoint = error(server.error());
  }
  metrics_note_ = fmt::format("off: {}", endpoint.error().to_string());
  log::warning("no metrics: {}; telemetry.listen names another address",
               endpoint.error().to_string());
}

Task<> HostDaemon::tend_heap(Activity::Token) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  const uint64_t most = std::max(kUnusedHeapMax, memory_bytes_max_ / 4);
  while (true) {
    Result<> slept = co_await sleep_for(context, kHeapLookedAt);
    if (!slept) co_return;
    static_cast<void>(co_await executor_.blocking([most] { return trim_heap(most); }));
  }
}

Task<> HostDaemon::keep_history(Activity::Token) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  while (true) {
    history_.note();
    Result<> slept = co_await sleep_for(context, DaemonHistory::kStep);
    if (!slept) co_return;
  }
}

Task<> HostDaemon::end_if_unused(Activity::Token) {
  Context context = Context::background().with_cancel(stopping_.get_token());
  Result<> waited = co_await sleep_for(context, kUnusedPatience);
  if (waited) mounts_->close_if_empty();
}

void HostDaemon::stop() {
  end(mounts_ ? mounts_->stop() : Task<>());
}

bool HostDaemon::has_mount(const std::string& path) const {
  return std::ranges::any_of(mounts_->views(),
                             [&](const MountView& mount) { return mount.path == path; });
}

void HostDaemon::hand_over() {
  kept_jobs_.close();
  end(mounts_->hand_over());
}

void HostDaemon::end(Task<> doors) {
  stopping_.request_stop();
  if (mounts_) mounts_->give_up();
  // First the servers that accept work, then the work, then its resources.
  if (control_) executor_.wait(control_->stop());
  if (metrics_) executor_.wait(metrics_->stop());
  activity_.close();
  executor_.wait(activity_.wait_idle());
  if (jobs_) executor_.wait(jobs_->stop());
  executor_.wait(damaged_->stop());
  if (mounts_) executor_.wait(std::move(doors));
  if (cluster_) cluster_->attach(nullptr);
  if (catalog_) executor_.wait(catalog_->stop());
  if (fetcher_) executor_.wait(fetcher_->stop());
  if (cluster_) executor_.wait(cluster_->stop());
  if (store_) executor_.wait(store_->close());
}

Result<MountView> HostDaemon::mount_and_wait(MountRequest request) {
  return executor_.wait(mount(Context::background(), std::move(request)));
}

Task<Result<MountView>> HostDaemon::mount(Context context, MountRequest request) {
  LEAT_CO_CHECK_OK(co_await cluster_snapshots_->prepare(context, &request));
  SnapshotService::Held held;
  if (!request.snapshot.empty()) {
    LEAT_CO_TRY(held, co_await snapshots_->open(request.snapshot));
  }
  co_return co_await mounts_->mount(std::move(context), std::move(request), held.snapshot);
}

Task<Result<MountView>> HostDaemon::change_mount(Context context, MountChange change) {
  return mounts_->change(std::move(context), std::move(change));
}

Task<Result<MountView>> HostDaemon::move_mount(Context context, MountMove move) {
  return mounts_->move(std::move(context), std::move(move));
}

Task<Result<>> HostDaemon::unmount(Context context, std::string path, bool lazy) {
  return mounts_->unmount(std::move(context), std::move(path), lazy);
}

std::vector<MountView> HostDaemon::mounts() const {
  return mounts_->views();
}

HostStatus HostDaemon::status() const {
  HostStatus status{.version = std::string(program_version()), .pid = getpid()};
  status.supervisor_pid = kept_.kept() ? getppid() : 0;
  status.restarts = options_.restarts;
  status.uptime_seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  ProcessUsage usage = process_usage();
  status.rss_bytes = usage.rss_bytes;
  status.open_files = usage.open_files;
  status.open_files_max = usage.open_files_max;
  if (metrics_) status.metrics_address = metrics_->endpoint().to_string();
  status.metrics_note = metrics_note_;
  status.log_file = options_.log_file;
  status.cache = {store_->directories(), store_->stats(), store_->pools()};
  FetcherStats fetch = fetcher_->stats();
  status.memory_bytes = fetch.memory_bytes;
  status.memory_bytes_max = memory_bytes_max_;
  status.requests_in_flight = fetch.requests_in_flight;
  for (OptionView& option : options()) status.options[option.name] = std::move(option.value);
  for (const MetricSample& sample : metrics_samples()) {
    std::string labels = sample.labels.empty() ? "" : fmt::format("{{{}}}", sample.labels);
    status.counters[sample.name + labels] = sample.value;
  }
  status.mounts = mounts();
  if (cluster_) status.clusters = cluster_->memberships();
  status.unavailable = unavailable_stores();
  return status;
}

HistoryView HostDaemon::history() const {
  return history_.view();
}

std::vector<ErrorView> HostDaemon::errors() const {
  return mounts_->errors();
}

Findings HostDaemon::findings() const {
  const auto now = std::chrono::system_clock::now();
  return status_findings(status(), errors(), std::chrono::time_point_cast<WallTime::duration>(now));
}

// Also called during the start: everything used here exists before the mounts.
InspectionView HostDaemon::inspection_of(const std::string& folder) const {
  InspectionView view{.version = std::string(program_version()), .restarts = options_.restarts};
  view.uptime_seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  for (MountView& mount : mounts_->views()) {
    if (is_at_or_below(mount.path, folder)) view.mounts.push_back(std::move(mount));
  }
  view.cache = {store_->directories(), store_->stats(), store_->pools()};
  const FetcherStats fetch = fetcher_->stats();
  view.memory_bytes = fetch.memory_bytes;
  view.memory_bytes_max = memory_bytes_max_;
  view.requests_in_flight = fetch.requests_in_flight;
  view.unavailable = unavailable_stores();
  return view;
}

Result<JobView> HostDaemon::start_job(JobRequest request) {
  return begin_job(std::move(request), std::nullopt);
}

Result<JobView> HostDaemon::begin_job(JobRequest request, std::optional<uint64_t> id) {
  LEAT_TRY(JobOrder order, order_of(request));
  const JobKind kind = order.kind;
  if (kind == JobKind::kSnapshot) {
    LEAT_TRY(order.output, snapshots_->file_for(request.name));
  }
  LEAT_TRY(JobInfo info, jobs_->start(std::move(order), id));
  if (kind == JobKind::kLoad) {
    kept_jobs_.remember(info.id, request);
    // The job may have ended before remember().
    auto now = jobs_->find(info.id);
    if (now && now->state != JobState::kRunning) kept_jobs_.forget(info.id);
  }
  return job_view(info);
}

// Restarts unfinished jobs of a predecessor; each cached file costs one check.
void HostDaemon::go_on_with_jobs() {
  for (KeptJobs::Job& job : kept_jobs_.left()) {
    const std::string path = job.request.path;
    Result<JobView> begun = begin_job(std::move(job.request), job.id);
    if (begun) {
      log::info("job {}, the load of {}, goes on", job.id, path);
    } else {
      log::warning("job {}, the load of {}, does not go on: {}", job.id, path,
                   begun.error().to_string());
    }
  }
}

std::vector<JobView> HostDaemon::jobs() const {
  std::vector<JobView> views;
  for (const JobInfo& info : jobs_->list()) views.push_back(job_view(info));
  return views;
}

Result<JobView> HostDaemon::job(uint64_t id) const {
  LEAT_TRY(JobInfo info, jobs_->find(id));
  return job_view(info);
}

Result<JobView> HostDaemon::cancel_job(uint64_t id) {
  LEAT_TRY(JobInfo info, jobs_->cancel(id));
  return job_view(info);
}

Task<Result<ObjectPage>> HostDaemon::cached_objects(Context context, std::string after,
                                                    size_t limit) {
  return store_->objects(std::move(context), std::move(after), limit);
}

Task<Result<EvictView>> HostDaemon::evict(Context, EvictRequest request) {
  const uint64_t bytes = request.bytes.value_or(UINT64_MAX);
  if (request.mount.empty()) co_return EvictView{co_await store_->evict(std::nullopt, bytes)};
  const std::vector<PoolStats> pools = store_->pools();
  for (PoolId id : {pool_of_mount(request.mount), pool_of_path(request.mount)}) {
    if (std::ranges::find(pools, id, &PoolStats::id) == pools.end()) continue;
    co_return EvictView{co_await store_->evict(id, bytes)};
  }
  co_return error(StatusCode::kNotFound,
                  fmt::format("nothing is cached of a mount at {}; 'leat status' shows the mounts "
                              "and what is cached of them",
                              request.mount));
}

Task<Result<std::vector<SnapshotView>>> HostDaemon::snapshots(Context) {
  return snapshots_->list();
}

Task<Result<>> HostDaemon::use_snapshot(Context context, SnapshotUse use) {
  SnapshotService::Held held;
  if (!use.name.empty()) {
    LEAT_CO_CHECK_OK(co_await cluster_snapshots_->bring_for(context, use.path, use.name));
    LEAT_CO_TRY(held, co_await snapshots_->open(use.name));
  }
  co_return co_await mounts_->use_snapshot(std::move(context), std::move(use.path),
                                           std::move(use.name), held.snapshot);
}

Task<Result<>> HostDaemon::remove_snapshot(Context, std::string name) {
  return snapshots_->remove(std::move(name));
}

std::vector<OptionView> HostDaemon::options() const {
  std::lock_guard lock(hot_mutex_);
  std::vector<OptionView> views;
  for (const Option& option : config_.schema().options()) {
    views.push_back(leat::view_of(option, option.hot ? hot_ : config_));
  }
  return views;
}

Result<ReloadView> HostDaemon::reload_options() {
  LEAT_TRY(Config read, options_.read_config());
  ReloadView view;
  for (const std::string& name : config_.differences(read)) {
    if (!config_.schema().find(name)->hot) view.waiting.push_back(name);
  }
  std::lock_guard lock(hot_mutex_);
  for (const std::string& name : hot_.differences(read)) {
    if (config_.schema().find(name)->hot) view.changed.push_back(name);
  }
  hot_ = std::move(read);
  apply_hot_options(hot_);
  return view;
}

void HostDaemon::shut_down() {
  options_.on_stop("asked to by /v1/shutdown");
}

Result<> HostDaemon::upgrade(UpgradeRequest request) {
  if (!kept_.kept()) {
    return error(StatusCode::kUnsupported,
                 "nobody would start the next daemon: this one was started without a supervisor "
                 "(daemon.supervised); unmount everything and mount it with the new version");
  }
  // A keeper that is gone starts no successor.
  LEAT_CHECK_OK(options_.keeper.say("STATUS=handing over"));
  if (!request.executable.empty()) {
    LEAT_CHECK_OK(options_.keeper.say("X_LEAT_NEXT=" + request.executable));
  }
  handing_over_ = true;
  options_.on_stop("the next daemon takes over");
  return {};
}

}  // namespace leat
