// SPDX-License-Identifier: Apache-2.0
// Changes of mounts in use.
#include <fmt/format.h>

#include "daemon/mounts/mount_service.h"
#include "daemon/mounts/mount_settings.h"
#include "telemetry/log.h"

namespace leat {
namespace {

Result<> apply(PolicySettings& settings, const std::string& below, const MountChange& change) {
  const bool of_path = !below.empty();
  PolicySettings::Values& values = settings.at(below);
  auto check = [&](const std::string& option) -> Result<> {
    LEAT_CHECK_OK(check_policy_option(option, of_path));
    if (option != "isolated") return {};
    return error(StatusCode::kInvalidArgument,
                 "'isolated' is decided when it is mounted; unmount it and mount it again");
  };
  for (const auto& [option, value] : change.set) {
    LEAT_CHECK_OK(check(option));
    if (option == "freshness" && value == "snapshot") {
      return error(
          StatusCode::kInvalidArgument,
          fmt::format("'leat snapshot use NAME {}' makes a mount use a snapshot", change.path));
    }
    values[option] = value;
  }
  for (const std::string& option : change.unset) {
    LEAT_CHECK_OK(check(option));
    values.erase(option);
  }
  if (of_path && values.empty()) settings.paths.erase(below);
  return {};
}

// The owner of a mount may hold it until the kernel was notified.
constexpr auto kClaimTimeout = std::chrono::seconds(30);
constexpr auto kClaimRetryInterval = std::chrono::milliseconds(10);

}  // namespace

std::string MountService::nearest_mount(const std::string& path) const {
  std::lock_guard lock(mutex_);
  std::string nearest;
  for (const auto& [at, entry] : entries_) {
    if (is_at_or_below(path, at) && at.size() > nearest.size()) nearest = at;
  }
  return nearest.empty() ? path : nearest;
}

Task<Result<MountService::EntryPtr>> MountService::claim(Context context, std::string path,
                                                         NestedMounts inside, MountMatch at) {
  const Context bounded = context.with_timeout(kClaimTimeout);
  for (;;) {
    // Another mount may contain the path when the entry is free.
    const std::string mount = at == MountMatch::kExact ? path : nearest_mount(path);
    if (auto claimed = try_claim(mount, inside)) co_return *std::move(claimed);
    if (stopping_.stop_requested()) co_return Error(ending());
    if (!co_await sleep_for(bounded, kClaimRetryInterval)) {
      co_return error(StatusCode::kBusy,
                      fmt::format("the mount at {} is being changed; try again", mount));
    }
  }
}

Task<Result<MountView>> MountService::change(Context context, MountChange change) {
  std::optional<Gate::Holder> holder = gate_.enter();
  if (!holder) co_return Error(ending());
  Result<EntryPtr> claimed =
      co_await claim(context, change.path, NestedMounts::kKeep, MountMatch::kNearest);
  if (!claimed) co_return Error(claimed.error());
  EntryPtr entry = *claimed;
  Result<> changed = co_await change_claimed(entry, change);
  MountView view = show(entry);
  unclaim(entry);
  if (!changed) {
    co_return error(changed.error().with_context("cannot change " + change.path));
  }
  co_return view;
}

Task<Result<>> MountService::change_claimed(EntryPtr entry, MountChange change) {
  const std::string mount = entry->view.path;
  PolicySettings settings = entry->settings;
  Result<> applied = apply(settings, std::string(path_below(change.path, mount)), change);
  if (!applied) co_return applied;
  Result<ParsedPolicy> before = parse_policy(mount, entry->settings, owner_of(entry->request));
  Result<ParsedPolicy> after = parse_policy(mount, settings, owner_of(entry->request));
  if (!after) co_return Error(after.error());
  Result<> opens = check_opens(entry->options, after->policy);
  if (!opens) co_return opens;
  set_pools(after->pools);
  mark_invalidation_pending(entry);
  Result<> set = co_await catalog_.set_policy(mount, after->policy);
  if (!set) {
    clear_invalidation_pending(entry);
    co_return set;
  }
  {
    std::lock_guard lock(mutex_);
    entry->settings = settings;
    show_settings(entry->view, settings);
  }
  save_state();
  refresh_view(mount);
  co_await invalidate_and_clear(entry, mount);
  // Data in a pool that no path uses any more loses the pool's policy.
  for (const auto& [id, policy] : before->pools) {
    if (!after->pools.contains(id)) set_pools({{id, PoolPolicy{.name = policy.name}}});
  }
  log::info("changed mount {}", change.path);
  co_return Result<>();
}

Task<Result<>> MountService::use_snapshot(Context context, std::string path, std::string name,
                                          SnapshotPtr snapshot) {
  std::optional<Gate::Holder> holder = gate_.enter();
  if (!holder) co_return Error(ending());
  Result<EntryPtr> claimed = co_await claim(context, path, NestedMounts::kKeep);
  if (!claimed) co_return Error(claimed.error());
  EntryPtr entry = *claimed;
  mark_invalidation_pending(entry);
  const std::string id = id_of(snapshot);
  Result<> used = co_await catalog_.use_snapshot(path, std::move(snapshot));
  if (!used) {
    clear_invalidation_pending(entry);
    unclaim(entry);
    co_return used;
  }
  {
    std::lock_guard lock(mutex_);
    entry->request.snapshot = name;
    entry->snapshot_id = id;
  }
  save_state();
  refresh_view(path);
  unclaim(entry);
  co_await invalidate_and_clear(entry, path);
  if (name.empty()) {
    log::info("{} uses its store again", path);
  } else {
    log::info("{} uses the snapshot {}", path, name);
  }
  co_return used;
}

// Open files are served to their end: by its own FUSE server, or by the one that served it.
void MountService::keep_for_open_files(const EntryPtr& entry) {
  if (EntryPtr holder = entry->lingers() ? entry : outer_mount(entry))
    keep_source_for(holder, entry);
}

void MountService::keep_source_for(const EntryPtr& holder, const EntryPtr& entry) {
  const StoreId& id = entry->source->id();
  SourcePtr source = sources_.find(id);  // the newest of this store, which continues to serve them
  if (source == nullptr) return;
  sources_.add(source);
  bool first;
  {
    std::lock_guard lock(mutex_);
    first = holder->lingering_sources.emplace(id, source).second;
  }
  if (!first) sources_.remove(source);
}

void MountService::mark_invalidation_pending(const EntryPtr& entry) {
  {
    std::lock_guard lock(mutex_);
    ++entry->pending_invalidations;
  }
  save_state();
}

void MountService::clear_invalidation_pending(const EntryPtr& entry) {
  {
    std::lock_guard lock(mutex_);
    --entry->pending_invalidations;
  }
  save_state();
}

// This notification also covers changes that were abandoned before.
Task<> MountService::invalidate_and_clear(EntryPtr entry, std::string path) {
  unsigned changes = 1;
  {
    std::lock_guard lock(mutex_);
    changes += std::exchange(entry->abandoned_invalidations, 0);
  }
  const bool notified = co_await invalidate_kernel(path);
  {
    std::lock_guard lock(mutex_);
    if (notified) {
      entry->pending_invalidations -= changes;
    } else {
      entry->abandoned_invalidations += changes;
    }
  }
  if (notified) save_state();
}

// While this task is counted, entries with FUSE servers that may show the change are not destroyed.
// An entry that is being unmounted is notified, too, since its folder may be bind-mounted
// elsewhere.
Task<bool> MountService::invalidate_kernel(std::string path) {
  std::vector<EntryPtr> entries;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [at, entry] : entries_) {
      const bool shows = is_at_or_below(path, at) || is_at_or_below(at, path);
      if (entry->server && shows) entries.push_back(entry);
    }
  }
  bool all_notified = true;
  for (const EntryPtr& entry : entries) {
    const bool notified = co_await run_notification([this, entry] {
      std::shared_ptr<FuseServer> server;
      {
        std::lock_guard lock(mutex_);
        server = entry->server;
      }
      return server == nullptr || server->flush_invalidations(stopping_.get_token());
    });
    all_notified &= notified;
    if (!notified && !stopping_.stop_requested()) {
      log::warning("{}: a request holds a directory, so the kernel is invalidated only after it",
                   entry->view.path);
    }
  }
  co_return all_notified;
}

