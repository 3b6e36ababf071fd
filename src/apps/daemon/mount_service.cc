// SPDX-License-Identifier: Apache-2.0
// Invariant: a busy entry belongs to one task, which alone uses its door and file system. An entry
// that is neither busy nor in a table has no owner and is destroyed.
#include "apps/daemon/mount_service.h"

#include <fmt/format.h>

#include "apps/daemon/mount_settings.h"
#include "apps/daemon/mount_target.h"
#include "source/file/file_pool.h"
#include "source/io_timeout.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr std::string_view kClusterScheme = "leat";
// With a longer io_timeout the kernel does not bound requests (FuseDoorOptions::request_timeout). A
// request may wait for its store several times: once for each page of a listing.
constexpr Clock::duration kIoTimeoutShort = kIoTimeoutDefault;

bool is_below(std::string_view path, std::string_view parent) {
  return path != parent && is_at_or_below(path, parent);
}

// FuseDoor's calls block, so they run on the blocking pool. The kernel does not know nested mounts,
// so their users are found through /proc.
Result<> unmount_door(FuseDoor* door, const std::string& path, bool lazy) {
  if (door != nullptr) {
    Result<> gone = door->unmount(lazy);
    if (gone || gone.error().code() == StatusCode::kNotFound) return {};
    if (gone.error().code() != StatusCode::kBusy) return gone;
  }
  std::string holders = describe_holders(path);
  if (door == nullptr && holders.empty()) return {};
  return error(StatusCode::kBusy,
               fmt::format("cannot unmount {}: it is in use by {}; end that, or add --lazy", path,
                           holders.empty() ? "a process that this user cannot see" : holders));
}

}  // namespace

MountService::MountService(MountServiceOptions options, Catalog& catalog, Fetcher& fetcher,
                           PageStore* store, SourceTable& sources, Executor& executor)
    : options_(std::move(options)),
      catalog_(catalog),
      fetcher_(fetcher),
      store_(store),
      sources_(sources),
      executor_(executor),
      taking_over_(options_.kept != nullptr && options_.kept->kept()) {
  catalog_.set_change_listener([this](const CatalogChange& change) { pass_on(change); });
}

Result<StoreUrl> MountService::parse_source(const MountRequest& request) {
  LEAT_TRY(StoreUrl url, StoreUrl::parse(request.source));
  for (const auto& [name, value] : request.options) url.options[name] = value;
  return url;
}

// Options are shown only after it is known that none is a secret.
MountView MountService::view_of(const MountRequest& request, const StoreUrl& url) {
  MountView view{.path = request.path, .source = url.to_string()};
  view.allow_other = request.allow_other;
  view.inspection = request.inspection;
  return view;
}

Status MountService::ending() {
  return {StatusCode::kUnavailable, std::string(kDaemonEnding) + "; try again"};
}

MountService::~MountService() {
  catalog_.set_change_listener({});
}

Task<Result<MountView>> MountService::mount(Context context, MountRequest request,
                                            SnapshotPtr snapshot) {
  std::optional<Activity::Token> token = activity_.enter();
  if (!token) co_return Error(ending());
  Result<StoreUrl> url = parse_source(request);
  Result<> expanded = url ? expand_profile(request, *url) : Result<>(error(url.error()));
  if (!expanded) co_return error(expanded.error().with_context("cannot mount at " + request.path));
  Result<EntryPtr> reserved = reserve(request, *url);
  if (!reserved) co_return Error(reserved.error());
  EntryPtr entry = *reserved;
  Result<> filled = co_await fill(context, entry, *url, std::move(snapshot));
  if (filled && entry->view.door) {
    filled = co_await open_door(entry);
    if (!filled) (void)catalog_.unmount(request.path);
  }
  if (!filled) {
    {
      std::lock_guard lock(mutex_);
      entries_.erase(request.path);
    }
    close_if_empty();
    co_return error(filled.error().with_context(
        fmt::format("cannot mount {} at {}", url->to_string(), request.path)));
  }
  log::info("mounted {} at {}", entry->view.source, entry->view.path);
  MountView view = show(entry);
  if (view.empty) {
    log::warning("nothing is there under {}: {} shows an empty folder", view.source, view.path);
  }
  remember();
  give_back(entry);
  if (!entry->view.door) co_await tell_kernel(view.path);
  co_return view;
}

MountView MountService::show(const EntryPtr& entry) {
  std::lock_guard lock(mutex_);
  entry->shown = true;
  MountView view = as_it_is(*entry);
  entry->view.empty = false;  // valid only at the time of the mount
  return view;
}

