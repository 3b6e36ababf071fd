// SPDX-License-Identifier: Apache-2.0
#include "worker/snapshots/worker_snapshot_service.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <set>

#include "catalog/snapshot/snapshot_builder.h"
#include "catalog/snapshot/snapshot_name.h"
#include "catalog/snapshot_mount.h"
#include "cluster/registry_cache.h"
#include "model/mount_entry.h"
#include "peer/mounts/mount_lookup.h"
#include "peer/snapshots/shared_snapshots.h"
#include "peer/sources/cluster_source.h"
#include "runtime/gate.h"
#include "runtime/semaphore.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter built_total("leat_peer_snapshots_built_total",
                    "Snapshots built by this worker for its cluster", "", Stability::kExperimental);

constexpr Clock::duration kPollTimeout = std::chrono::seconds(2);
// A build without requests ends.
constexpr Clock::duration kIdleTimeout = std::chrono::minutes(1);
// A file may arrive before its record is in the registry.
constexpr Clock::duration kRecordTimeout = std::chrono::minutes(10);
// Directories listed concurrently, by their owners.
constexpr unsigned kDirectoriesMax = 64;
constexpr size_t kBuildsMax = 16;  // kept in memory

using Records = std::vector<std::pair<SharedSnapshot, RegistryRevision>>;

Records records_of(const RegistryView& view) {
  Records records;
  for (const RegistryEntry& entry : view.entries) {
    Result<SharedSnapshot> record = decode_snapshot(entry.value);
    if (record) {
      records.emplace_back(*std::move(record), entry.changed);
    } else {
      log::warning("{} is skipped: {}", entry.key, record.error().to_string());
    }
  }
  return records;
}

template <class T>
PeerReply<T> answered(Result<T> result, const ClusterView& view) {
  return {PeerOutcome::kAnswered, std::move(result), view.ring.epoch()};
}

class WorkerSnapshotServiceImpl : public WorkerSnapshotService {
 public:
  WorkerSnapshotServiceImpl(WorkerSnapshotServiceDeps deps, Executor& executor)
      : deps_(std::move(deps)),
        executor_(executor),
        files_(deps_.directory),
        shared_(deps_.views, deps_.peers, executor) {}

  void begin() {
    RegistryCacheOptions cache_options;
    cache_options.changed = [this](const RegistryView& view) { note_state(view); };
    registry_cache_ = RegistryCache::start(deps_.registry, std::string(kSnapshotKeys),
                                           std::move(cache_options), executor_);
    executor_.spawn(check_loop(*gate_.enter()));
  }

  Task<PeerReply<std::vector<SharedSnapshot>>> list(Context context) override;
  Task<PeerReply<SnapshotBuild>> build(Context context, SnapshotRequest request,
                                       PeerRoute route) override;
  Task<PeerReply<uint64_t>> remove(Context context, std::string name) override;
  Task<PeerReply<uint64_t>> hold(Context context, SharedSnapshot snapshot) override;
  Task<PeerReply<std::string>> read(Context context, Id128 id, ByteRange range) override;
  std::optional<SnapshotFiles::StoredSnapshot> find_stored(const Id128& id) const override {
    return files_.find(id);
  }
  Task<> stop() override;

 private:
  struct Build {
    std::mutex mutex;            // leaf
    std::set<std::string> runs;  // runs that get this build's result
    Clock::time_point last_poll_at{};
    SnapshotBuild progress;
    std::stop_source stopping;
    const std::shared_ptr<SharedPromise<SharedSnapshot>> ended =
        SharedPromise<SharedSnapshot>::make();
  };
  using BuildPtr = std::shared_ptr<Build>;

  Result<BuildPtr> build_of(const SnapshotRequest& request, std::optional<Gate::Holder>* begun);
  Task<> run(Gate::Holder holder, BuildPtr build, SnapshotRequest request);
  Task<Result<SharedSnapshot>> make(Context context, BuildPtr build, SnapshotRequest request);
  Task<Result<SharedSnapshot>> write(Context context, BuildPtr build, SnapshotRequest request,
                                     ClusterMount mount);
  Task<> copy(Context context, SharedSnapshot snapshot);
  Task<Result<Records>> records(Context context) const;
  Task<Result<>> fetch(Context context, SharedSnapshot snapshot);
  Task<> check_loop(Gate::Holder holder);
  void note_state(const RegistryView& view);
  Task<> check(Context context, const Records& records);
  // Returns true if its record left the registry, or never arrived there.
  bool is_unregistered(const SnapshotFiles::StoredSnapshot& held);
  Task<> remove_unregistered();

