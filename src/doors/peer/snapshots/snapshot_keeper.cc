// SPDX-License-Identifier: Apache-2.0
#include "doors/peer/snapshots/snapshot_keeper.h"

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
#include "cluster/registry_mirror.h"
#include "model/mount_entry.h"
#include "peer/cluster_source.h"
#include "peer/mounts/mount_lookup.h"
#include "peer/snapshots/shared_snapshots.h"
#include "runtime/activity.h"
#include "runtime/semaphore.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter built_total("leat_peer_snapshots_built_total",
                    "Snapshots of the cluster that this worker made", "", Stability::kExperimental);

constexpr Clock::duration kMoment = std::chrono::seconds(2);
// A build without requests ends.
constexpr Clock::duration kForgotten = std::chrono::minutes(1);
// A file may arrive before its record is in the registry.
constexpr Clock::duration kRecordComes = std::chrono::minutes(10);
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
      log::warning("{} is left alone: {}", entry.key, record.error().to_string());
    }
  }
  return records;
}

template <class T>
PeerReply<T> answered(Result<T> result, const ClusterView& view) {
  return {PeerReach::kAnswered, std::move(result), view.ring.epoch()};
}

class SnapshotKeeperImpl : public SnapshotKeeper {
 public:
  SnapshotKeeperImpl(SnapshotKeeperParts parts, Executor& executor)
      : parts_(std::move(parts)),
        executor_(executor),
        shelf_(parts_.directory),
        shared_(parts_.map, parts_.peers, executor) {}

  void begin() {
    RegistryMirrorOptions mirror;
    mirror.changed = [this](const RegistryView& view) { note_state(view); };
    mirror_ = RegistryMirror::start(parts_.registry, std::string(kSnapshotKeys), std::move(mirror),
                                    executor_);
    executor_.spawn(look_after(*activity_.enter()));
  }

  Task<PeerReply<std::vector<SharedSnapshot>>> list(Context context) override;
  Task<PeerReply<SnapshotBuild>> build(Context context, SnapshotOrder order,
                                       PeerRoute route) override;
  Task<PeerReply<uint64_t>> remove(Context context, std::string name) override;
  Task<PeerReply<uint64_t>> hold(Context context, SharedSnapshot snapshot) override;
  Task<PeerReply<std::string>> read(Context context, Id128 id, ByteRange range) override;
  std::optional<SnapshotShelf::Held> held(const Id128& id) const override {
    return shelf_.find(id);
  }
  Task<> stop() override;

 private:
  struct Build {
    std::mutex mutex;             // leaf
    std::set<std::string> asked;  // runs that get this build's result
    Clock::time_point asked_at{};
    SnapshotBuild so_far;
    std::stop_source stopping;
    const std::shared_ptr<SharedResult<SharedSnapshot>> ended =
        SharedResult<SharedSnapshot>::make();
  };
  using BuildPtr = std::shared_ptr<Build>;

  Result<BuildPtr> build_of(const SnapshotOrder& order, std::optional<Activity::Token>* begun);
  Task<> run(Activity::Token token, BuildPtr build, SnapshotOrder order);
  Task<Result<SharedSnapshot>> make(Context context, BuildPtr build, SnapshotOrder order);
  Task<Result<SharedSnapshot>> write(Context context, BuildPtr build, SnapshotOrder order,
                                     ClusterMount mount);
  Task<> copy(Context context, SharedSnapshot snapshot);
  Task<Result<Records>> records(Context context) const;
  Task<Result<>> fetch(Context context, SharedSnapshot snapshot);
  Task<> look_after(Activity::Token token);
  void note_state(const RegistryView& view);
  Task<> look(Context context, const Records& records);
  // Returns true if its record left the registry, or never arrived there.
  bool is_over(const SnapshotShelf::Held& held);
  Task<> give_up();