// Reserves the path in the table, so that no other task mounts there meanwhile.
Result<MountService::EntryPtr> MountService::reserve(const MountRequest& request,
                                                     const StoreUrl& url) {
  auto entry = std::make_shared<Entry>();
  entry->view = view_of(request, url);
  entry->request = request;
  LEAT_TRY(const Clock::duration io_timeout, io_timeout_of(url));
  entry->waits_long = io_timeout > kIoTimeoutShort;
  std::lock_guard lock(mutex_);
  if (closed_) return error(ending());
  for (const auto& [path, other] : entries_) {
    if (path == request.path) {
      return error(StatusCode::kExists,
                   fmt::format("cannot mount at {0}: {1} is mounted there; 'leat umount {0}' takes "
                               "it away",
                               path, other->view.source));
    }
    if (is_below(path, request.path)) {
      return error(StatusCode::kBusy,
                   fmt::format("cannot mount at {}: it would hide the mount at {}; unmount that, "
                               "and mount it again afterwards",
                               request.path, path));
    }
    if (is_below(request.path, path) && other->busy && !taking_over_) {
      return error(StatusCode::kBusy,
                   fmt::format("cannot mount at {}: the mount at {} is just changing; try again",
                               request.path, path));
    }
    if (!is_below(request.path, path)) continue;
    if (entry->waits_long && !other->waits_long) {
      return error(
          StatusCode::kInvalidArgument,
          fmt::format("cannot mount at {0} with io_timeout={1}: the mount at {2} shows it, "
                      "and its requests end before; give {2} as long an io_timeout",
                      request.path, url.options.at(std::string(kIoTimeoutOption)), path));
    }
    entry->view.door = false;  // so these belong to the outer door
    entry->folder = other->folder;
    entry->view.allow_other = other->view.allow_other;
    entry->view.inspection = false;
  }
  entries_[request.path] = entry;
  return entry;
}

Task<Result<>> MountService::fill(Context context, EntryPtr entry, StoreUrl url,
                                  SnapshotPtr snapshot) {
  const MountRequest& request = entry->request;
  entry->settings = policy_settings_of(request, url);
  // A snapshot implies this freshness; another one applies after its release.
  if (auto given = entry->settings.mount.find("freshness");
      snapshot && given != entry->settings.mount.end() && given->second == "snapshot") {
    entry->settings.mount.erase(given);
  }
  // Workers cache the bytes; a second copy on this host must be requested.
  if (url.scheme == kClusterScheme) entry->settings.mount.try_emplace("cache", "never");
  Result<MadePolicy> made = make_policy(request.path, entry->settings, owner_of(request));
  if (!made) co_return Error(made.error());
  if (entry->view.door) {
    LEAT_CO_TRY(entry->folder, make_folder_settings(url.options));
  }
  Result<> opens = check_opens(entry->folder, made->policy);
  if (!opens) co_return opens;
  // A predecessor has checked it. The path to check may be in a mount that waits for this daemon.
  if (!taking_over()) {
    Result<> apart = co_await check_target(context, url, request.path);
    if (!apart) co_return apart;
  }
  std::string salt = made->policy.isolated ? request.path : "";
  Result<SourcePtr> source = co_await open_store(context, url, std::move(salt));
  if (!source) co_return Error(source.error());
  bool is_empty = false;
  if (request.probe) {
    Result<bool> found = co_await probe(context, *source, url);
    if (!found) co_return Error(found.error());
    is_empty = !*found;
  }
  Result<> usable = co_await prepare_target(entry);
  if (!usable) co_return usable;
  set_pools(made->pools);
  Result<> known = catalog_.mount(MountEntry{request.path, url, made->policy}, *source, snapshot);
  if (!known) co_return known;
  {
    std::lock_guard lock(mutex_);
    entry->source = *source;
    entry->snapshot_id = id_of(snapshot);
    entry->url = url;
    entry->view.options = url.options;
    entry->view.empty = is_empty;
    show_settings(entry->view, entry->settings);
  }
  refresh_view(request.path);
  co_return Result<>();
}

Task<Result<SourcePtr>> MountService::open_store(Context context, StoreUrl url, std::string salt) {
  if (url.scheme != kClusterScheme || !options_.open_cluster) co_return open_source(url, salt);
  // An existing mount stays, whether or not a worker responds now.
  co_return co_await options_.open_cluster(context.with_timeout(options_.probe_timeout),
                                           std::move(url), !taking_over());
}

