// SPDX-License-Identifier: Apache-2.0
// Invariant: a busy entry belongs to one task, which alone uses its FUSE server and file system. An
// entry that is neither busy nor in a table has no owner and is destroyed.
#include "daemon/mounts/mount_service.h"

#include <fmt/format.h>

#include "daemon/mounts/mount_settings.h"
#include "daemon/mounts/mount_target.h"
#include "daemon/mounts/unsent_view.h"
#include "source/file/file_pool.h"
#include "source/io_timeout.h"
#include "telemetry/log.h"

namespace leat {
namespace {

const MetricFamily kUnsentChanges(MetricType::kGauge, "leat_mounts_unsent_changes",
                                  "Changes that stores do not have yet (write=back)", "",
                                  Stability::kExperimental);
const MetricFamily kUnsentBytes(MetricType::kGauge, "leat_mounts_unsent_bytes",
                                "Bytes of files that stores do not have yet (write=back)", "",
                                Stability::kExperimental);

constexpr std::string_view kClusterScheme = "leat";
// With a longer io_timeout the kernel does not bound requests (FuseServerOptions::request_timeout).
// A request may wait for its store several times: once for each page of a listing.
constexpr Clock::duration kIoTimeoutShort = kIoTimeoutDefault;

bool is_below(std::string_view path, std::string_view parent) {
  return path != parent && is_at_or_below(path, parent);
}

// FuseServer's calls block, so they run on the blocking pool. The kernel does not know nested
// mounts, so their users are found through /proc.
Result<> unmount_server(FuseServer* server, const std::string& path, bool lazy) {
  if (server != nullptr) {
    Result<> unmounted = server->unmount(lazy);
    if (unmounted || unmounted.error().code() == StatusCode::kNotFound) return {};
    if (unmounted.error().code() != StatusCode::kBusy) return unmounted;
  }
  std::string holders = describe_holders(path);
  if (server == nullptr && holders.empty()) return {};
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
      restoring_(options_.takeover_state != nullptr && options_.takeover_state->enabled()),
      unsent_changes_(kUnsentChanges, [this] { return static_cast<double>(all_unsent().changes); }),
      unsent_bytes_(kUnsentBytes, [this] { return static_cast<double>(all_unsent().bytes); }) {
  catalog_.set_change_listener([this](const CatalogChange& change) { on_catalog_change(change); });
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
  std::optional<Gate::Holder> holder = gate_.enter();
  if (!holder) co_return Error(ending());
  Result<StoreUrl> url = parse_source(request);
  Result<> expanded = url ? expand_profile(request, *url) : Result<>(error(url.error()));
  if (!expanded) co_return error(expanded.error().with_context("cannot mount at " + request.path));
  Result<EntryPtr> reserved = reserve(request, *url);
  if (!reserved) co_return Error(reserved.error());
  EntryPtr entry = *reserved;
  const EntryPtr outer = outer_mount(entry);
  if (outer) mark_invalidation_pending(outer);
  Result<> filled = co_await fill(context, entry, *url, std::move(snapshot));
  if (filled && entry->view.own_fuse_mount) {
    filled = co_await start_server(entry);
    if (!filled) (void)catalog_.unmount(request.path);
  }
  if (!filled) {
    {
      std::lock_guard lock(mutex_);
      entries_.erase(request.path);
    }
    if (outer) clear_invalidation_pending(outer);
    close_if_empty();
    co_return error(filled.error().with_context(
        fmt::format("cannot mount {} at {}", url->to_string(), request.path)));
  }
  log::info("mounted {} at {}", entry->view.source, entry->view.path);
  MountView view = show(entry);
  if (view.empty) {
    log::warning("nothing is there under {}: {} shows an empty folder", view.source, view.path);
  }
  save_state();
  unclaim(entry);
  if (outer) co_await invalidate_and_clear(outer, view.path);
  co_return view;
}

MountView MountService::show(const EntryPtr& entry) {
  std::lock_guard lock(mutex_);
  entry->shown = true;
  MountView view = current_view(*entry);
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
  entry->has_long_timeout = io_timeout > kIoTimeoutShort;
  std::lock_guard lock(mutex_);
  if (closed_) return error(ending());
  for (const auto& [path, other] : entries_) {
    if (path == request.path) {
      return error(StatusCode::kExists,
                   fmt::format("cannot mount at {0}: {1} is mounted there; 'leat umount {0}' "
                               "removes it",
                               path, other->view.source));
    }
    if (is_below(path, request.path)) {
      return error(StatusCode::kBusy,
                   fmt::format("cannot mount at {}: it would hide the mount at {}; unmount that, "
                               "and mount it again afterwards",
                               request.path, path));
    }
    if (is_below(request.path, path) && other->busy && !restoring_) {
      return error(StatusCode::kBusy,
                   fmt::format("cannot mount at {}: the mount at {} is being changed; try again",
                               request.path, path));
    }
    if (!is_below(request.path, path)) continue;
    if (entry->has_long_timeout && !other->has_long_timeout) {
      return error(
          StatusCode::kInvalidArgument,
          fmt::format("cannot mount at {0} with io_timeout={1}: the mount at {2} shows it, "
                      "and its requests end before; give {2} as long an io_timeout",
                      request.path, url.options.at(std::string(kIoTimeoutOption)), path));
    }
    entry->view.own_fuse_mount = false;  // so these belong to the outer FUSE server
    entry->options = other->options;
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
  Result<ParsedPolicy> made = parse_policy(request.path, entry->settings, owner_of(request));
  if (!made) co_return Error(made.error());
  if (entry->view.own_fuse_mount) {
    LEAT_CO_TRY(entry->options, parse_mount_options(url.options));
  }
  Result<> opens = check_opens(entry->options, made->policy);
  if (!opens) co_return opens;
  entry->view.read_only = !entry->options.writable;
  // A predecessor has checked it. The path to check may be in a mount that waits for this daemon.
  if (!restoring()) {
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
                                           std::move(url), !restoring());
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
  if (!entry->view.own_fuse_mount || entry->inherited) co_return Result<>();
  const std::string path = entry->view.path;
  Result<bool> dead = co_await executor_.blocking([path] { return prepare_mount_target(path); });
  if (!dead) co_return Error(dead.error());
  if (*dead) log::warning("unmounted {}, left by a daemon that died", path);
  co_return Result<>();
}

void MountService::set_pools(const std::map<PoolId, PoolPolicy>& pools) {
  if (store_ == nullptr) return;
  for (const auto& [id, policy] : pools) store_->set_pool_policy(id, policy);
}

// Reports wrong credentials, bucket or endpoint now and not at the first `ls`.
Task<Result<bool>> MountService::probe(Context context, SourcePtr source, StoreUrl url) {
  Context bounded = context.with_timeout(options_.probe_timeout);
  ListRequest request;
  request.prefix = url.prefix;
  request.age_max = std::chrono::hours(24);  // only the response matters, not its age
  Result<ListPage> page = co_await source->list(bounded, std::move(request));
  if (!page) co_return Error(page.error());
  co_return !page->objects.empty() || page->skipped > 0 || !page->next_token.empty();
}

FuseServerOptions MountService::server_options(const EntryPtr& entry) {
  const MountRequest& request = entry->request;
  FuseServerOptions options;
  options.mountpoint = request.path;
  options.fs_name = "leat:" + entry->view.source;
  options.allow_other = request.allow_other;
  options.no_open = entry->options.no_open;
  options.read_ahead_bytes = entry->options.kernel_readahead;
  if (entry->has_long_timeout) options.request_timeout = std::chrono::seconds(0);
  options.disabled_features = options_.disabled_features;
  options.read_only = !entry->options.writable;
  options.passthrough = request.passthrough;
  options.io_uring = options_.io_uring;
  options.threads = options_.threads;
  options.connections = options_.connections;
  std::weak_ptr<Entry> weak = entry;
  options.on_unmounted = [this, weak] {
    if (EntryPtr alive = weak.lock()) alive->ended = true;
    // After stop() no reaper is needed, and the service must not be accessed.
    if (auto holder = gate_.enter()) executor_.spawn(reap(std::move(*holder), weak));
  };
  return options;
}

Task<Result<>> MountService::unmount(Context context, std::string path, bool lazy) {
  std::optional<Gate::Holder> holder = gate_.enter();
  if (!holder) co_return Error(ending());
  Result<EntryPtr> claimed = co_await claim(context, path, NestedMounts::kReject);
  if (!claimed) co_return Error(claimed.error());
  EntryPtr entry = *claimed;
  Result<> closed = co_await stop_server(entry, lazy);
  if (!closed) {
    unclaim(entry);
    co_return closed;
  }
  keep_for_open_files(entry);
  // Files with a failed save, while the mount is known.
  if (!entry->lingers()) {
    co_await executor_.blocking([this, entry] {
      save_all(*entry);
      return true;
    });
  }
  const EntryPtr outer = outer_mount(entry);
  if (outer) mark_invalidation_pending(outer);
  (void)catalog_.unmount(path);
  if (entry->lingers()) co_await invalidate_kernel(path);
  co_await remove_entry(entry);
  if (outer) co_await invalidate_and_clear(outer, path);
  log::info("unmounted {}{}", path,
            entry->server ? "; open files and bind mounts are still served" : "");
  close_if_empty();
  co_return Result<>();
}

Task<> MountService::remove_entry(EntryPtr entry) {
  const bool lingers = entry->lingers();
  {
    std::lock_guard lock(mutex_);
    entries_.erase(entry->view.path);
    if (lingers) lingering_.insert(entry);
  }
  save_state();
  if (lingers) {
    // The last file may have been closed before the entry was added to lingering_.
    if (auto reaping = gate_.enter()) executor_.spawn(reap(std::move(*reaping), entry));
  } else {
    co_await destroy(entry);
  }
}

// On success the caller owns the entry.
std::optional<Result<MountService::EntryPtr>> MountService::try_claim(const std::string& path,
                                                                      NestedMounts inside) {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(path);
  if (found == entries_.end()) {
    return error(StatusCode::kNotFound,
                 fmt::format("there is no mount at {}; 'leat mounts' lists them", path));
  }
  EntryPtr entry = found->second;
  if (entry->busy) return std::nullopt;
  for (const auto& [other, unused] : entries_) {
    if (inside == NestedMounts::kKeep || !is_below(other, path)) continue;
    return error(StatusCode::kBusy,
                 fmt::format("cannot unmount {0}: {1} is mounted inside; 'leat umount {1}' first",
                             path, other));
  }
  entry->busy = true;
  return entry;
}

// Ends the ownership from claim() or reserve(), for an entry that stays.
void MountService::unclaim(const EntryPtr& entry) {
  {
    std::lock_guard lock(mutex_);
    entry->busy = false;
  }
  // The reaper skipped its end while the entry was busy.
  if (!entry->ended) return;
  if (auto holder = gate_.enter()) executor_.spawn(reap(std::move(*holder), entry));
}

// Returns the entry with the FUSE server of a nested mount; null for one with its own.
MountService::EntryPtr MountService::outer_mount(const EntryPtr& entry) {
  if (entry->view.own_fuse_mount) return nullptr;
  std::lock_guard lock(mutex_);
  for (const auto& [path, other] : entries_) {
    if (other->view.own_fuse_mount && is_below(entry->view.path, path)) return other;
  }
  return nullptr;
}

Task<Result<>> MountService::stop_server(EntryPtr entry, bool lazy) {
  if (entry->server == nullptr && lazy) co_return Result<>();
  FuseServer* server = entry->server.get();
  std::string path = entry->view.path;
  Result<> unmounted = co_await executor_.blocking(
      [server, path, lazy]() -> Result<> { return unmount_server(server, path, lazy); });
  co_return unmounted;
}

// A connection has ended: another program unmounted the directory, or it was lingering. Mounts
// inside have no server any more, so they end, too; unclaim() continues with those that are busy.
Task<> MountService::reap(Gate::Holder holder, std::weak_ptr<Entry> ended) {
  EntryPtr entry = ended.lock();
  if (!entry) co_return;
  bool lingered = false;
  std::vector<EntryPtr> inside;
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
      for (const auto& [path, nested] : entries_) {
        if (is_below(path, entry->view.path)) inside.push_back(nested);
      }
      for (const EntryPtr& nested : inside) nested->ended = true;
    }
  }
  if (!lingered) {
    log::warning("{} {}", entry->view.path,
                 entry->view.own_fuse_mount ? "was unmounted by another program"
                                            : "ended with the mount around it");
    (void)catalog_.unmount(entry->view.path);
  }
  for (const EntryPtr& nested : inside) executor_.spawn(reap(holder.another(), nested));
  save_state();
  co_await destroy(entry);
  close_if_empty();
}

Task<> MountService::destroy(EntryPtr entry) {
  auto close = [this, entry] {
    std::shared_ptr<FuseServer> server;
    {
      std::lock_guard lock(mutex_);
      server.swap(entry->server);
    }
    server.reset();
    save_written(*entry);
    if (entry->connection_number != 0) options_.takeover_state->remove(entry->connection_number);
    return true;
  };
  co_await executor_.blocking(std::move(close));
  std::map<StoreId, SourcePtr> sources;
  {
    std::lock_guard lock(mutex_);
    sources.swap(entry->lingering_sources);
  }
  for (const auto& [id, source] : sources) sources_.remove(source);
}

void MountService::close_if_empty() {
  {
    std::lock_guard lock(mutex_);
    const bool ending = closed_ || gate_.closed();
    if (!options_.close_when_empty || ending || !entries_.empty() || !lingering_.empty()) return;
    closed_ = true;
  }
  options_.on_empty();
}

Task<> MountService::stop() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  cancel_waits();
  gate_.close();
  co_await gate_.wait_idle();
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
