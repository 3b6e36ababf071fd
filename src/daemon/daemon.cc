// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/buffer_pool.h"
#include "base/heap.h"
#include "base/program_version.h"
#include "config/paths.h"
#include "daemon/daemon_options.h"
#include "daemon/findings/status_findings.h"
#include "daemon/hung_daemon.h"
#include "daemon/memory_size.h"
#include "daemon/process_usage.h"
#include "daemon/unavailable_stores.h"
#include "frontends/admin/job_view.h"
#include "frontends/console/console_token.h"
#include "frontends/console/host_field.h"
#include "runtime/descriptor_limit.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// One request carries a whole list of files.
constexpr uint64_t kControlBodyMax = 256 * kMiB;
// A daemon that ends closes its cache first, which takes as long as its last writes.
constexpr auto kPredecessorTimeout = std::chrono::seconds(20);
// Bound of the C library's unused memory.
constexpr uint64_t kUnusedHeapMax = 32 * kMiB;
constexpr auto kHeapTrimInterval = std::chrono::seconds(15);
// Time for the first mount; without one the daemon ends.
constexpr auto kUnusedTimeout = std::chrono::seconds(30);

}  // namespace

Daemon::Daemon(DaemonOptions options, Config config, PidFile pid_file)
    : options_(std::move(options)),
      config_(std::move(config)),
      reloadable_(config_),
      memory_bytes_max_(memory_bytes_of(config_)),
      pid_file_(std::move(pid_file)),
      takeover_state_(options_.fd_store),
      job_journal_(leat::job_journal(options_.runtime),
                   options_.restarts > 0 || !options_.fd_store.names().empty()),
      connections_(connection_record(options_.runtime),
                   takeover_state_.enabled() ? identify_process(::getppid()) : ProcessIdentity()),
      windows_(memory_bytes_max_ - memory_bytes_max_ / 4) {
  set_pooled_buffer_bytes_max(memory_bytes_max_ / 4);
}

Result<std::unique_ptr<Daemon>> Daemon::start(DaemonOptions options, Config config) {
  LEAT_CHECK_OK(make_runtime_directory(options.runtime));
  // A hanging predecessor never releases the lock. But if it left descriptors, this successor
  // replies to its requests instead.
  if (options.fd_store.names().empty()) {
    LEAT_CHECK_OK(abort_hung_daemon(
        options.runtime, [](const std::string& what) { log::warning("{}", what); }, true));
  }
  LEAT_TRY(PidFile pid_file,
           PidFile::acquire(leat::pid_file(options.runtime), kPredecessorTimeout));
  raise_open_files_limit();
  std::unique_ptr<Daemon> daemon(
      new Daemon(std::move(options), std::move(config), std::move(pid_file)));
  LEAT_CHECK_OK(daemon->open_cache());
  if (auto serving = daemon->serve(); !serving) {
    if (daemon->takeover_state_.enabled() && daemon->mounts_ && !daemon->mounts_->views().empty()) {
      // A later attempt may use the mounts that were taken over.
      daemon->prepare_takeover();
      static_cast<void>(daemon.release());
    } else {
      daemon->stop();
    }
    return error(serving.error());
  }
  return daemon;
}

Result<> Daemon::open_cache() {
  LEAT_TRY(auto directories, cache_options(config_));
  for (PageStoreOptions& directory : directories) {
    directory.on_damage = [damaged = damaged_](const FileId& id) { damaged->add(id); };
  }
  LEAT_TRY(store_,
           executor_.block_on(HostCache::open(Context::background(), std::move(directories),
                                              executor_, [this] { return make_disk(executor_); })));
  return {};
}