  const WorkerSnapshotServiceDeps deps_;
  Executor& executor_;
  SnapshotFiles files_;
  const SharedSnapshots shared_;
  std::unique_ptr<RegistryCache> registry_cache_;
  Gate gate_;
  std::stop_source stopping_;
  Semaphore fetching_{1};
  std::set<Id128> verified_;                // used by check_loop() only
  std::mutex mutex_;                        // before a build's
  std::map<std::string, BuildPtr> builds_;  // by name
  // Snapshots with a record in the registry now, and at any time.
  std::set<Id128> registered_, ever_registered_;
};

Task<> WorkerSnapshotServiceImpl::stop() {
  gate_.close();
  stopping_.request_stop();
  {
    std::lock_guard lock(mutex_);
    for (const auto& [name, build] : builds_) build->stopping.request_stop();
  }
  co_await gate_.wait_idle();
  co_await registry_cache_->stop();
}

// --- what there is -------------------------------------------------------------------------------

Task<Result<Records>> WorkerSnapshotServiceImpl::records(Context context) const {
  Result<RegistryView> view =
      co_await deps_.registry.list(std::move(context), std::string(kSnapshotKeys));
  if (!view) co_return Error(view.error());
  co_return records_of(*view);
}

// If the registry does not respond, uses the registry cache and the local files.
Task<PeerReply<std::vector<SharedSnapshot>>> WorkerSnapshotServiceImpl::list(Context context) {
  const ClusterViewPtr view = deps_.views.view();
  Result<Records> all = co_await records(context.with_timeout(kPollTimeout));
  if (!all) all = records_of(*registry_cache_->view());
  std::map<std::string, SharedSnapshot> by_name;
  if (registry_cache_->view()->revision == 0) {
    for (SnapshotFiles::StoredSnapshot& held : files_.all()) {
      auto& one = by_name[held.record.name];
      if (one.created_ns <= held.record.created_ns) one = std::move(held.record);
    }
  }
  for (auto& [record, changed] : *all) by_name[record.name] = std::move(record);
  std::vector<SharedSnapshot> list;
  for (auto& [name, record] : by_name) list.push_back(std::move(record));
  co_return answered<std::vector<SharedSnapshot>>(std::move(list), *view);
}

Task<PeerReply<uint64_t>> WorkerSnapshotServiceImpl::remove(Context context, std::string name) {
  const ClusterViewPtr view = deps_.views.view();
  Result<Records> all = co_await records(context);
  if (!all) co_return answered<uint64_t>(Error(all.error()), *view);
  for (const auto& [record, changed] : *all) {
    if (record.name != name) continue;
    RegistryChange change{.conditions = {{snapshot_key(name), changed}},
                          .puts = {},
                          .removals = {snapshot_key(name)}};
    Result<RegistryRevision> written = co_await deps_.registry.commit(context, std::move(change));
    if (!written) co_return answered<uint64_t>(Error(written.error()), *view);
    co_return answered<uint64_t>(record.file_bytes, *view);
  }
  co_return answered<uint64_t>(
      error(StatusCode::kNotFound, fmt::format("the cluster has no snapshot '{}'", name)), *view);
}

Task<PeerReply<std::string>> WorkerSnapshotServiceImpl::read(Context, Id128 id, ByteRange range) {
  const ClusterViewPtr view = deps_.views.view();
  std::optional<SnapshotFiles::StoredSnapshot> held = files_.find(id);
  if (!held) {
    co_return answered<std::string>(
        error(StatusCode::kNotFound, "this worker does not hold that snapshot"), *view);
  }
  auto read = [held = *std::move(held), range] { return SnapshotFiles::read(held, range); };
  co_return answered<std::string>(co_await executor_.blocking(std::move(read)), *view);
}

// --- making one ----------------------------------------------------------------------------------

