// SPDX-License-Identifier: Apache-2.0
#include "worker/worker_service.h"

#include <fmt/format.h>

#include <algorithm>

#include "cluster/stripes.h"
#include "peer/fd_passing/passed_file.h"
#include "peer/mounts/mount_lookup.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "wire/name_messages.h"

namespace leat {
namespace {

constexpr size_t kPageNames = kListResponseObjectsMax;

Counter served_bytes("leat_peer_served_bytes_total", "Bytes served to clients and other workers");
Counter served_reads("leat_peer_served_reads_total", "Reads served to clients and other workers");
Counter replica_reads("leat_peer_replica_reads_total", "Reads served as a replica of a stripe");
Counter sent_fds("leat_peer_fds_sent_total",
                 "File descriptors of complete cached files sent to readers on this host");
Counter turned_away("leat_peer_not_owner_replies_total",
                    "Requests rejected because another worker owns the data", "",
                    Stability::kExperimental);

// Long enough for readers to receive renewed advice, short enough to expire soon.
constexpr std::chrono::seconds kHintTtl{10};

void note_served(const PeerRead& request) {
  served_reads.add();
  served_bytes.add(request.range.size);
  if (request.route.replicas > 1) replica_reads.add();
}

std::string_view parent_of(std::string_view key) {
  if (key.ends_with('/')) key.remove_suffix(1);
  return key.substr(0, key.rfind('/') + 1);
}

SourceObject object_of(const std::string& directory, const CatalogEntry& entry) {
  SourceObject object;
  object.key = directory + entry.info.name;
  object.kind = entry.info.kind;
  object.mtime = entry.info.mtime;
  if (entry.info.is_directory()) {
    object.key += '/';
  } else {
    object.size = entry.ref->size;
    object.version = entry.ref->version;
  }
  return object;
}

// Returns true if the cached name equals the store's answer.
bool agrees(const Result<CatalogEntry>& known, const Result<SourceObject>& now) {
  if (!known || !now) return !known && !now;
  if (known->info.is_directory() || now->key.ends_with('/')) {
    return known->info.is_directory() == now->key.ends_with('/');
  }
  return known->ref->size == now->size && known->ref->version == now->version;
}

Error no_cache() {
  return error(StatusCode::kUnsupported, "this worker has no cache");
}

template <class T>
PeerReply<T> answered(Result<T> result, const ClusterView& view) {
  return {PeerOutcome::kAnswered, std::move(result), view.ring.epoch()};
}

// Replies with errors of resolve(). A worker that does not have the mount (yet), or cannot open it,
// is not the right one; others may answer.
template <class T>
PeerReply<T> cannot_resolve(const Status& why, const ClusterView& view) {
  const bool elsewhere = why.code() == StatusCode::kBusy;
  return {elsewhere ? PeerOutcome::kNotOwner : PeerOutcome::kAnswered, Error(why),
          view.ring.epoch()};
}

// Returns how long ago the store was read, from the end of the freshness.
Clock::duration age_of(Clock::time_point fresh_until, const Freshness& freshness) {
  if (freshness.mode != Freshness::Mode::kMaxAge) return Clock::duration(0);
  return std::max(Clock::duration(0),
                  Clock::duration(freshness.max_age) - (fresh_until - Clock::now()));
}

}  // namespace

Result<WorkerService::Target> WorkerService::resolve(const std::string& mount, const StoreId& store,
                                                     std::string_view key) const {
  Target target{.view = deps_.views.view(), .mount = nullptr, .policy = nullptr, .path = ""};
  auto found = target.view->mounts.find(mount);
  if (found == target.view->mounts.end()) {
    return error(StatusCode::kBusy, fmt::format("{} is not known to this worker (yet)", mount));
  }
  target.mount = &found->second;
  if (target.mount->store != store || !key.starts_with(target.mount->prefix)) {
    return error(StatusCode::kPermissionDenied,
                 fmt::format("'{}' does not belong to the mount at {}", key, mount));
  }
  target.policy = deps_.policy_of(mount);
  if (target.policy == nullptr) {
    return error(
        StatusCode::kBusy,
        fmt::format("the mount at {} is not served by this worker (yet); its log says why", mount));
  }
  std::string_view below = key.substr(target.mount->prefix.size());
  if (below.ends_with('/')) below.remove_suffix(1);
  target.path = join_path(mount, below);
  return target;
}

// Returns true if this worker is responsible. A failover request is, whatever the ring of this
// worker is.
bool WorkerService::is_responsible(const ClusterView& view, PlacementKey key,
                                   const PeerRoute& route) const {
  return route.failover_for.has_value() || view.ring.owner(key) == deps_.self;
}

// Returns true if this worker is one of the first candidates, and the request is a replica read.
bool WorkerService::is_replica(const ClusterView& view, PlacementKey key,
                               const PeerRoute& route) const {
  if (route.replicas <= 1 || deps_.replicas == nullptr) return false;
  const auto candidates = view.ring.candidates(key, std::min(route.replicas, kReplicasMax));
  return std::ranges::find(candidates, deps_.self) != candidates.end();
}

template <class T>
PeerReply<T> WorkerService::not_owner(const ClusterView& view) const {
  turned_away.add();
  return {PeerOutcome::kNotOwner,
          error(StatusCode::kBusy, "another worker owns this by the ring of this worker"),
          view.ring.epoch()};
}

// --- bytes ---------------------------------------------------------------------------------------

Result<FileRefPtr> WorkerService::local_ref(const std::string& mount, const FileRef& requested,
                                            ByteRange range) const {
  if (range.size > kServiceReadBytesMax || range.empty() || range.end() > requested.size) {
    return error(StatusCode::kOutOfRange,
                 fmt::format("cannot read {} bytes at {} of '{}', which has {}, in one request",
                             range.size, range.offset, requested.key, requested.size));
  }
  return local_ref(mount, requested);
}

// Returns the same version of the same object, with the mount's cache policy of this worker.
Result<FileRefPtr> WorkerService::local_ref(const std::string& mount,
                                            const FileRef& requested) const {
  LEAT_TRY(Target target, resolve(mount, requested.store, requested.key));
  const PathPolicy& policy = target.policy->of(path_below(target.path, mount));
  return std::make_shared<const FileRef>(
      FileRef::make(requested.store, requested.key, requested.version, requested.size,
                    cache_use(policy.cache, false), policy.pool));
}

Task<PeerReply<PeerBytes>> WorkerService::read_bytes(Context context, PeerRead request) {
  ClusterViewPtr view = deps_.views.view();
  Result<FileRefPtr> file = local_ref(request.mount, *request.file, request.range);
  if (!file) co_return cannot_resolve<PeerBytes>(file.error(), *view);
  const bool here = deps_.store != nullptr && deps_.store->missing(**file, request.range).empty();
  if (!here && request.only_if_cached) {
    co_return answered<PeerBytes>(
        error(StatusCode::kNotFound, fmt::format("'{}' is not cached here", (*file)->key)), *view);
  }
  bool as_replica = false;
  if (!here) {
    // A replica gets uncached bytes from the owner.
    if (request.route.replicas <= 1 && !epochs_.has_epoch(request.route.epoch)) {
      std::optional<Bytes> hot = try_read(request);
      if (hot) co_return answered<PeerBytes>(PeerBytes{*std::move(hot), {}}, *view);
      view = co_await epochs_.wait_for_epoch(context, request.route.epoch);
    }
    const uint32_t stripe = stripe_at(request.range.offset, (*file)->size);
    const auto key = PlacementKey::stripe((*file)->store, (*file)->key, stripe);
    const bool responsible = is_responsible(*view, key, request.route);
    as_replica = !responsible && is_replica(*view, key, request.route);
    if (!responsible && !as_replica) co_return not_owner<PeerBytes>(*view);
  }
  Result<PeerBytes> bytes = co_await fetch(context, *file, request.range, here, as_replica);
  if (bytes) note_served(request);
  if (!bytes && bytes.error().code() == StatusCode::kVersionChanged && deps_.on_version_gone) {
    deps_.on_version_gone(request.mount, *file);
  }
  co_return answered(std::move(bytes), *view);
}

// `as_replica`: a replica read; falls back to the own fetcher if no earlier candidate responds.
Task<Result<PeerBytes>> WorkerService::fetch(Context context, FileRefPtr file, ByteRange range,
                                             bool here, bool as_replica) {
  if (as_replica) {
    Result<PeerBytes> bytes = co_await fetch_by(*deps_.replicas, context, file, range, here);
    if (bytes || bytes.error().code() != StatusCode::kBusy) co_return bytes;
  }
  co_return co_await fetch_by(deps_.fetcher, context, file, range, here);
}

bool WorkerService::is_cacheable(const FileRef& file) const {
  return deps_.store != nullptr && file.cache == CacheUse::kDisk && file.version.known();
}

// Returns local ranges and single blocks, which come as a whole, in one piece.
Task<Result<PeerBytes>> WorkerService::fetch_by(Fetcher& fetcher, Context context, FileRefPtr file,
                                                ByteRange range, bool here) {
  std::optional<Bytes> hot;
  if (!here) hot = fetcher.try_read(*file, range);  // it may be only in memory
  if (hot) co_return PeerBytes{*std::move(hot), {}};
  if (here || range.size <= kBlockBytes) {
    LEAT_CO_TRY(Bytes bytes, co_await fetcher.read(context, file, range));
    co_return PeerBytes{std::move(bytes), {}, !here && is_cacheable(*file)};
  }
  StreamedReadPtr rest = fetcher.stream(file, range);
  LEAT_CO_TRY(Bytes first, co_await rest->next(context));
  if (first.size() == range.size) rest = nullptr;
  co_return PeerBytes{std::move(first), std::move(rest), is_cacheable(*file)};
}

// Only the owner sees a stripe's whole load, or its share of it. Failover and replica
// reads do not count.
ReplicaHint WorkerService::advice(const PeerRead& answered) {
  const ClusterViewPtr view = deps_.views.view();
  if (answered.only_if_cached || answered.route.failover_for || answered.route.replicas > 1)
    return {};
  const FileRef& file = *answered.file;
  const auto key =
      PlacementKey::stripe(file.store, file.key, stripe_at(answered.range.offset, file.size));
  const auto mount = view->mounts.find(answered.mount);
  const uint32_t least = mount == view->mounts.end() ? 1 : mount->second.replicas;
  const uint32_t replicas = heat_.record(key, answered.range.size, least);
  if (replicas <= least) return {};
  // Looked up last, because most reads do not need it.
  const auto candidates = view->ring.candidates(key, 2);
  if (candidates.size() < 2 || candidates.front() != deps_.self) return {};
  return {.replicas = replicas, .ttl = kHintTtl};
}

Task<PeerReply<void>> WorkerService::read(Context context, PeerRead request,
                                          std::span<std::byte> into) {
  const PeerRead of = request;
  PeerReply<PeerBytes> reply = co_await read_bytes(context, std::move(request));
  PeerReply<void> copied{reply.outcome, {}, reply.epoch};
  if (!reply.result) {
    copied.result = Error(reply.result.error());
    co_return copied;
  }
  copied.hint = advice(of);
  copied.missed_cache = reply.result->missed_cache;
  Result<Bytes> part = std::move(reply.result->first);
  for (size_t done = 0;;) {
    part->copy_to(into.subspan(done));
    done += part->size();
    of.progress.report(done);
    if (done == into.size()) co_return copied;
    part = co_await reply.result->rest->next(context);
    if (part) continue;
    copied.result = Error(part.error());
    co_return copied;
  }
}

std::optional<Bytes> WorkerService::try_read(const PeerRead& request) {
  Result<FileRefPtr> file = local_ref(request.mount, *request.file, request.range);
  if (!file) return std::nullopt;
  std::optional<Bytes> hot = deps_.fetcher.try_read(**file, request.range);
  if (hot) note_served(request);
  return hot;
}

std::optional<SendfileRange> WorkerService::stored(const PeerRead& request) {
  if (deps_.store == nullptr) return std::nullopt;
  Result<FileRefPtr> file = local_ref(request.mount, *request.file, request.range);
  if (!file) return std::nullopt;
  std::optional<SendfileRange> stored;
  if (auto backing = deps_.store->backing(**file)) {
    const int fd = backing->fd();
    stored = SendfileRange{std::move(backing), fd, request.range.offset};
  } else {
    stored = deps_.store->sendfile_range(**file, request.range);
  }
  if (!stored) return std::nullopt;
  note_served(request);
  return stored;
}

Result<std::shared_ptr<BackingFile>> WorkerService::whole_file(const std::string& mount,
                                                               const FileRef& requested) {
  LEAT_TRY(FileRefPtr file, local_ref(mount, requested));
  std::shared_ptr<BackingFile> whole;
  if (deps_.store != nullptr && file->version.known()) whole = deps_.store->backing(*file);
  if (whole == nullptr || whole->size() != file->size) {
    return error(StatusCode::kNotFound,
                 fmt::format("'{}' is not complete here, or packed with others", file->key));
  }
  sent_fds.add();
  return whole;
}

Task<Result<SourceFilePtr>> WorkerService::open(Context, PeerReadRequest request) {
  Result<std::shared_ptr<BackingFile>> whole = whole_file(request.mount, request.file);
  if (!whole) co_return Error(whole.error());
  const int fd = (*whole)->fd();
  const uint64_t size = (*whole)->size();
  co_return std::make_shared<PassedFile>(*std::move(whole), fd, size);
}

// --- names ---------------------------------------------------------------------------------------

Task<PeerReply<ListPage>> WorkerService::list(Context context, PeerList request) {
  const ClusterViewPtr view = deps_.views.view();
  Result<Target> target = resolve(request.mount, request.store, request.prefix);
  if (!target) co_return cannot_resolve<ListPage>(target.error(), *view);
  if (!is_responsible(*view, PlacementKey::listing(request.store, request.prefix), request.route)) {
    co_return not_owner<ListPage>(*view);
  }
  Result<ListPage> page = co_await list_page(context, *std::move(target), std::move(request));
  co_return answered(std::move(page), *view);
}

// A token is the last key of the previous page, so it stays valid after changes.
Task<Result<ListPage>> WorkerService::list_page(Context context, Target target, PeerList request) {
  if (request.age_max == Clock::duration(0) && request.token.empty()) {
    Result<RefreshResult> requested = co_await deps_.catalog.refresh(context, target.path);
    if (!requested) co_return Error(requested.error());
  }
  Result<ListingPtr> listing = co_await deps_.catalog.list(context, target.path);
  if (!listing) co_return Error(listing.error());
  const Freshness& freshness = target.policy->of(path_below(target.path, request.mount)).freshness;
  ListPage page;
  page.age = age_of((*listing)->fresh_until(), freshness);
  if (page.age > request.age_max && request.token.empty() && request.age_max > Clock::duration(0)) {
    Result<RefreshResult> requested = co_await deps_.catalog.refresh(context, target.path);
    if (!requested) co_return Error(requested.error());
    listing = co_await deps_.catalog.list(context, target.path);
    if (!listing) co_return Error(listing.error());
    page.age = age_of((*listing)->fresh_until(), freshness);
  }
  if (request.token.empty()) page.skipped = (*listing)->skipped();
  std::string_view after = request.token;
  if (!after.empty()) after.remove_prefix(std::min(request.prefix.size(), after.size()));
  if (after.ends_with('/')) after.remove_suffix(1);
  Listing::Cursor cursor = after.empty() ? (*listing)->from(0) : (*listing)->after(after);
  bool more = cursor.next();
  for (; more && page.objects.size() < kPageNames; more = cursor.next()) {
    page.objects.push_back(object_of(request.prefix, cursor.entry()));
  }
  if (more) page.next_token = page.objects.back().key;
  // By name a directory comes before what its slash puts it behind.
  std::ranges::sort(page.objects, {}, &SourceObject::key);
  co_return page;
}

Task<PeerReply<SourceObject>> WorkerService::stat(Context context, PeerStat request) {
  const ClusterViewPtr view = deps_.views.view();
  Result<Target> target = resolve(request.mount, request.store, request.key);
  if (!target) co_return cannot_resolve<SourceObject>(target.error(), *view);
  if (!is_responsible(*view, PlacementKey::listing(request.store, parent_of(request.key)),
                      request.route)) {
    co_return not_owner<SourceObject>(*view);
  }
  Result<SourceObject> object = co_await stat_object(context, *std::move(target), request);
  co_return answered(std::move(object), *view);
}

Task<Result<SourceObject>> WorkerService::stat_object(Context context, Target target,
                                                      PeerStat request) {
  if (request.age_max == Clock::duration(0)) {
    co_return co_await stat_now(std::move(context), std::move(target), std::move(request.mount),
                                std::move(request.key));
  }
  Result<CatalogEntry> entry = co_await deps_.catalog.lookup(context, target.path);
  if (!entry) co_return Error(entry.error());
  if (entry->info.is_directory() != request.key.ends_with('/')) {
    co_return error(StatusCode::kNotFound, fmt::format("there is no '{}'", request.key));
  }
  SourceObject object = object_of("", *entry);
  object.key = request.key;
  co_return object;
}

// Reads the store. A difference to the cached name, fresh or not, is published as a change.
Task<Result<SourceObject>> WorkerService::stat_now(Context context, Target target,
                                                   std::string mount, std::string key) {
  SourcePtr source;
  for (const MountPtr& one : deps_.catalog.mounts()) {
    if (one->entry.path == mount) source = one->source;
  }
  if (source == nullptr) {
    co_return error(StatusCode::kBusy, fmt::format("{} is not served by this worker yet", mount));
  }
  Result<SourceObject> now = co_await source->stat(context, {.key = key});
  if (!now && now.error().code() != StatusCode::kNotFound) co_return now;
  const auto known = deps_.catalog.try_lookup(target.path);
  // An expired name may differ from what clients have.
  if (!known || !agrees(*known, now)) {
    Result<RefreshResult> found = co_await deps_.catalog.refresh_name(context, target.path);
    if (!found) log::info("{}: {}", target.path, found.error().to_string());
  }
  co_return now;
}

// --- for jobs ------------------------------------------------------------------------------------

Task<PeerReply<uint64_t>> WorkerService::cache_op(Context context, PeerCacheOp request) {
  ClusterViewPtr view = deps_.views.view();
  if (deps_.job_cache == nullptr) co_return answered<uint64_t>(no_cache(), *view);
  Result<FileRefPtr> file = local_ref(request.mount, *request.file, request.range);
  if (!file) co_return cannot_resolve<uint64_t>(file.error(), *view);
  if (request.op == CacheOp::kEnsure) {
    view = co_await epochs_.wait_for_epoch_of_cache_op(context, request.route.epoch);
  }
  const uint32_t stripe = stripe_at(request.range.offset, (*file)->size);
  const auto key = PlacementKey::stripe((*file)->store, (*file)->key, stripe);
  if (!is_responsible(*view, key, request.route)) co_return not_owner<uint64_t>(*view);
  LocalJobCache& cache = *deps_.job_cache;
  Result<uint64_t> bytes = error(StatusCode::kUnsupported, "unknown cache operation");
  switch (request.op) {
    case CacheOp::kEnsure:
      bytes = co_await cache.ensure(context, *file, request.range);
      break;
    case CacheOp::kMissing:
      bytes = co_await cache.missing(context, *file, request.range);
      break;
    case CacheOp::kVerify:
      bytes = co_await cache.verify_range(context, *file, request.range);
      break;
  }
  co_return answered(std::move(bytes), *view);
}

Task<PeerReply<uint64_t>> WorkerService::drop(Context context, std::vector<FileId> files) {
  const ClusterViewPtr view = deps_.views.view();
  if (deps_.job_cache == nullptr) co_return answered<uint64_t>(no_cache(), *view);
  co_return answered(co_await deps_.job_cache->drop_ids(std::move(context), std::move(files)),
                     *view);
}

Task<PeerReply<VerifyProgress>> WorkerService::verify(Context context, uint64_t job) {
  const ClusterViewPtr view = deps_.views.view();
  if (deps_.verify_sessions == nullptr) co_return answered<VerifyProgress>(no_cache(), *view);
  co_return answered(co_await deps_.verify_sessions->poll(std::move(context), job), *view);
}

// Any worker may run a copy, because the bytes come from their owners.
Task<PeerReply<CopyStep>> WorkerService::copy(Context context, PeerCopy request) {
  const ClusterViewPtr view = deps_.views.view();
  if (deps_.copy_sessions == nullptr) {
    co_return answered<CopyStep>(error(StatusCode::kUnsupported, "this worker copies nothing"),
                                 *view);
  }
  Result<Target> from = resolve(request.mount, request.file->store, request.file->key);
  if (!from) co_return cannot_resolve<CopyStep>(from.error(), *view);
  FileToRead file{.key = client_key(*from->mount, request.file->key),
                  .ref = std::move(request.file)};
  co_return answered(co_await deps_.copy_sessions->step(std::move(context), std::move(file),
                                                        request.range, std::move(request.spec)),
                     *view);
}

}  // namespace leat
