// SPDX-License-Identifier: Apache-2.0
#include "catalog/catalog.h"

#include <fmt/format.h>

#include <algorithm>

#include "catalog/catalog_metrics.h"
#include "catalog/directory.h"
#include "catalog/snapshot_change.h"
#include "catalog/snapshot_mount.h"
#include "catalog/store_flights.h"
#include "catalog/tree.h"
#include "runtime/executor.h"
#include "runtime/gate.h"
#include "runtime/scoped_span.h"

namespace leat {
namespace {

bool is_missing(const Status& status) {
  return status.code() == StatusCode::kNotFound || status.code() == StatusCode::kNotDirectory;
}

// Codes that are results stay as they are; others get the path as context.
Status explain(const Status& status, std::string_view path) {
  switch (status.code()) {
    case StatusCode::kNotFound:
    case StatusCode::kNotDirectory:
    case StatusCode::kCancelled:
    case StatusCode::kTimedOut:
      return status;
    case StatusCode::kUnavailable:
    case StatusCode::kThrottled:
      return status.with_context(fmt::format(
          "cannot look up {}: the store must be requested and does not respond; try again later",
          path));
    default:
      return status.with_context(fmt::format("cannot look up {}", path));
  }
}

// Returns the difference between two answers. `before`: nothing if it was stale, so that a change
// is certain.
RefreshResult compare(const std::string& name, const std::optional<Result<CatalogEntry>>& before,
                      const Result<CatalogEntry>& after) {
  using Kind = NamedChange::Kind;
  RefreshResult result;
  const bool was = before && before->has_value();
  const bool was_stale = !before;
  if (after && !was && !was_stale) result.note({name, Kind::kAdded, after->info.is_directory()});
  if (!after && (was || was_stale)) {
    result.note({name, Kind::kRemoved, was && (**before).info.is_directory()});
  }
  if (after && (was || was_stale)) {
    const bool same = was && (**before).info == after->info &&
                      (after->info.is_directory() || (**before).ref->id == after->ref->id);
    if (!same) result.note({name, Kind::kChanged, after->info.is_directory()});
  }
  return result;
}

Status ending() {
  return {StatusCode::kUnavailable, "the catalog is ending"};
}

class CatalogImpl : public Catalog {
 public:
  CatalogImpl(CatalogOptions options, SourceTable& sources, Executor& executor)
      : tree_(std::make_shared<Tree>(std::move(options))),
        sources_(sources),
        executor_(executor),
        names_gauge_(catalog_metrics::names,
                     [tree = tree_] { return static_cast<double>(tree->names()); }) {}

  ~CatalogImpl() override {
    tree_->set_listener(nullptr);
    tree_->stop();
    for (const MountPtr& mount : tree_->mounts()) sources_.remove(mount->source);
  }

  Result<> mount(MountEntry entry, SourcePtr source, SnapshotPtr snapshot) override;
  Result<> unmount(std::string path) override;
  std::vector<MountPtr> mounts() const override { return tree_->mounts(); }
  Task<Result<>> use_snapshot(std::string path, SnapshotPtr snapshot) override;
  Task<Result<>> set_policy(std::string path, Policy policy) override;
  Result<> move(std::string from, std::string to, Policy policy) override;

  Task<Result<RefreshResult>> refresh(Context context, std::string path) override;
  Task<Result<RefreshResult>> refresh_name(Context context, std::string path) override;
  void note_changed(const std::string& path, const std::optional<SourceObject>& now) override;
  std::vector<std::string> cached_directories(std::string_view path) const override {
    return tree_->cached_directories(path);
  }
  std::vector<std::string> directories_by_use(std::string_view path) const override {
    return tree_->directories_by_use(path);
  }

  std::optional<Result<CatalogEntry>> try_lookup(std::string_view path) override;
  Task<Result<CatalogEntry>> lookup(Context context, std::string path) override;
  Task<Result<CatalogEntry>> lookup_for_open(Context context, std::string path) override;
  Task<Result<ListingPtr>> list(Context context, std::string path) override;
  ListingPtr try_list(std::string_view path) override { return tree_->fresh_listing(path); }
  ListingPtr last_list(std::string_view path) override { return tree_->last_listing(path); }