// `begun` stays empty if the build is running, or has already answered that run.
Result<WorkerSnapshotServiceImpl::BuildPtr> WorkerSnapshotServiceImpl::build_of(
    const SnapshotRequest& request, std::optional<Gate::Holder>* begun) {
  std::lock_guard lock(mutex_);
  if (auto found = builds_.find(request.name); found != builds_.end()) {
    Build& build = *found->second;
    std::lock_guard its(build.mutex);
    if (!build.ended->ready() || build.runs.contains(request.run)) {
      build.runs.insert(request.run);
      build.last_poll_at = Clock::now();
      return found->second;
    }
  }
  for (auto at = builds_.begin(); at != builds_.end() && builds_.size() >= kBuildsMax;) {
    at = at->second->ended->ready() ? builds_.erase(at) : std::next(at);
  }
  if (builds_.size() >= kBuildsMax) {
    return error(StatusCode::kThrottled, "this worker builds too many snapshots already");
  }
  *begun = gate_.enter();
  if (!*begun) return error(StatusCode::kCancelled, "this worker is ending");
  auto build = std::make_shared<Build>();
  build->runs.insert(request.run);
  build->last_poll_at = Clock::now();
  builds_[request.name] = build;
  return build;
}

Task<PeerReply<SnapshotBuild>> WorkerSnapshotServiceImpl::build(Context context,
                                                                SnapshotRequest request,
                                                                PeerRoute route) {
  const ClusterViewPtr view = deps_.views.view();
  if (auto fits = check_snapshot_name(request.name); !fits) {
    co_return answered<SnapshotBuild>(Error(fits.error()), *view);
  }
  if (!route.failover_for && view->ring.owner(snapshot_placement(request.name)) != deps_.self) {
    co_return PeerReply<SnapshotBuild>{PeerOutcome::kNotOwner,
                                       error(StatusCode::kBusy,
                                             "another worker makes snapshots "
                                             "of that name"),
                                       view->ring.epoch()};
  }
  std::optional<Gate::Holder> begun;
  Result<BuildPtr> build = build_of(request, &begun);
  if (!build) co_return answered<SnapshotBuild>(Error(build.error()), *view);
  if (begun) executor_.spawn(run(*std::move(begun), *build, std::move(request)));
  // A timeout only means that it has not ended.
  auto waited = co_await (*build)->ended->wait(context.with_timeout(kPollTimeout), "a snapshot");
  static_cast<void>(waited);
  SnapshotBuild now;
  {
    std::lock_guard lock((*build)->mutex);
    now = (*build)->progress;
  }
  if (const auto made = (*build)->ended->peek()) {
    if (!*made) co_return answered<SnapshotBuild>(Error(made->error()), *view);
    now.built = **made;
  }
  co_return answered<SnapshotBuild>(std::move(now), *view);
}

Task<> WorkerSnapshotServiceImpl::run(Gate::Holder, BuildPtr build, SnapshotRequest request) {
  const Context context = Context::background().with_cancel(build->stopping.get_token());
  const std::string name = request.name;
  Result<SharedSnapshot> made = co_await make(context, build, std::move(request));
  if (!made) log::warning("failed to build snapshot '{}': {}", name, made.error().to_string());
  build->ended->set(std::move(made));
}

Task<Result<SharedSnapshot>> WorkerSnapshotServiceImpl::make(Context context, BuildPtr build,
                                                             SnapshotRequest request) {
  LEAT_CO_TRY(const Records before, co_await records(context));
  RegistryRevision changed = 0;
  for (const auto& [record, revision] : before) {
    if (record.name != request.name) continue;
    if (record.run == request.run) co_return record;
    if (!request.may_replace) {
      co_return error(StatusCode::kExists,
                      fmt::format("the cluster has a snapshot '{}' already, of /{}; another name, "
                                  "or a token with the right to write there, which may replace it",
                                  record.name, record.folder));
    }
    changed = revision;
  }
  const ClusterViewPtr view = deps_.views.view();
  const ResolvedKey at = resolve_key(*view, request.folder);
  const bool above = at.mount == nullptr;
  if (above || !mounted_names(*view, request.folder).empty()) {
    co_return error(above ? StatusCode::kInvalidArgument : StatusCode::kUnsupported,
                    fmt::format("/{} of the cluster {}; make a snapshot of one mount, or of a "
                                "folder in it",
                                request.folder, above ? "is in no mount" : "has mounts in it"));
  }
  Result<SharedSnapshot> made = co_await write(context, build, request, *at.mount);
  if (!made) co_return made;
  co_await copy(context, *made);
  RegistryChange change{.conditions = {{snapshot_key(request.name), changed}},
                        .puts = {{snapshot_key(request.name), encode_snapshot(*made)}}};
  Result<RegistryRevision> written = co_await deps_.registry.commit(context, std::move(change));
  if (written) {
    built_total.add();
    log::info("built snapshot '{}' of /{}: {} files", made->name, made->folder, made->files);
    co_return made;
  }
  if (written.error().code() != StatusCode::kVersionChanged) co_return Error(written.error());
  LEAT_CO_TRY(const Records after, co_await records(context));
  for (const auto& [record, revision] : after) {
    if (record.name == request.name) co_return record;
  }
  co_return error(StatusCode::kVersionChanged,
                  fmt::format("the snapshot '{}' was removed while it was built", request.name));
}