  const SnapshotKeeperParts parts_;
  Executor& executor_;
  SnapshotShelf shelf_;
  const SharedSnapshots shared_;
  std::unique_ptr<RegistryMirror> mirror_;
  Activity activity_;
  std::stop_source stopping_;
  Semaphore fetching_{1};
  std::set<Id128> verified_;                // used by look_after() only
  std::mutex mutex_;                        // before a build's
  std::map<std::string, BuildPtr> builds_;  // by name
  // Snapshots with a record in the registry now, and at any time.
  std::set<Id128> there_, seen_;
};

Task<> SnapshotKeeperImpl::stop() {
  activity_.close();
  stopping_.request_stop();
  {
    std::lock_guard lock(mutex_);
    for (const auto& [name, build] : builds_) build->stopping.request_stop();
  }
  co_await activity_.wait_idle();
  co_await mirror_->stop();
}

// --- what there is -------------------------------------------------------------------------------

Task<Result<Records>> SnapshotKeeperImpl::records(Context context) const {
  Result<RegistryView> view =
      co_await parts_.registry.list(std::move(context), std::string(kSnapshotKeys));
  if (!view) co_return Error(view.error());
  co_return records_of(*view);
}

// If the registry does not respond, uses the mirror and the local files.
Task<PeerReply<std::vector<SharedSnapshot>>> SnapshotKeeperImpl::list(Context context) {
  const ClusterViewPtr view = parts_.map.view();
  Result<Records> all = co_await records(context.with_timeout(kMoment));
  if (!all) all = records_of(*mirror_->view());
  std::map<std::string, SharedSnapshot> by_name;
  if (mirror_->view()->revision == 0) {
    for (SnapshotShelf::Held& held : shelf_.all()) {
      auto& one = by_name[held.record.name];
      if (one.created_ns <= held.record.created_ns) one = std::move(held.record);
    }
  }
  for (auto& [record, changed] : *all) by_name[record.name] = std::move(record);
  std::vector<SharedSnapshot> list;
  for (auto& [name, record] : by_name) list.push_back(std::move(record));
  co_return answered<std::vector<SharedSnapshot>>(std::move(list), *view);
}

Task<PeerReply<uint64_t>> SnapshotKeeperImpl::remove(Context context, std::string name) {
  const ClusterViewPtr view = parts_.map.view();
  Result<Records> all = co_await records(context);
  if (!all) co_return answered<uint64_t>(Error(all.error()), *view);
  for (const auto& [record, changed] : *all) {
    if (record.name != name) continue;
    RegistryChange change{.conditions = {{snapshot_key(name), changed}},
                          .puts = {},
                          .removals = {snapshot_key(name)}};
    Result<RegistryRevision> written = co_await parts_.registry.commit(context, std::move(change));
    if (!written) co_return answered<uint64_t>(Error(written.error()), *view);
    co_return answered<uint64_t>(record.file_bytes, *view);
  }
  co_return answered<uint64_t>(
      error(StatusCode::kNotFound, fmt::format("the cluster has no snapshot '{}'", name)), *view);
}

Task<PeerReply<std::string>> SnapshotKeeperImpl::read(Context, Id128 id, ByteRange range) {
  const ClusterViewPtr view = parts_.map.view();
  std::optional<SnapshotShelf::Held> held = shelf_.find(id);
  if (!held) {
    co_return answered<std::string>(
        error(StatusCode::kNotFound, "this worker does not hold that snapshot"), *view);
  }
  auto read = [held = *std::move(held), range] { return SnapshotShelf::read(held, range); };
  co_return answered<std::string>(co_await executor_.blocking(std::move(read)), *view);
}

// --- making one ----------------------------------------------------------------------------------