  void invalidate(std::string_view path) override;
  void expire(std::string_view path) override;
  void report_changed(std::string_view path) override;
  void set_change_listener(std::function<void(const CatalogChange&)> listener) override {
    tree_->set_listener(std::move(listener));
  }
  Task<> stop() override;

 private:
  std::optional<Result<CatalogEntry>> try_cached(std::string_view path);
  Task<Result<CatalogEntry>> look_up_in_directory(Context context, DirectoryPtr directory,
                                                  std::string name);
  enum class Patience { kUntilItEnds, kForOnePage };
  // Returns whether the listing has ended. With kForOnePage it may go on without this caller.
  Task<Result<bool>> wait_for_listing(Context context, DirectoryPtr directory, uint64_t seen,
                                      Patience patience = Patience::kUntilItEnds);
  Task<Result<CatalogEntry>> wait_for_check(Context context, DirectoryPtr directory,
                                            std::string name, bool shared);
  Result<> check_still_serves(const Directory& directory) const;
  // Returns the directory of a name if it holds names; otherwise null.
  DirectoryPtr cached_directory_of(const std::string& path) const;
  bool mark_stale(std::string_view path, bool changed);
  void notify_mounted(const std::string& path);
  void notify_unmounted(std::string_view path);
  std::optional<Status> parent_error(std::string_view path);

  const TreePtr tree_;
  Gate gate_;  // flights, and callers that joined one
  SourceTable& sources_;
  Executor& executor_;
  const Gauge names_gauge_;
};

Result<> CatalogImpl::mount(MountEntry entry, SourcePtr source, SnapshotPtr snapshot) {
  std::string path = entry.path;
  if (!snapshot && entry.policy.freshness.mode == Freshness::Mode::kSnapshot) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("cannot mount {} at {}: its freshness is 'snapshot' and there is no "
                             "snapshot; build one first",
                             entry.source.to_string(), path));
  }
  Mount mount{.entry = std::move(entry), .source = source};
  if (snapshot) {
    LEAT_TRY(mount, with_snapshot(mount, std::move(snapshot)));
  }
  // Before the mount becomes visible, so that every FileRef has its store.
  sources_.add(source);
  if (Result<> added = tree_->add_mount(MountHistory::begin(std::move(mount))); !added) {
    sources_.remove(source);
    return added;
  }
  notify_mounted(path);
  return {};
}

void CatalogImpl::notify_mounted(const std::string& path) {
  if (path == "/") return;
  tree_->notify({{std::string(parent_path(path)), std::string(last_component(path))}});
}

Result<> CatalogImpl::unmount(std::string path) {
  MountPtr mount = tree_->remove_mount(path);
  if (!mount) {
    return error(StatusCode::kNotFound,
                 fmt::format("cannot unmount {}: nothing is mounted there; `leat mounts` lists the "
                             "mounts",
                             path));
  }
  sources_.remove(mount->source);
  notify_unmounted(path);
  return {};
}

// Directories that only led to the mount are removed, too; names hidden by the mount return.
void CatalogImpl::notify_unmounted(std::string_view path) {
  std::vector<CatalogChange> changes;
  for (std::string_view at = path; at != "/"; at = parent_path(at)) {
    auto answer = try_cached(at);
    bool removed = answer && !answer->has_value();
    changes.push_back({std::string(parent_path(at)), std::string(last_component(at)), removed});
    if (!removed) break;
  }
  tree_->notify(changes);
}

Task<Result<>> CatalogImpl::use_snapshot(std::string path, SnapshotPtr snapshot) {
  std::optional<Gate::Holder> token = gate_.enter();
  if (!token) co_return Error(ending());
  auto change = [&](const Mount& mount) { return with_snapshot(mount, std::move(snapshot)); };
  Result<Tree::MountSwap> done = tree_->swap_mount(path, Tree::CachedDirectories::kEvict, change);
  if (!done) {
    co_return error(
        done.error().with_context(fmt::format("cannot exchange the snapshot of {}", path)));
  }
  auto notify = [tree = tree_, done = *std::move(done)] {
    notify_snapshot_change(*tree, done);
    return true;
  };
  co_await executor_.blocking(std::move(notify));
  co_return Result<>();
}