// Writes the snapshot file. Names come from their owners, as for a client.
Task<Result<SharedSnapshot>> WorkerSnapshotServiceImpl::write(Context context, BuildPtr build,
                                                              SnapshotRequest request,
                                                              ClusterMount mount) {
  const std::string cluster = deps_.views.view()->cluster;
  LEAT_CO_TRY(const std::string path, co_await executor_.blocking([this] {
    return files_.temp_path(Id128::random().to_hex());
  }));
  SourcePtr source = make_cluster_source({.cluster = cluster, .name = "leat://" + cluster},
                                         deps_.views, deps_.peers);
  StoreUrl url{.scheme = "leat", .bucket = cluster, .prefix = request.folder, .options = {}};
  SnapshotBuildOptions options{.path = path, .directories_max = kDirectoriesMax};
  options.identity = SnapshotIdentity{cluster_names_id(), url.to_string(), request.folder};
  options.progress = [build](const SnapshotProgress& now) {
    std::lock_guard lock(build->mutex);
    build->progress = {.files = now.files, .bytes = now.bytes};
    if (Clock::now() - build->last_poll_at > kIdleTimeout) build->stopping.request_stop();
  };
  LEAT_CO_TRY(const SnapshotHead head, co_await build_snapshot(context, std::move(source), url,
                                                               executor_, std::move(options)));
  SharedSnapshot made{.name = request.name,
                      .id = head.id,
                      .mount = mount.path,
                      .folder = request.folder,
                      .created_ns = head.created_ns,
                      .files = head.files,
                      .directories = head.directories,
                      .bytes = head.bytes,
                      .skipped = head.skipped,
                      .run = request.run};
  auto keep = [this, path, made]() mutable -> Result<SharedSnapshot> {
    const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return error(status_from_errno(errno, "open " + path));
    LEAT_TRY(const FileSum sum, sum_of(file, path));
    made.file_bytes = sum.bytes;
    made.crc = sum.crc;
    LEAT_CHECK_OK(files_.add(made, path));
    return made;
  };
  co_return co_await executor_.blocking(std::move(keep));
}

// Copies to the required number of other workers, or as many as are present.
Task<> WorkerSnapshotServiceImpl::copy(Context context, SharedSnapshot snapshot) {
  const ClusterViewPtr view = deps_.views.view();
  size_t copies = 1;
  for (const WorkerId& id : view->ring.candidates(snapshot_placement(snapshot.name), SIZE_MAX)) {
    if (copies >= deps_.copies) co_return;
    const PeerPtr peer = deps_.peers.find(id);
    if (id == deps_.self || view->worker(id) == nullptr || peer == nullptr || !peer->usable() ||
        peer->snapshots() == nullptr) {
      continue;
    }
    PeerReply<uint64_t> held = co_await peer->snapshots()->hold(context, snapshot);
    if (held.result) {
      ++copies;
    } else {
      log::warning("{} does not hold the snapshot '{}': {}", deps_.peers.name_of(id), snapshot.name,
                   held.result.error().to_string());
    }
  }
  if (copies < deps_.copies) {
    log::info("snapshot '{}' has {} copies instead of {}", snapshot.name, copies, deps_.copies);
  }
}

// --- holding them --------------------------------------------------------------------------------