// `begun` stays empty if the build is running, or has already answered that run.
Result<SnapshotKeeperImpl::BuildPtr> SnapshotKeeperImpl::build_of(
    const SnapshotOrder& order, std::optional<Activity::Token>* begun) {
  std::lock_guard lock(mutex_);
  if (auto found = builds_.find(order.name); found != builds_.end()) {
    Build& build = *found->second;
    std::lock_guard its(build.mutex);
    if (!build.ended->ready() || build.asked.contains(order.run)) {
      build.asked.insert(order.run);
      build.asked_at = Clock::now();
      return found->second;
    }
  }
  for (auto at = builds_.begin(); at != builds_.end() && builds_.size() >= kBuildsMax;) {
    at = at->second->ended->ready() ? builds_.erase(at) : std::next(at);
  }
  if (builds_.size() >= kBuildsMax) {
    return error(StatusCode::kThrottled, "this worker makes too many snapshots already");
  }
  *begun = activity_.enter();
  if (!*begun) return error(StatusCode::kCancelled, "this worker is ending");
  auto build = std::make_shared<Build>();
  build->asked.insert(order.run);
  build->asked_at = Clock::now();
  builds_[order.name] = build;
  return build;
}

Task<PeerReply<SnapshotBuild>> SnapshotKeeperImpl::build(Context context, SnapshotOrder order,
                                                         PeerRoute route) {
  const ClusterViewPtr view = parts_.map.view();
  if (auto fits = check_snapshot_name(order.name); !fits) {
    co_return answered<SnapshotBuild>(Error(fits.error()), *view);
  }
  if (!route.instead && view->ring.owner(snapshot_place(order.name)) != parts_.self) {
    co_return PeerReply<SnapshotBuild>{PeerReach::kMisdirected,
                                       error(StatusCode::kBusy,
                                             "another worker makes snapshots "
                                             "of that name"),
                                       view->ring.epoch()};
  }
  std::optional<Activity::Token> begun;
  Result<BuildPtr> build = build_of(order, &begun);
  if (!build) co_return answered<SnapshotBuild>(Error(build.error()), *view);
  if (begun) executor_.spawn(run(*std::move(begun), *build, std::move(order)));
  // A timeout only means that it has not ended.
  auto waited = co_await (*build)->ended->wait(context.with_timeout(kMoment), "a snapshot");
  static_cast<void>(waited);
  SnapshotBuild now;
  {
    std::lock_guard lock((*build)->mutex);
    now = (*build)->so_far;
  }
  if (const auto made = (*build)->ended->peek()) {
    if (!*made) co_return answered<SnapshotBuild>(Error(made->error()), *view);
    now.made = **made;
  }
  co_return answered<SnapshotBuild>(std::move(now), *view);
}

Task<> SnapshotKeeperImpl::run(Activity::Token, BuildPtr build, SnapshotOrder order) {
  const Context context = Context::background().with_cancel(build->stopping.get_token());
  const std::string name = order.name;
  Result<SharedSnapshot> made = co_await make(context, build, std::move(order));
  if (!made) log::warning("no snapshot '{}': {}", name, made.error().to_string());
  build->ended->set(std::move(made));
}

Task<Result<SharedSnapshot>> SnapshotKeeperImpl::make(Context context, BuildPtr build,
                                                      SnapshotOrder order) {
  LEAT_CO_TRY(const Records before, co_await records(context));
  RegistryRevision changed = 0;
  for (const auto& [record, revision] : before) {
    if (record.name != order.name) continue;
    if (record.run == order.run) co_return record;
    if (!order.may_replace) {
      co_return error(StatusCode::kExists,
                      fmt::format("the cluster has a snapshot '{}' already, of /{}; another name, "
                                  "or a token with the right to write there, which may replace it",
                                  record.name, record.folder));
    }
    changed = revision;
  }
  const ClusterViewPtr view = parts_.map.view();
  const MountedKey at = find_mounted(*view, order.folder);
  const bool above = at.mount == nullptr;
  if (above || !mounted_names(*view, order.folder).empty()) {
    co_return error(above ? StatusCode::kInvalidArgument : StatusCode::kUnsupported,
                    fmt::format("/{} of the cluster {}; make a snapshot of one mount, or of a "
                                "folder in it",
                                order.folder, above ? "is in no mount" : "has mounts in it"));
  }
  Result<SharedSnapshot> made = co_await write(context, build, order, *at.mount);
  if (!made) co_return made;
  co_await copy(context, *made);
  RegistryChange change{.conditions = {{snapshot_key(order.name), changed}},
                        .puts = {{snapshot_key(order.name), encode_snapshot(*made)}}};
  Result<RegistryRevision> written = co_await parts_.registry.commit(context, std::move(change));
  if (written) {
    built_total.add();
    log::info("the snapshot '{}' of /{} is made: {} files", made->name, made->folder, made->files);
    co_return made;
  }
  if (written.error().code() != StatusCode::kChanged) co_return Error(written.error());
  LEAT_CO_TRY(const Records after, co_await records(context));
  for (const auto& [record, revision] : after) {
    if (record.name == order.name) co_return record;
  }
  co_return error(StatusCode::kChanged,
                  fmt::format("the snapshot '{}' was removed while it was made", order.name));
}