Result<> Daemon::serve() {
  CatalogOptions names;
  LEAT_TRY(auto cache, cache_options(config_));
  names.scratch_directory = cache.front().directory;
  LEAT_TRY(cluster_,
           ClusterService::start({.config = config_,
                                  .memory_bytes_max = memory_bytes_max_,
                                  .scratch_directory = names.scratch_directory,
                                  .staging_bytes_max = staging_bytes(config_, cache.front()),
                                  .runtime_directory = options_.runtime,
                                  .version = std::string(program_version())},
                                 *store_, executor_));
  catalog_ = Catalog::create(std::move(names), sources_, executor_);
  cluster_->set_catalog(catalog_.get());
  snapshots_ =
      std::make_unique<SnapshotService>(config_.text("snapshot.directory"), *catalog_, executor_);
  cluster_snapshots_ =
      std::make_unique<ClusterSnapshots>(*cluster_, *snapshots_, *catalog_, executor_);
  FetcherOptions fetch;
  fetch.memory_bytes_max = memory_bytes_max_;
  fetch.requests_max = requests_within_descriptors(
      static_cast<unsigned>(config_.integer("fetch.requests_per_store_max")));
  fetcher_ = Fetcher::create(fetch, store_.get(), sources_, executor_);
  job_cache_ = std::make_unique<LocalJobCache>(*fetcher_, *store_, store_.get(), executor_);
  JobTableOptions jobs;
  jobs.on_refreshed = [this](std::string path) {
    return mounts_->revalidate_held(std::move(path));
  };
  jobs.on_verified = [this] { return damaged_->all_dropped(); };
  jobs.remote_snapshots = [this](Context context, CatalogEntry entry, std::string output,
                                 std::function<void(const SnapshotProgress&)> progress) {
    return cluster_snapshots_->build(std::move(context), std::move(entry), std::move(output),
                                     std::move(progress));
  };
  jobs.on_ended = [this](uint64_t id) { job_journal_.remove(id); };
  jobs_ = std::make_unique<JobTable>(std::move(jobs), *catalog_, job_cache_.get(), executor_);
  epoch_loads_ = std::make_unique<EpochLoads>(*jobs_, executor_);
  MountServiceOptions mounting;
  mounting.io_uring = config_.boolean("fuse.io_uring");
  mounting.threads = static_cast<unsigned>(config_.integer("fuse.threads"));
  LEAT_TRY(mounting.disabled_features,
           FuseFeatureSet::parse(config_.text("fuse.disabled_features")));
  mounting.close_when_empty = !options_.stays_when_empty;
  mounting.connections = &connections_;
  mounting.takeover_state = &takeover_state_;
  mounting.inspection = [this](const std::string& folder, const FileSystem& files) {
    return inspection_files(folder, files, [this, folder] { return inspection_of(folder); });
  };
  mounting.windows = &windows_;
  mounting.staging_directory = cache.front().directory;
  mounting.staging_bytes_max = staging_bytes(config_, cache.front());
  cluster_epoch_loads_ = std::make_unique<ClusterEpochLoads>(
      *epoch_loads_, [this](const std::string& path) { return cluster_->tree_at(path); },
      executor_);
  mounting.epochs = cluster_epoch_loads_.get();
  mounting.open_cluster = [this](Context context, StoreUrl url, bool must_respond) {
    return cluster_->open_source(std::move(context), std::move(url), must_respond);
  };
  mounting.on_empty = [this] { options_.on_stop("nothing is mounted any more"); };
  mounts_ = std::make_unique<MountService>(mounting, *catalog_, *fetcher_, store_.get(), sources_,
                                           executor_);
  damaged_->begin([this](FileIdSet files) { return mounts_->bytes_dropped(std::move(files)); });
  admin_ = std::make_unique<AdminServer>(*this, *cluster_, *catalog_, *fetcher_, store_.get());
  restore_mounts();
  resume_jobs();
  listen_on_loopback();
  // `leat cat | less` takes as long as its reader likes.
  HttpServerOptions control_options{.body_bytes_max = kControlBodyMax,
                                    .write_timeout = Clock::duration::max()};
  LEAT_TRY(control_, HttpServer::start(HttpEndpoint::unix_socket(control_socket(options_.runtime)),
                                       admin_->control_router(), control_options, executor_));
  if (auto holder = gate_.enter()) executor_.spawn(end_if_unused(std::move(*holder)));
  if (auto holder = gate_.enter()) executor_.spawn(trim_heap_loop(std::move(*holder)));
  if (auto holder = gate_.enter()) executor_.spawn(sample_history_loop(std::move(*holder)));
  return {};
}