Task<bool> MountService::run_notification(std::function<bool()> work) {
  Result<Semaphore::Permit> permit =
      co_await notifications_.acquire(Context::background(), 1, "notifying the kernel");
  co_return co_await executor_.blocking(std::move(work));
}

void MountService::on_catalog_change(const CatalogChange& change) {
  for (const auto& file_system : file_systems()) file_system->catalog_changed(change);
}

std::vector<std::shared_ptr<FileSystem>> MountService::file_systems() const {
  std::vector<std::shared_ptr<FileSystem>> all;
  std::lock_guard lock(mutex_);
  for (const auto& [path, entry] : entries_) {
    if (entry->file_system) all.push_back(entry->file_system);
  }
  return all;
}

Task<> MountService::revalidate_held(std::string path) {
  std::optional<Gate::Holder> holder = gate_.enter();
  if (!holder) co_return;
  co_await run_notification([&] {
    for (const auto& file_system : file_systems()) file_system->revalidate_held(path);
    return true;
  });
  co_await invalidate_kernel(path);
}

Task<> MountService::bytes_dropped(FileIdSet files) {
  std::optional<Gate::Holder> holder = gate_.enter();
  if (!holder) co_return;
  std::vector<std::shared_ptr<FileSystem>> shown = file_systems();
  {
    std::lock_guard lock(mutex_);
    for (const EntryPtr& entry : lingering_) {
      if (entry->file_system) shown.push_back(entry->file_system);
    }
  }
  co_await run_notification([&] {
    for (const auto& file_system : shown) file_system->bytes_dropped(files);
    return true;
  });
  co_await invalidate_kernel("/");
}