Task<Result<>> MountService::check_target(Context context, StoreUrl url, std::string path) {
  auto compare = [url, path] { return check_apart(url, path); };
  co_return co_await FilePool::of_process().run(context, "a mount", compare);
}

Policy MountService::owner_of(const MountRequest& request) {
  Policy policy;
  policy.uid = request.uid;
  policy.gid = request.gid;
  policy.umask = request.umask;
  return policy;
}

Task<Result<>> MountService::prepare_target(EntryPtr entry) {
  if (!entry->view.door || entry->inherited) co_return Result<>();
  const std::string path = entry->view.path;
  Result<bool> dead = co_await executor_.blocking([path] { return prepare_mount_target(path); });
  if (!dead) co_return Error(dead.error());
  if (*dead) log::warning("{} was the folder of a daemon that died; it was unmounted", path);
  co_return Result<>();
}

void MountService::set_pools(const std::map<PoolId, PoolPolicy>& pools) {
  if (store_ == nullptr) return;
  for (const auto& [id, policy] : pools) store_->set_pool_policy(id, policy);
}

// Reports wrong credentials, bucket or endpoint now and not at the first `ls`.
Task<Result<bool>> MountService::probe(Context context, SourcePtr source, StoreUrl url) {
  Context patience = context.with_timeout(options_.probe_timeout);
  ListRequest request;
  request.prefix = url.prefix;
  request.age_max = std::chrono::hours(24);  // only the response matters, not its age
  Result<ListPage> page = co_await source->list(patience, std::move(request));
  if (!page) co_return Error(page.error());
  co_return !page->objects.empty() || page->left_out > 0 || !page->next_token.empty();
}