// Programs wait for replies from these mounts meanwhile, so this sends no request to a store.
void Daemon::restore_mounts() {
  std::vector<SavedMount> left = takeover_state_.load();
  std::vector<std::string> known;
  auto lost = [](const std::string& path, const Result<>& taken) {
    if (!taken) log::error("the mount at {} is lost: {}", path, taken.error().to_string());
    return !taken;
  };
  for (SavedMount& saved : left) {
    const std::string path = saved.request.path;
    const bool lingers = saved.lingering;
    if (lost(path, executor_.block_on(restore(std::move(saved)))) || lingers) continue;
    known.push_back(path);
  }
  for (const std::string& path : known) {
    if (lost(path, executor_.block_on(mounts_->restore_frontend(path)))) continue;
    log::info("took over mount {}", path);
  }
  mounts_->finish_restore();
  takeover_state_.close_unclaimed();
  // All were unmounted while no daemon ran.
  if (!left.empty()) mounts_->close_if_empty();
}

Task<Result<>> Daemon::restore(SavedMount saved) {
  SnapshotService::SnapshotHold held;
  if (!saved.request.snapshot.empty() && !saved.lingering) {
    LEAT_CO_TRY(held, co_await snapshots_->open(saved.request.snapshot));
  }
  co_return co_await mounts_->restore(Context::background(), std::move(saved), held.snapshot);
}

// A daemon without metrics and console is still useful, so a failure here is not an error.
void Daemon::listen_on_loopback() {
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
    console_ = std::make_unique<ConsoleServer>(admin_->control_router(), token.value_or(""),
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

Task<> Daemon::trim_heap_loop(Gate::Holder) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  const uint64_t most = std::max(kUnusedHeapMax, memory_bytes_max_ / 4);
  while (true) {
    Result<> slept = co_await sleep_for(context, kHeapTrimInterval);
    if (!slept) co_return;
    static_cast<void>(co_await executor_.blocking([most] { return trim_heap(most); }));
  }
}

Task<> Daemon::sample_history_loop(Gate::Holder) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  while (true) {
    history_.sample();
    Result<> slept = co_await sleep_for(context, DaemonHistory::kStep);
    if (!slept) co_return;
  }
}

Task<> Daemon::end_if_unused(Gate::Holder) {
  Context context = Context::background().with_cancel(stopping_.get_token());
  Result<> waited = co_await sleep_for(context, kUnusedTimeout);
  if (waited) mounts_->close_if_empty();
}

void Daemon::stop() {
  end(mounts_ ? mounts_->stop() : Task<>());
}

bool Daemon::has_mount(const std::string& path) const {
  return std::ranges::any_of(mounts_->views(),
                             [&](const MountView& mount) { return mount.path == path; });
}

void Daemon::prepare_takeover() {
  job_journal_.close();
  end(mounts_->prepare_takeover());
}

void Daemon::end(Task<> frontends) {
  stopping_.request_stop();
  if (mounts_) mounts_->cancel_waits();
  // First the servers that accept work, then the work, then its resources.
  if (control_) executor_.block_on(control_->stop());
  if (metrics_) executor_.block_on(metrics_->stop());
  gate_.close();
  executor_.block_on(gate_.wait_idle());
  if (cluster_epoch_loads_) executor_.block_on(cluster_epoch_loads_->stop());
  if (epoch_loads_) executor_.block_on(epoch_loads_->stop());
  if (jobs_) executor_.block_on(jobs_->stop());
  executor_.block_on(damaged_->stop());
  if (mounts_) executor_.block_on(std::move(frontends));
  if (cluster_) cluster_->set_catalog(nullptr);
  if (catalog_) executor_.block_on(catalog_->stop());
  if (fetcher_) executor_.block_on(fetcher_->stop());
  if (cluster_) executor_.block_on(cluster_->stop());
  if (store_) executor_.block_on(store_->close());
}

Result<MountView> Daemon::mount_and_wait(MountRequest request) {
  return executor_.block_on(mount(Context::background(), std::move(request)));
}

Task<Result<MountView>> Daemon::mount(Context context, MountRequest request) {
  LEAT_CO_CHECK_OK(co_await cluster_snapshots_->prepare(context, &request));
  SnapshotService::SnapshotHold held;
  if (!request.snapshot.empty()) {
    LEAT_CO_TRY(held, co_await snapshots_->open(request.snapshot));
  }
  const auto load = request.options.find("load");
  const bool loads = load != request.options.end() && load->second == "on-mount";
  Result<MountView> mounted =
      co_await mounts_->mount(std::move(context), std::move(request), held.snapshot);
  if (!mounted || !loads) co_return mounted;
  if (Result<JobView> begun = start_job({.kind = "load", .path = mounted->path}); !begun) {
    log::warning("{} is mounted and not loaded: {}", mounted->path, begun.error().to_string());
  }
  co_return mounted;
}

