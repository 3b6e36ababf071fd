// SPDX-License-Identifier: Apache-2.0
// Changes of mounts in use.
#include <fmt/format.h>

#include "apps/daemon/mount_service.h"
#include "apps/daemon/mount_settings.h"
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
          fmt::format("'leat snapshot use NAME {}' lets a mount go by a snapshot", change.path));
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
constexpr auto kTurnPatience = std::chrono::seconds(30);
constexpr auto kTurnPause = std::chrono::milliseconds(10);

}  // namespace

std::string MountService::responsible_for(const std::string& path) const {
  std::lock_guard lock(mutex_);
  std::string nearest;
  for (const auto& [at, entry] : entries_) {
    if (is_at_or_below(path, at) && at.size() > nearest.size()) nearest = at;
  }
  return nearest.empty() ? path : nearest;
}

Task<Result<MountService::EntryPtr>> MountService::claim(Context context, std::string path,
                                                         Inside inside, At at) {
  const Context patience = context.with_timeout(kTurnPatience);
  for (;;) {
    // Another mount may contain the path when the entry is free.
    const std::string mount = at == At::kPath ? path : responsible_for(path);
    if (auto claimed = try_claim(mount, inside)) co_return *std::move(claimed);
    if (stopping_.stop_requested()) co_return Error(ending());
    if (!co_await sleep_for(patience, kTurnPause)) {
      co_return error(StatusCode::kBusy,
                      fmt::format("the mount at {} is just changing; try again", mount));
    }
  }
}

Task<Result<MountView>> MountService::change(Context context, MountChange change) {
  std::optional<Activity::Token> token = activity_.enter();
  if (!token) co_return Error(ending());
  Result<EntryPtr> claimed = co_await claim(context, change.path, Inside::kStays, At::kResponsible);
  if (!claimed) co_return Error(claimed.error());
  EntryPtr entry = *claimed;
  Result<> changed = co_await change_claimed(entry, change);
  MountView view = show(entry);
  give_back(entry);
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
  Result<MadePolicy> before = make_policy(mount, entry->settings, owner_of(entry->request));
  Result<MadePolicy> after = make_policy(mount, settings, owner_of(entry->request));
  if (!after) co_return Error(after.error());
  Result<> opens = check_opens(entry->folder, after->policy);
  if (!opens) co_return opens;
  set_pools(after->pools);
  owe(entry);
  Result<> set = co_await catalog_.set_policy(mount, after->policy);
  if (!set) {
    settle(entry);
    co_return set;
  }
  {
    std::lock_guard lock(mutex_);
    entry->settings = settings;
    show_settings(entry->view, settings);
  }
  remember();
  refresh_view(mount);
  co_await tell_and_settle(entry, mount);
  // Data in a pool that no path uses any more loses the pool's policy.
  for (const auto& [id, policy] : before->pools) {
    if (!after->pools.contains(id)) set_pools({{id, PoolPolicy{.name = policy.name}}});
  }
  log::info("{} was changed", change.path);
  co_return Result<>();
}

Task<Result<>> MountService::use_snapshot(Context context, std::string path, std::string name,
                                          SnapshotPtr snapshot) {
  std::optional<Activity::Token> token = activity_.enter();
  if (!token) co_return Error(ending());
  Result<EntryPtr> claimed = co_await claim(context, path, Inside::kStays);
  if (!claimed) co_return Error(claimed.error());
  EntryPtr entry = *claimed;
  owe(entry);
  const std::string id = id_of(snapshot);
  Result<> used = co_await catalog_.use_snapshot(path, std::move(snapshot));
  if (!used) {
    settle(entry);
    give_back(entry);
    co_return used;
  }
  {
    std::lock_guard lock(mutex_);
    entry->request.snapshot = name;
    entry->snapshot_id = id;
  }
  remember();
  refresh_view(path);
  give_back(entry);
  co_await tell_and_settle(entry, path);
  if (name.empty()) {
    log::info("{} goes by its store again", path);
  } else {
    log::info("{} goes by the snapshot {}", path, name);
  }
  co_return used;
}

// Open files are served to their end: by its own door, or by the door that served it.
void MountService::keep_for_open_files(const EntryPtr& entry) {
  if (EntryPtr door = entry->lingers() ? entry : shown_by(entry)) keep_source(door, entry);
}

void MountService::keep_source(const EntryPtr& door, const EntryPtr& entry) {
  const StoreId& id = entry->source->id();
  SourcePtr source = sources_.find(id);  // the newest of this store, which continues to serve them
  if (source == nullptr) return;
  sources_.add(source);
  bool first;
  {
    std::lock_guard lock(mutex_);
    first = door->kept.emplace(id, source).second;
  }
  if (!first) sources_.remove(source);
}

void MountService::owe(const EntryPtr& entry) {
  {
    std::lock_guard lock(mutex_);
    ++entry->untold;
  }
  remember();
}

void MountService::settle(const EntryPtr& entry) {
  {
    std::lock_guard lock(mutex_);
    --entry->untold;
  }
  remember();
}

// This notification also covers changes that were given up before.
Task<> MountService::tell_and_settle(EntryPtr entry, std::string path) {
  unsigned changes = 1;
  {
    std::lock_guard lock(mutex_);
    changes += std::exchange(entry->given_up, 0);
  }
  const bool told = co_await tell_kernel(path);
  {
    std::lock_guard lock(mutex_);
    if (told) {
      entry->untold -= changes;
    } else {
      entry->given_up += changes;
    }
  }
  if (told) remember();
}