// Writes the snapshot onto the shelf. Names come from their owners, as for a client.
Task<Result<SharedSnapshot>> SnapshotKeeperImpl::write(Context context, BuildPtr build,
                                                       SnapshotOrder order, ClusterMount mount) {
  const std::string cluster = parts_.map.view()->cluster;
  LEAT_CO_TRY(const std::string path, co_await executor_.blocking([this] {
    return shelf_.place_for(Id128::random().to_hex());
  }));
  SourcePtr source = make_cluster_source({.cluster = cluster, .name = "leat://" + cluster},
                                         parts_.map, parts_.peers);
  StoreUrl url{.scheme = "leat", .bucket = cluster, .prefix = order.folder, .options = {}};
  SnapshotBuildOptions options{.path = path, .directories_max = kDirectoriesMax};
  options.of = SnapshotOf{cluster_names_id(), url.to_string(), order.folder};
  options.progress = [build](const SnapshotProgress& now) {
    std::lock_guard lock(build->mutex);
    build->so_far = {.files = now.files, .bytes = now.bytes};
    if (Clock::now() - build->asked_at > kForgotten) build->stopping.request_stop();
  };
  LEAT_CO_TRY(const SnapshotHead head, co_await build_snapshot(context, std::move(source), url,
                                                               executor_, std::move(options)));
  SharedSnapshot made{.name = order.name,
                      .id = head.id,
                      .mount = mount.path,
                      .folder = order.folder,
                      .created_ns = head.created_ns,
                      .files = head.files,
                      .directories = head.directories,
                      .bytes = head.bytes,
                      .left_out = head.left_out,
                      .run = order.run};
  auto keep = [this, path, made]() mutable -> Result<SharedSnapshot> {
    const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return error(status_from_errno(errno, "open " + path));
    LEAT_TRY(const FileSum sum, sum_of(file, path));
    made.file_bytes = sum.bytes;
    made.crc = sum.crc;
    LEAT_CHECK_OK(shelf_.keep(made, path));
    return made;
  };
  co_return co_await executor_.blocking(std::move(keep));
}

// Copies to the required number of other workers, or as many as are present.
Task<> SnapshotKeeperImpl::copy(Context context, SharedSnapshot snapshot) {
  const ClusterViewPtr view = parts_.map.view();
  size_t copies = 1;
  for (const WorkerId& id : view->ring.candidates(snapshot_place(snapshot.name), SIZE_MAX)) {
    if (copies >= parts_.copies) co_return;
    const PeerPtr peer = parts_.peers.find(id);
    if (id == parts_.self || view->worker(id) == nullptr || peer == nullptr || !peer->usable() ||
        peer->snapshots() == nullptr) {
      continue;
    }
    PeerReply<uint64_t> held = co_await peer->snapshots()->hold(context, snapshot);
    if (held.result) {
      ++copies;
    } else {
      log::warning("{} does not hold the snapshot '{}': {}", parts_.peers.name_of(id),
                   snapshot.name, held.result.error().to_string());
    }
  }
  if (copies < parts_.copies) {
    log::info("the snapshot '{}' is held by {} in place of {}", snapshot.name, copies,
              parts_.copies);
  }
}

// --- holding them --------------------------------------------------------------------------------