Task<Result<MountView>> Daemon::change_mount(Context context, MountChange change) {
  return mounts_->change(std::move(context), std::move(change));
}

Task<Result<MountView>> Daemon::move_mount(Context context, MountMove move) {
  return mounts_->move(std::move(context), std::move(move));
}

Task<Result<FlushView>> Daemon::flush(Context context, FlushRequest request) {
  return mounts_->flush(std::move(context), std::move(request));
}

Task<Result<>> Daemon::unmount(Context context, std::string path, bool lazy) {
  return mounts_->unmount(std::move(context), std::move(path), lazy);
}

std::vector<MountView> Daemon::mounts() const {
  return mounts_->views();
}

DaemonStatus Daemon::status() const {
  DaemonStatus status{.version = std::string(program_version()), .pid = getpid()};
  status.supervisor_pid = takeover_state_.enabled() ? getppid() : 0;
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

HistoryView Daemon::history() const {
  return history_.view();
}

std::vector<ErrorView> Daemon::errors() const {
  return mounts_->errors();
}

Findings Daemon::findings() const {
  const auto now = std::chrono::system_clock::now();
  return status_findings(status(), errors(), std::chrono::time_point_cast<WallTime::duration>(now));
}

// Also called during the start: everything used here exists before the mounts.
InspectionView Daemon::inspection_of(const std::string& folder) const {
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

Task<Result<ObjectPage>> Daemon::cached_objects(Context context, std::string after, size_t limit) {
  return store_->objects(std::move(context), std::move(after), limit);
}

Task<Result<EvictView>> Daemon::evict(Context, EvictRequest request) {
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

Task<Result<std::vector<SnapshotView>>> Daemon::snapshots(Context) {
  return snapshots_->list();
}

Task<Result<>> Daemon::use_snapshot(Context context, SnapshotUse use) {
  SnapshotService::SnapshotHold held;
  if (!use.name.empty()) {
    LEAT_CO_CHECK_OK(co_await cluster_snapshots_->ensure_local_for(context, use.path, use.name));
    LEAT_CO_TRY(held, co_await snapshots_->open(use.name));
  }
  co_return co_await mounts_->use_snapshot(std::move(context), std::move(use.path),
                                           std::move(use.name), held.snapshot);
}

Task<Result<>> Daemon::remove_snapshot(Context, std::string name) {
  return snapshots_->remove(std::move(name));
}

std::vector<OptionView> Daemon::options() const {
  std::lock_guard lock(reloadable_mutex_);
  std::vector<OptionView> views;
  for (const Option& option : config_.schema().options()) {
    views.push_back(leat::view_of(option, option.reloadable ? reloadable_ : config_));
  }
  return views;
}

Result<ReloadView> Daemon::reload_options() {
  LEAT_TRY(Config read, options_.read_config());
  ReloadView view;
  for (const std::string& name : config_.differences(read)) {
    if (!config_.schema().find(name)->reloadable) view.waiting.push_back(name);
  }
  std::lock_guard lock(reloadable_mutex_);
  for (const std::string& name : reloadable_.differences(read)) {
    if (config_.schema().find(name)->reloadable) view.changed.push_back(name);
  }
  reloadable_ = std::move(read);
  apply_reloadable_options(reloadable_);
  return view;
}

void Daemon::shut_down() {
  options_.on_stop("requested by /v1/shutdown");
}

Result<> Daemon::upgrade(UpgradeRequest request) {
  if (!takeover_state_.enabled()) {
    return error(StatusCode::kUnsupported,
                 "nothing would start the next daemon: this one was started without a supervisor "
                 "(daemon.supervised); unmount everything and mount it with the new version");
  }
  // A supervisor that has ended starts no successor.
  LEAT_CHECK_OK(options_.fd_store.notify("STATUS=handing over"));
  if (!request.executable.empty()) {
    LEAT_CHECK_OK(options_.fd_store.notify("X_LEAT_NEXT=" + request.executable));
  }
  takeover_requested_ = true;
  options_.on_stop("the next daemon takes over");
  return {};
}

}  // namespace leat