// While this task is counted, entries with doors that may show the change are not destroyed. An
// entry that is being unmounted is notified, too, since its folder may be bind-mounted elsewhere.
Task<bool> MountService::tell_kernel(std::string path) {
  std::vector<EntryPtr> doors;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [at, entry] : entries_) {
      const bool shows = is_at_or_below(path, at) || is_at_or_below(at, path);
      if (entry->door && shows) doors.push_back(entry);
    }
  }
  bool all_told = true;
  for (const EntryPtr& entry : doors) {
    const bool told = co_await tell([this, entry] {
      std::shared_ptr<FuseDoor> door;
      {
        std::lock_guard lock(mutex_);
        door = entry->door;
      }
      return door == nullptr || door->tell_kernel(stopping_.get_token());
    });
    all_told &= told;
    if (!told && !stopping_.stop_requested()) {
      log::warning("{}: a request holds a folder, so the kernel learns of the change only after it",
                   entry->view.path);
    }
  }
  co_return all_told;
}

Task<bool> MountService::tell(std::function<bool()> work) {
  Result<Semaphore::Permit> permit =
      co_await telling_.acquire(Context::background(), 1, "telling the kernel");
  co_return co_await executor_.blocking(std::move(work));
}

void MountService::pass_on(const CatalogChange& change) {
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

Task<> MountService::compare_held(std::string path) {
  std::optional<Activity::Token> token = activity_.enter();
  if (!token) co_return;
  co_await tell([&] {
    for (const auto& file_system : file_systems()) file_system->compare_held(path);
    return true;
  });
  co_await tell_kernel(path);
}

Task<> MountService::bytes_dropped(FileIdSet files) {
  std::optional<Activity::Token> token = activity_.enter();
  if (!token) co_return;
  std::vector<std::shared_ptr<FileSystem>> shown = file_systems();
  {
    std::lock_guard lock(mutex_);
    for (const EntryPtr& entry : lingering_) {
      if (entry->file_system) shown.push_back(entry->file_system);
    }
  }
  co_await tell([&] {
    for (const auto& file_system : shown) file_system->bytes_dropped(files);
    return true;
  });
  co_await tell_kernel("/");
}

Task<Result<MountView>> MountService::move(Context context, MountMove move) {
  std::optional<Activity::Token> token = activity_.enter();
  if (!token) co_return Error(ending());
  if (is_at_or_below(move.to, move.from)) {
    co_return error(StatusCode::kInvalidArgument,
                    fmt::format("cannot move {} to {}, which is in it", move.from, move.to));
  }
  Result<EntryPtr> claimed = co_await claim(context, move.from, Inside::kRefused);
  if (!claimed) co_return Error(claimed.error());
  EntryPtr from = *claimed;
  MountRequest request = from->request;
  request.path = move.to;
  Result<EntryPtr> reserved = reserve(request, from->url);
  const EntryPtr outer = shown_by(from);
  if (outer) owe(outer);
  Result<> moved = reserved ? Result<>() : Result<>(Error(reserved.error()));
  if (moved) moved = co_await move_claimed(context, from, *reserved);
  if (!moved) {
    if (outer) settle(outer);
    if (reserved) {
      std::lock_guard lock(mutex_);
      entries_.erase(move.to);
    }
    give_back(from);
    co_return error(
        moved.error().with_context(fmt::format("cannot move {} to {}", move.from, move.to)));
  }
  EntryPtr to = *reserved;
  MountView view = show(to);
  co_await leave(from);
  log::info("moved {} to {}", move.from, move.to);
  refresh_view(move.to);
  view = show(to);
  give_back(to);
  if (outer) co_await tell_and_settle(outer, move.from);
  if (!view.door) co_await tell_kernel(move.to);
  co_return view;
}

// Mounts the new folder before it unmounts the old one, so that a failure leaves all unchanged.
Task<Result<>> MountService::move_claimed(Context context, EntryPtr from, EntryPtr to) {
  const std::string path = to->view.path;
  Result<MadePolicy> made = make_policy(path, from->settings, owner_of(from->request));
  if (!made) co_return Error(made.error());
  if (made->policy.isolated) {
    co_return error(StatusCode::kUnsupported,
                    "it is isolated by its folder; unmount it and mount it there");
  }
  Result<> apart = co_await check_target(context, from->url, path);
  if (!apart) co_return apart;
  Result<> usable = co_await prepare_target(to);
  if (!usable) co_return usable;
  {
    std::lock_guard lock(mutex_);
    to->settings = from->settings;
    if (to->view.door) to->folder = from->folder;
    to->source = from->source;
    to->snapshot_id = from->snapshot_id;
    to->url = from->url;
    to->view.source = from->view.source;
    to->view.options = from->view.options;
    to->view.paths = from->view.paths;
  }
  Result<> opens = check_opens(to->folder, made->policy);
  if (!opens) co_return opens;
  if (to->view.door) {
    Result<> opened = co_await open_door(to);
    if (!opened) co_return opened;
  }
  Result<> moved = co_await close_door(from, /*lazy=*/false);
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