FuseDoorOptions MountService::door_options(const EntryPtr& entry) {
  const MountRequest& request = entry->request;
  FuseDoorOptions door;
  door.mountpoint = request.path;
  door.fs_name = "leat:" + entry->view.source;
  door.allow_other = request.allow_other;
  door.no_open = entry->folder.no_open;
  door.read_ahead_bytes = entry->folder.read_ahead;
  if (entry->waits_long) door.request_timeout = std::chrono::seconds(0);
  door.without = options_.without;
  door.passthrough = request.passthrough;
  door.io_uring = options_.io_uring;
  door.threads = options_.threads;
  door.connections = options_.connections;
  std::weak_ptr<Entry> weak = entry;
  door.on_unmounted = [this, weak] {
    if (EntryPtr alive = weak.lock()) alive->ended = true;
    // After stop() no reaper is needed, and the service must not be accessed.
    if (auto token = activity_.enter()) executor_.spawn(reap(std::move(*token), weak));
  };
  return door;
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

Task<Result<>> MountService::unmount(Context context, std::string path, bool lazy) {
  std::optional<Activity::Token> token = activity_.enter();
  if (!token) co_return Error(ending());
  Result<EntryPtr> claimed = co_await claim(context, path, Inside::kRefused);
  if (!claimed) co_return Error(claimed.error());
  EntryPtr entry = *claimed;
  Result<> closed = co_await close_door(entry, lazy);
  if (!closed) {
    give_back(entry);
    co_return closed;
  }
  keep_for_open_files(entry);
  const EntryPtr outer = shown_by(entry);
  if (outer) owe(outer);
  (void)catalog_.unmount(path);
  if (entry->lingers()) co_await tell_kernel(path);
  co_await leave(entry);
  if (outer) co_await tell_and_settle(outer, path);
  log::info("unmounted {}{}", path,
            entry->door ? ", what is open or mounted elsewhere is still served" : "");
  close_if_empty();
  co_return Result<>();
}

Task<> MountService::leave(EntryPtr entry) {
  const bool lingers = entry->lingers();
  {
    std::lock_guard lock(mutex_);
    entries_.erase(entry->view.path);
    if (lingers) lingering_.insert(entry);
  }
  remember();
  if (lingers) {
    // The last file may have been closed before the entry was added to lingering_.
    if (auto reaping = activity_.enter()) executor_.spawn(reap(std::move(*reaping), entry));
  } else {
    co_await destroy(entry);
  }
}

// On success the caller owns the entry.
std::optional<Result<MountService::EntryPtr>> MountService::try_claim(const std::string& path,
                                                                      Inside inside) {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(path);
  if (found == entries_.end()) {
    return error(StatusCode::kNotFound,
                 fmt::format("there is no mount at {}; 'leat mounts' lists them", path));
  }
  EntryPtr entry = found->second;
  if (entry->busy) return std::nullopt;
  for (const auto& [other, unused] : entries_) {
    if (inside == Inside::kStays || !is_below(other, path)) continue;
    return error(StatusCode::kBusy,
                 fmt::format("cannot take {0} away: {1} is mounted inside; 'leat umount {1}' first",
                             path, other));
  }
  entry->busy = true;
  return entry;
}

// Ends the ownership from claim() or reserve(), for an entry that stays.
void MountService::give_back(const EntryPtr& entry) {
  {
    std::lock_guard lock(mutex_);
    entry->busy = false;
  }
  // The reaper skipped its end while the entry was busy.
  if (!entry->ended) return;
  if (auto token = activity_.enter()) executor_.spawn(reap(std::move(*token), entry));
}

// Returns the entry with the door of a nested mount; null for one with its own door.
MountService::EntryPtr MountService::shown_by(const EntryPtr& entry) {
  if (entry->view.door) return nullptr;
  std::lock_guard lock(mutex_);
  for (const auto& [path, other] : entries_) {
    if (other->view.door && is_below(entry->view.path, path)) return other;
  }
  return nullptr;
}

Task<Result<>> MountService::close_door(EntryPtr entry, bool lazy) {
  if (entry->door == nullptr && lazy) co_return Result<>();
  FuseDoor* door = entry->door.get();
  std::string path = entry->view.path;
  Result<> gone = co_await executor_.blocking(
      [door, path, lazy]() -> Result<> { return unmount_door(door, path, lazy); });
  co_return gone;
}

// A connection has ended: another program unmounted the folder, or it was lingering.
Task<> MountService::reap(Activity::Token token, std::weak_ptr<Entry> ended) {
  EntryPtr entry = ended.lock();
  if (!entry) co_return;
  bool lingered = false;
  {
    std::lock_guard lock(mutex_);
    if (lingering_.contains(entry)) {
      if (!entry->ended) co_return;
      lingering_.erase(entry);
      lingered = true;
    } else {
      auto found = entries_.find(entry->view.path);
      if (found == entries_.end() || found->second != entry || entry->busy) co_return;
      entries_.erase(found);
    }
  }
  if (!lingered) {
    log::warning("{} was unmounted by someone else", entry->view.path);
    (void)catalog_.unmount(entry->view.path);
  }
  remember();
  co_await destroy(entry);
  close_if_empty();
}

Task<> MountService::destroy(EntryPtr entry) {
  auto close = [this, entry] {
    std::shared_ptr<FuseDoor> door;
    {
      std::lock_guard lock(mutex_);
      door.swap(entry->door);
    }
    door.reset();
    if (entry->door_number != 0) options_.kept->drop(entry->door_number);
    return true;
  };
  co_await executor_.blocking(std::move(close));
  std::map<StoreId, SourcePtr> kept;
  {
    std::lock_guard lock(mutex_);
    kept.swap(entry->kept);
  }
  for (const auto& [id, source] : kept) sources_.remove(source);
}

std::vector<MountView> MountService::views() const {
  std::vector<MountView> views;
  std::lock_guard lock(mutex_);
  for (const auto& [path, entry] : entries_) {
    if (entry->shown) views.push_back(as_it_is(*entry));
  }
  return views;
}

// Passthrough may have failed since the mount.
MountView MountService::as_it_is(const Entry& entry) {
  MountView view = entry.view;
  if (!entry.door) return view;
  FuseFeatures features = entry.door->features();
  view.features = {{"passthrough", features.passthrough},
                   {"io_uring", features.io_uring},
                   {"no_open", features.no_open},
                   {"readdirplus", features.readdirplus},
                   {"survives", features.survives}};
  view.passthrough_off = std::move(features.passthrough_off);
  view.passthrough_files = entry.door->stats().passthrough_files;
  return view;
}

void MountService::close_if_empty() {
  {
    std::lock_guard lock(mutex_);
    if (!options_.close_when_empty || closed_ || !entries_.empty() || !lingering_.empty()) return;
    closed_ = true;
  }
  options_.on_empty();
}

Task<> MountService::stop() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  give_up();
  activity_.close();
  co_await activity_.wait_idle();
  for (EntryPtr& entry : close()) co_await destroy(std::move(entry));
}

// Removes all entries from the tables and returns them, innermost first; paths are sorted.
std::vector<MountService::EntryPtr> MountService::close() {
  std::vector<EntryPtr> left;
  std::lock_guard lock(mutex_);
  closed_ = true;
  for (auto& [path, entry] : entries_) left.insert(left.begin(), entry);
  left.insert(left.end(), lingering_.begin(), lingering_.end());
  entries_.clear();
  lingering_.clear();
  return left;
}

}  // namespace leat