Task<Result<>> CatalogImpl::set_policy(std::string path, Policy policy) {
  std::optional<Gate::Holder> token = gate_.enter();
  if (!token) co_return Error(ending());
  auto change = [&](const Mount& mount) -> Result<Mount> {
    return with_policy(mount, std::move(policy));
  };
  Result<Tree::MountSwap> done = tree_->swap_mount(path, Tree::CachedDirectories::kKeep, change);
  if (!done) co_return Error(done.error());
  auto notify = [tree = tree_, path] {
    tree->notify({{.parent = path, .name = {}, .whole = true, .may_block = true}});
    return true;
  };
  co_await executor_.blocking(std::move(notify));
  co_return Result<>();
}

Result<> CatalogImpl::move(std::string from, std::string to, Policy policy) {
  LEAT_CHECK_OK(tree_->move_mount(from, to, std::move(policy)));
  notify_unmounted(from);
  notify_mounted(to);
  return {};
}

std::optional<Result<CatalogEntry>> CatalogImpl::try_cached(std::string_view path) {
  const MountTable::Route route = tree_->route(path);
  if (route.in_mount_table || !route.mount) return tree_->mount_answer(path);
  if (route.mount->snapshot) return find_in_snapshot(route.mount, path);
  DirectoryPtr directory = tree_->find_directory(parent_path(path));
  if (!directory) return std::nullopt;
  return directory->answer(last_component(path), tree_->now());
}

std::optional<Result<CatalogEntry>> CatalogImpl::try_lookup(std::string_view path) {
  auto answer = try_cached(path);
  if (answer) catalog_metrics::lookup_hits.add();
  return answer;
}

Task<Result<CatalogEntry>> CatalogImpl::lookup(Context context, std::string path) {
  for (;;) {
    if (auto answer = try_lookup(path)) co_return *std::move(answer);
    catalog_metrics::lookup_misses.add();
    std::string name(last_component(path));
    DirectoryPtr directory = tree_->open_directory(parent_path(path));
    if (!directory) continue;  // its mount was just removed, or has a snapshot now
    Result<CatalogEntry> found = co_await look_up_in_directory(context, directory, std::move(name));
    if (!tree_->replaced(*directory)) co_return found;
  }
}

Task<Result<CatalogEntry>> CatalogImpl::look_up_in_directory(Context context,
                                                             DirectoryPtr directory,
                                                             std::string name) {
  if (reason_to_skip(name) != nullptr) co_return Error(directory->not_found(name));
  const uint64_t seen = directory->listed_by();
  Directory::Need need = directory->need(name, tree_->now());
  if (need == Directory::Need::kCheck) {
    co_return co_await wait_for_check(context, directory, name, /*shared=*/true);
  }
  if (need == Directory::Need::kListing) {
    if (auto failure = parent_error(directory->path())) co_return Error(*std::move(failure));
    Result<bool> listed =
        co_await wait_for_listing(context, directory, seen, Patience::kForOnePage);
    if (!listed) {
      co_return Error(explain(listed.error(), fmt::format("{}/{}", directory->path(), name)));
    }
    if (!*listed) co_return co_await wait_for_check(context, directory, name, /*shared=*/true);
  }
  if (auto known = directory->last_answer(name)) co_return *std::move(known);
  // A change was reported after the listing began.
  co_return co_await wait_for_check(context, directory, name, /*shared=*/true);
}

Task<Result<CatalogEntry>> CatalogImpl::lookup_for_open(Context context, std::string path) {
  DirectoryPtr directory;
  const MountTable::Route route = tree_->route(path);
  if (!route.in_mount_table && route.mount && !route.mount->snapshot) {
    directory = tree_->open_directory(parent_path(path));
  }
  std::string name(last_component(path));
  const bool validate =
      directory && directory->policy().of_file(name).freshness.mode == Freshness::Mode::kValidate;
  if (!validate) co_return co_await lookup(context, path);
  if (!directory->loaded()) {
    Result<CatalogEntry> first = co_await lookup(context, path);
    if (!first || first->info.is_directory()) co_return first;
  } else {
    catalog_metrics::lookup_misses.add();
  }
  // Not shared with a check in flight: the store may have answered that one before this open.
  Result<CatalogEntry> found = co_await wait_for_check(context, directory, name, /*shared=*/false);
  if (tree_->replaced(*directory)) co_return co_await lookup_for_open(context, path);
  co_return found;
}