Task<Result<MountView>> MountService::move(Context context, MountMove move) {
  std::optional<Gate::Holder> holder = gate_.enter();
  if (!holder) co_return Error(ending());
  if (is_at_or_below(move.to, move.from)) {
    co_return error(StatusCode::kInvalidArgument,
                    fmt::format("cannot move {} to {}, which is in it", move.from, move.to));
  }
  Result<EntryPtr> claimed = co_await claim(context, move.from, NestedMounts::kReject);
  if (!claimed) {
    co_return error(
        claimed.error().with_context(fmt::format("cannot move {} to {}", move.from, move.to)));
  }
  EntryPtr from = *claimed;
  MountRequest request = from->request;
  request.path = move.to;
  // They belong to the folder: another one would neither show nor send them.
  const UnsentChanges unsent = unsent_of(*from);
  if (unsent.changes > 0 || unsent.local_bytes > 0) {
    unclaim(from);
    co_return error(
        StatusCode::kBusy,
        fmt::format("cannot move {} to {}: its store does not have all that was written; "
                    "'leat flush {}' waits for that, and files with write=local have to "
                    "be removed",
                    move.from, move.to, move.from));
  }
  Result<EntryPtr> reserved = reserve(request, from->url);
  const EntryPtr outer = outer_mount(from);
  const EntryPtr into = reserved ? outer_mount(*reserved) : nullptr;
  if (outer) mark_invalidation_pending(outer);
  if (into) mark_invalidation_pending(into);
  Result<> moved = reserved ? Result<>() : Result<>(Error(reserved.error()));
  if (moved) moved = co_await move_claimed(context, from, *reserved);
  if (!moved) {
    if (outer) clear_invalidation_pending(outer);
    if (into) clear_invalidation_pending(into);
    if (reserved) {
      std::lock_guard lock(mutex_);
      entries_.erase(move.to);
    }
    unclaim(from);
    co_return error(
        moved.error().with_context(fmt::format("cannot move {} to {}", move.from, move.to)));
  }
  EntryPtr to = *reserved;
  MountView view = show(to);
  co_await remove_entry(from);
  log::info("moved {} to {}", move.from, move.to);
  refresh_view(move.to);
  view = show(to);
  unclaim(to);
  if (outer) co_await invalidate_and_clear(outer, move.from);
  if (into) co_await invalidate_and_clear(into, move.to);
  co_return view;
}

// Mounts the new folder before it unmounts the old one, so that a failure leaves all unchanged.
Task<Result<>> MountService::move_claimed(Context context, EntryPtr from, EntryPtr to) {
  const std::string path = to->view.path;
  Result<ParsedPolicy> made = parse_policy(path, from->settings, owner_of(from->request));
  if (!made) co_return Error(made.error());
  if (made->policy.isolated) {
    co_return error(StatusCode::kUnsupported,
                    "it is isolated by its folder; unmount it and mount it there");
  }
  Result<> apart = co_await check_target(context, from->url, path);
  if (!apart) co_return apart;
  Result<> usable = co_await prepare_target(to);
  if (!usable) co_return usable;
  if (to->view.own_fuse_mount) {
    // Those of `from` may belong to the server around it.
    LEAT_CO_TRY(to->options, parse_mount_options(from->url.options));
  }
  {
    std::lock_guard lock(mutex_);
    to->settings = from->settings;
    to->source = from->source;
    to->snapshot_id = from->snapshot_id;
    to->url = from->url;
    to->view.source = from->view.source;
    to->view.options = from->view.options;
    to->view.paths = from->view.paths;
  }
  Result<> opens = check_opens(to->options, made->policy);
  if (!opens) co_return opens;
  if (to->view.own_fuse_mount) {
    Result<> opened = co_await start_server(to);
    if (!opened) co_return opened;
  }
  Result<> moved = co_await stop_server(from, /*lazy=*/false);
  if (!moved && moved.error().code() == StatusCode::kBusy) {
    moved = error(StatusCode::kBusy,
                  fmt::format("{0} is in use; 'fuser -vm {0}' shows by whom", from->view.path));
  }
  if (moved) {
    keep_for_open_files(from);
    set_pools(made->pools);
    moved = catalog_.move(from->view.path, path, made->policy);
  }
  if (!moved) co_await destroy(to);
  co_return moved;
}

void MountService::refresh_view(const std::string& path) {
  for (const MountPtr& mount : catalog_.mounts()) {
    if (mount->entry.path != path) continue;
    std::lock_guard lock(mutex_);
    auto found = entries_.find(path);
    if (found == entries_.end()) continue;
    MountView& view = found->second->view;
    const Policy& policy = mount->entry.policy;
    view.freshness = policy.freshness.to_string();
    view.uid = policy.uid;
    view.gid = policy.gid;
    view.umask = policy.umask;
  }
}

// Keeps options of the store. Replaces options of the policy by their present values, except for
// those with a member of their own.
void MountService::show_settings(MountView& view, const PolicySettings& settings) {
  for (std::string_view option : policy_options()) view.options.erase(std::string(option));
  for (const auto& [option, value] : settings.mount) {
    const bool member = option == "freshness" || option == "uid" || option == "gid";
    if (!member && option != "umask") view.options[option] = value;
  }
  view.paths = settings.paths;
}

}  // namespace leat