Task<Result<>> WorkerSnapshotServiceImpl::fetch(Context context, SharedSnapshot snapshot) {
  Result<Semaphore::Permit> permit = co_await fetching_.acquire(context, 1, "fetching a snapshot");
  if (!permit) co_return Error(permit.error());
  if (files_.find(snapshot.id)) co_return Result<>();
  LEAT_CO_TRY(const std::string path, co_await executor_.blocking([this] {
    return files_.temp_path(Id128::random().to_hex());
  }));
  LEAT_CO_CHECK_OK(co_await shared_.fetch(context, snapshot, path));
  auto keep = [this, snapshot, path] { return files_.add(snapshot, path); };
  co_return co_await executor_.blocking(std::move(keep));
}

Task<PeerReply<uint64_t>> WorkerSnapshotServiceImpl::hold(Context context,
                                                          SharedSnapshot snapshot) {
  const ClusterViewPtr view = deps_.views.view();
  const uint64_t bytes = snapshot.file_bytes;
  const auto holder = gate_.enter();
  if (!holder) {
    co_return answered<uint64_t>(error(StatusCode::kCancelled, "this worker is ending"), *view);
  }
  Result<> held = co_await fetch(context.with_cancel(stopping_.get_token()), std::move(snapshot));
  if (!held) co_return answered<uint64_t>(Error(held.error()), *view);
  co_return answered<uint64_t>(bytes, *view);
}

Task<> WorkerSnapshotServiceImpl::check_loop(Gate::Holder) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  while (true) {
    Result<> slept = co_await sleep_for(context, deps_.check_interval);
    if (!slept) co_return;
    const auto view = registry_cache_->view();
    if (view->revision == 0 || registry_cache_->trouble() || deps_.views.view()->revision == 0)
      continue;
    const Records records = records_of(*view);
    co_await check(context, records);
    co_await remove_unregistered();
  }
}

Task<> WorkerSnapshotServiceImpl::check(Context context, const Records& records) {
  for (const SnapshotFiles::StoredSnapshot& held : files_.all()) {
    const Id128 id = held.record.id;
    if (!verified_.insert(id).second) continue;
    Result<> whole = co_await executor_.blocking([this, id] { return files_.verify(id); });
    if (!whole) {
      log::warning("{}", whole.error().to_string());
      verified_.erase(id);
    }
  }
  for (const auto& [record, changed] : records) {
    const auto first =
        deps_.views.view()->ring.candidates(snapshot_placement(record.name), deps_.copies);
    if (std::ranges::find(first, deps_.self) == first.end() || files_.find(record.id)) continue;
    Result<> fetched = co_await fetch(context, record);
    if (context.cancelled()) co_return;
    if (!fetched) log::warning("{}", fetched.error().to_string());
  }
}

// Called for each state, including those shorter than a check interval.
void WorkerSnapshotServiceImpl::note_state(const RegistryView& view) {
  std::set<Id128> there;
  for (const auto& [record, changed] : records_of(view)) there.insert(record.id);
  std::lock_guard lock(mutex_);
  ever_registered_.insert(there.begin(), there.end());
  registered_ = std::move(there);
}

// Uses the newest state, not the one at the start of the check: a record may have arrived since.
bool WorkerSnapshotServiceImpl::is_unregistered(const SnapshotFiles::StoredSnapshot& held) {
  const Id128 id = held.record.id;
  std::lock_guard lock(mutex_);
  if (registered_.contains(id)) return false;
  return ever_registered_.erase(id) > 0 || Clock::now() - held.since >= kRecordTimeout;
}

Task<> WorkerSnapshotServiceImpl::remove_unregistered() {
  for (const SnapshotFiles::StoredSnapshot& held : files_.all()) {
    if (!is_unregistered(held)) continue;
    const Id128 id = held.record.id;
    log::info("removing the file of snapshot '{}': it was removed or replaced", held.record.name);
    co_await executor_.blocking([this, id] {
      files_.remove(id);
      return true;
    });
    verified_.erase(id);
  }
}

}  // namespace

std::unique_ptr<WorkerSnapshotService> WorkerSnapshotService::start(WorkerSnapshotServiceDeps deps,
                                                                    Executor& executor) {
  auto service = std::make_unique<WorkerSnapshotServiceImpl>(std::move(deps), executor);
  service->begin();
  return service;
}

}  // namespace leat