Task<Result<ListingPtr>> CatalogImpl::list(Context context, std::string path) {
  std::vector<CatalogEntry> mounted = tree_->mount_entries(path);
  if (const MountTable::Route route = tree_->route(path); route.mount && route.mount->snapshot) {
    co_return list_snapshot(route.mount, path, std::move(mounted));
  }
  DirectoryPtr directory = tree_->open_directory(path);
  if (!directory) {
    if (tree_->route(path).mount) co_return co_await list(context, path);  // it has a snapshot now
    auto answer = tree_->mount_answer(path);
    if (answer && !*answer) co_return Error(answer->error());
    co_return Listing::of(std::move(mounted), tree_->now());
  }
  if (auto failure = parent_error(path)) co_return Error(*std::move(failure));
  Result<> listed;
  const uint64_t seen = directory->listed_by();
  if (auto known = directory->listing_state(tree_->now())) {
    listed = *std::move(known);
  } else {
    Result<bool> ended = co_await wait_for_listing(context, directory, seen);
    if (!ended) listed = Error(ended.error());
  }
  if (tree_->replaced(*directory)) co_return co_await list(context, path);
  // A directory that exists only because it leads to a mount.
  bool only_leads =
      !listed && is_missing(listed.error()) && !mounted.empty() && !directory->is_mount_root();
  if (!listed && !only_leads) co_return Error(explain(listed.error(), path));
  co_return directory->show(std::move(mounted));
}

// Returns an error if a fresh listing of the parent shows that `path` is no directory.
std::optional<Status> CatalogImpl::parent_error(std::string_view path) {
  auto answer = path == "/" ? std::nullopt : try_cached(path);
  if (!answer) return std::nullopt;
  if (!*answer) return answer->error();
  if ((*answer)->info.is_directory()) return std::nullopt;
  return Status(StatusCode::kNotDirectory, fmt::format("{} is a file, not a directory", path));
}

Result<> CatalogImpl::check_still_serves(const Directory& directory) const {
  if (tree_->serves(directory)) return {};
  return error(StatusCode::kNotFound, fmt::format("{} does not exist: {} was unmounted meanwhile",
                                                  directory.path(), directory.mount()->entry.path));
}

Task<Result<bool>> CatalogImpl::wait_for_listing(Context context, DirectoryPtr directory,
                                                 uint64_t seen, Patience patience) {
  std::optional<Gate::Holder> token = gate_.enter();
  if (!token) co_return Error(ending());
  auto [flight, ours] = directory->join_listing(seen, tree_->now());
  if (!flight) {
    LEAT_CO_CHECK_OK(check_still_serves(*directory));
    co_return true;
  }
  auto result = flight->result;
  if (ours) executor_.spawn(run_listing(*std::move(token), tree_, directory, flight, &executor_));
  ScopedSpan span(context, "catalog.listing.wait");
  span.note([&] { return directory->path(); });
  if (patience == Patience::kForOnePage) {
    Result<bool> page = co_await flight->first_page->wait(
        context.with_timeout(first_page_wait(*tree_, *directory, *flight)), "listing a directory");
    LEAT_CO_CHECK_OK(context.check("listing a directory"));
    // A store that fails gets no further requests for the same names.
    const bool waits = !page && directory->mount()->source->failing();
    if (!waits && !result->ready()) co_return false;
  }
  Result<bool> listed = co_await result->wait(context, "listing a directory");
  span.adopt(flight->trace);
  if (!listed) co_return Error(listed.error());
  LEAT_CO_CHECK_OK(check_still_serves(*directory));
  co_return true;
}

Task<Result<CatalogEntry>> CatalogImpl::wait_for_check(Context context, DirectoryPtr directory,
                                                       std::string name, bool shared) {
  std::optional<Gate::Holder> token = gate_.enter();
  if (!token) co_return Error(ending());
  auto [flight, ours] = directory->join_check(name, shared, tree_->now());
  auto result = flight->result;
  Clock::time_point asked_at = flight->started_at;
  if (ours)
    executor_.spawn(run_check(*std::move(token), tree_, directory, name, flight, &executor_));
  ScopedSpan span(context, "catalog.stat.wait");
  Result<CheckedName> checked = co_await result->wait(context, "looking up a name");
  span.adopt(flight->trace);
  if (!checked) {
    co_return Error(explain(checked.error(), fmt::format("{}/{}", directory->path(), name)));
  }
  if (Result<> serves = check_still_serves(*directory); !serves) co_return Error(serves.error());
  if (!checked->exists) co_return Error(directory->not_found(name));
  co_return directory->entry_of(name, *checked, asked_at);
}