Task<Result<>> SnapshotKeeperImpl::fetch(Context context, SharedSnapshot snapshot) {
  Result<Semaphore::Permit> turn = co_await fetching_.acquire(context, 1, "fetching a snapshot");
  if (!turn) co_return Error(turn.error());
  if (shelf_.find(snapshot.id)) co_return Result<>();
  LEAT_CO_TRY(const std::string path, co_await executor_.blocking([this] {
    return shelf_.place_for(Id128::random().to_hex());
  }));
  LEAT_CO_CHECK_OK(co_await shared_.fetch(context, snapshot, path));
  auto keep = [this, snapshot, path] { return shelf_.keep(snapshot, path); };
  co_return co_await executor_.blocking(std::move(keep));
}

Task<PeerReply<uint64_t>> SnapshotKeeperImpl::hold(Context context, SharedSnapshot snapshot) {
  const ClusterViewPtr view = parts_.map.view();
  const uint64_t bytes = snapshot.file_bytes;
  const auto token = activity_.enter();
  if (!token) {
    co_return answered<uint64_t>(error(StatusCode::kCancelled, "this worker is ending"), *view);
  }
  Result<> held = co_await fetch(context.with_cancel(stopping_.get_token()), std::move(snapshot));
  if (!held) co_return answered<uint64_t>(Error(held.error()), *view);
  co_return answered<uint64_t>(bytes, *view);
}

Task<> SnapshotKeeperImpl::look_after(Activity::Token) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  while (true) {
    Result<> slept = co_await sleep_for(context, parts_.looked_at);
    if (!slept) co_return;
    const auto view = mirror_->view();
    if (view->revision == 0 || mirror_->trouble() || parts_.map.view()->revision == 0) continue;
    const Records records = records_of(*view);
    co_await look(context, records);
    co_await give_up();
  }
}

Task<> SnapshotKeeperImpl::look(Context context, const Records& records) {
  for (const SnapshotShelf::Held& held : shelf_.all()) {
    const Id128 id = held.record.id;
    if (!verified_.insert(id).second) continue;
    Result<> whole = co_await executor_.blocking([this, id] { return shelf_.verify(id); });
    if (!whole) {
      log::warning("{}", whole.error().to_string());
      verified_.erase(id);
    }
  }
  for (const auto& [record, changed] : records) {
    const auto first =
        parts_.map.view()->ring.candidates(snapshot_place(record.name), parts_.copies);
    if (std::ranges::find(first, parts_.self) == first.end() || shelf_.find(record.id)) continue;
    Result<> fetched = co_await fetch(context, record);
    if (context.cancelled()) co_return;
    if (!fetched) log::warning("{}", fetched.error().to_string());
  }
}

// Called for each state, including those shorter than a check interval.
void SnapshotKeeperImpl::note_state(const RegistryView& view) {
  std::set<Id128> there;
  for (const auto& [record, changed] : records_of(view)) there.insert(record.id);
  std::lock_guard lock(mutex_);
  seen_.insert(there.begin(), there.end());
  there_ = std::move(there);
}

// Uses the newest state, not the one at the start of the check: a record may have arrived since.
bool SnapshotKeeperImpl::is_over(const SnapshotShelf::Held& held) {
  const Id128 id = held.record.id;
  std::lock_guard lock(mutex_);
  if (there_.contains(id)) return false;
  return seen_.erase(id) > 0 || Clock::now() - held.since >= kRecordComes;
}

Task<> SnapshotKeeperImpl::give_up() {
  for (const SnapshotShelf::Held& held : shelf_.all()) {
    if (!is_over(held)) continue;
    const Id128 id = held.record.id;
    log::info("the file of the snapshot '{}' goes: it was removed or replaced", held.record.name);
    co_await executor_.blocking([this, id] {
      shelf_.remove(id);
      return true;
    });
    verified_.erase(id);
  }
}

}  // namespace

std::unique_ptr<SnapshotKeeper> SnapshotKeeper::start(SnapshotKeeperParts parts,
                                                      Executor& executor) {
  auto keeper = std::make_unique<SnapshotKeeperImpl>(std::move(parts), executor);
  keeper->begin();
  return keeper;
}

}  // namespace leat