Task<Result<RefreshResult>> CatalogImpl::refresh(Context context, std::string path) {
  std::optional<Gate::Holder> token = gate_.enter();
  if (!token) co_return Error(ending());
  RefreshResult all;
  for (;;) {
    DirectoryPtr directory = tree_->open_directory(path);
    if (!directory) co_return all;  // in a snapshot, or above all mounts
    ListingFlightPtr flight = directory->begin_listing(tree_->now());
    executor_.spawn(run_listing(token->another(), tree_, directory, flight, &executor_));
    Result<bool> listed = co_await flight->result->wait(context, "listing a directory");
    Result<bool> notified = co_await flight->notified->wait(context, "notifying of changes");
    if (notified)
      all.add(flight->differences);  // a replaced directory has no differences for its successor
    if (tree_->replaced(*directory)) continue;
    if (!listed && !is_missing(listed.error())) co_return Error(explain(listed.error(), path));
    co_return all;
  }
}

DirectoryPtr CatalogImpl::cached_directory_of(const std::string& path) const {
  DirectoryPtr directory =
      tree_->mount_answer(path) ? nullptr : tree_->find_directory(parent_path(path));
  // A first listing in flight may return the state before the change.
  if (directory && !directory->holds_names()) directory->expire();
  return directory && directory->holds_names() ? directory : nullptr;
}

Task<Result<RefreshResult>> CatalogImpl::refresh_name(Context context, std::string path) {
  for (;;) {
    const std::string name(last_component(path));
    DirectoryPtr directory = cached_directory_of(path);
    if (!directory) co_return RefreshResult{};
    auto before = directory->last_answer(name);
    Result<CatalogEntry> after =
        co_await wait_for_check(context, directory, name, /*shared=*/false);
    if (tree_->replaced(*directory)) continue;
    if (!after && !is_missing(after.error())) co_return Error(after.error());
    co_return compare(name, before, after);
  }
}

void CatalogImpl::note_changed(const std::string& path, const std::optional<SourceObject>& now) {
  const std::string name(last_component(path));
  DirectoryPtr directory;
  do {
    directory = cached_directory_of(path);
    if (!directory) return;
    note_name(*tree_, *directory, name, now);
  } while (tree_->replaced(*directory));
}

Task<> CatalogImpl::stop() {
  tree_->stop();
  gate_.close();
  co_await gate_.wait_idle();
}

void CatalogImpl::invalidate(std::string_view path) {
  tree_->expire_below(path);
  if (!tree_->mount_answer(path)) mark_stale(path, /*changed=*/false);
}

void CatalogImpl::expire(std::string_view path) {
  tree_->expire(path);
  if (!tree_->mount_answer(path)) mark_stale(path, /*changed=*/false);
}

void CatalogImpl::report_changed(std::string_view path) {
  const MountTable::Route route = tree_->route(path);
  if (route.in_mount_table || !route.mount || route.mount->snapshot) return;
  const Mount& mount = *route.mount;
  std::string key = mount.entry.source.prefix;
  key += path_below_mount(mount, path);
  for (const std::string& shown : tree_->paths_of(mount.source->id(), key)) {
    if (mark_stale(shown, /*changed=*/true)) {
      tree_->notify({{std::string(parent_path(shown)), std::string(last_component(shown))}});
    }
  }
}

// Returns true if the listener must be notified.
bool CatalogImpl::mark_stale(std::string_view path, bool changed) {
  const std::string name(last_component(path));
  DirectoryPtr directory = tree_->find_directory(parent_path(path));
  bool notify = directory == nullptr;  // the listener may hold metadata that is evicted here
  while (directory) {
    notify |= directory->mark_stale(name, changed, tree_->now());
    // A successor may have replaced it before the call.
    DirectoryPtr now = tree_->find_directory(directory->path());
    if (now == directory) break;
    directory = std::move(now);
  }
  return notify;
}

}  // namespace

std::unique_ptr<Catalog> Catalog::create(CatalogOptions options, SourceTable& sources,
                                         Executor& executor) {
  return std::make_unique<CatalogImpl>(std::move(options), sources, executor);
}

}  // namespace leat
