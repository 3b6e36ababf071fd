// SPDX-License-Identifier: Apache-2.0
#include "doors/peer/own_peer.h"

#include <fmt/format.h>

#include <algorithm>

#include "cluster/stripes.h"
#include "peer/handover/given_file.h"
#include "peer/mounts/mount_lookup.h"
#include "peer/name_pages.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

constexpr size_t kPageNames = kNamePageObjectsMax;

Counter served_bytes("leat_peer_served_bytes_total", "Bytes handed to clients and other workers");
Counter served_reads("leat_peer_served_reads_total",
                     "Reads answered for clients and other workers");
Counter replica_reads("leat_peer_replica_reads_total",
                      "Reads answered beside the first candidate of a stripe");
Counter given_files("leat_peer_given_files_total",
                    "Complete files of the cache that were given to readers on this host");
Counter turned_away("leat_peer_turned_away_total",
                    "Requests that another worker is the one to answer", "",
                    Stability::kExperimental);

// Long enough for readers to receive renewed advice, short enough to expire soon.
constexpr std::chrono::seconds kAdviceLasts{10};

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
  return {PeerReach::kAnswered, std::move(result), view.ring.epoch()};
}

// Answers errors of find(). A worker that does not have the mount (yet), or cannot open it, is not
// the right one; others may answer.
template <class T>
PeerReply<T> not_found_here(const Status& why, const ClusterView& view) {
  const bool elsewhere = why.code() == StatusCode::kBusy;
  return {elsewhere ? PeerReach::kMisdirected : PeerReach::kAnswered, Error(why),
          view.ring.epoch()};
}

// Returns how long ago the store was read, from the end of the freshness.
Clock::duration age_of(Clock::time_point fresh_until, const Freshness& freshness) {
  if (freshness.mode != Freshness::Mode::kMaxAge) return Clock::duration(0);
  return std::max(Clock::duration(0),
                  Clock::duration(freshness.max_age) - (fresh_until - Clock::now()));
}

}  // namespace

Result<OwnPeer::Place> OwnPeer::find(const std::string& mount, const StoreId& store,
                                     std::string_view key) const {
  Place place{.view = parts_.map.view(), .mount = nullptr, .policy = nullptr, .path = ""};
  auto found = place.view->mounts.find(mount);
  if (found == place.view->mounts.end()) {
    return error(StatusCode::kBusy, fmt::format("{} is not known to this worker (yet)", mount));
  }
  place.mount = &found->second;
  if (place.mount->store != store || !key.starts_with(place.mount->prefix)) {
    return error(StatusCode::kPermissionDenied,
                 fmt::format("'{}' is no part of the mount at {}", key, mount));
  }
  place.policy = parts_.policy_of(mount);
  if (place.policy == nullptr) {
    return error(
        StatusCode::kBusy,
        fmt::format("the mount at {} is not served by this worker (yet); its log says why", mount));
  }
  std::string_view below = key.substr(place.mount->prefix.size());
  if (below.ends_with('/')) below.remove_suffix(1);
  place.path = join_path(mount, below);
  return place;
}

// Returns true if this worker is responsible. A failover request is, whatever the ring here says.
bool OwnPeer::holds(const ClusterView& view, PlacementKey key, const PeerRoute& route) const {
  return route.instead.has_value() || view.ring.owner(key) == parts_.self;
}

// Returns true if this worker is one of the first candidates, and the request is a replica read.
bool OwnPeer::is_replica(const ClusterView& view, PlacementKey key, const PeerRoute& route) const {
  if (route.replicas <= 1 || parts_.replicas == nullptr) return false;
  const auto candidates = view.ring.candidates(key, std::min(route.replicas, kReplicasMax));
  return std::ranges::find(candidates, parts_.self) != candidates.end();
}

template <class T>
PeerReply<T> OwnPeer::misdirected(const ClusterView& view) const {
  turned_away.add();
  return {PeerReach::kMisdirected,
          error(StatusCode::kBusy, "another worker holds this by the ring known here"),
          view.ring.epoch()};
}

// --- bytes ---------------------------------------------------------------------------------------

Result<FileRefPtr> OwnPeer::own_ref(const std::string& mount, const FileRef& asked,
                                    ByteRange range) const {
  if (range.size > kOwnReadBytesMax || range.empty() || range.end() > asked.size) {
    return error(StatusCode::kOutOfRange,
                 fmt::format("{} bytes at {} of '{}', which has {}, are not to be had in one read",
                             range.size, range.offset, asked.key, asked.size));
  }
  return own_ref(mount, asked);
}

// Returns the same version of the same object, with the mount's cache policy of this worker.
Result<FileRefPtr> OwnPeer::own_ref(const std::string& mount, const FileRef& asked) const {
  LEAT_TRY(Place place, find(mount, asked.store, asked.key));
  const PathPolicy& policy = place.policy->of(path_below(place.path, mount));
  return std::make_shared<const FileRef>(FileRef::make(asked.store, asked.key, asked.version,
                                                       asked.size, cache_use(policy.cache, false),
                                                       policy.pool));
}

Task<PeerReply<PeerBytes>> OwnPeer::read_bytes(Context context, PeerRead request) {
  ClusterViewPtr view = parts_.map.view();
  Result<FileRefPtr> file = own_ref(request.mount, *request.file, request.range);
  if (!file) co_return not_found_here<PeerBytes>(file.error(), *view);
  const bool here = parts_.store != nullptr && parts_.store->missing(**file, request.range).empty();
  if (!here && request.only_if_cached) {
    co_return answered<PeerBytes>(
        error(StatusCode::kNotFound, fmt::format("'{}' is not cached here", (*file)->key)), *view);
  }
  bool beside = false;
  if (!here) {
    // A replica gets uncached bytes from the first candidate.
    if (request.route.replicas <= 1 && !rings_.knows(request.route.epoch)) {
      std::optional<Bytes> hot = try_read(request);
      if (hot) co_return answered<PeerBytes>(PeerBytes{*std::move(hot), {}}, *view);
      view = co_await rings_.view_of(context, request.route.epoch);
    }
    const uint32_t stripe = stripe_at(request.range.offset, (*file)->size);
    const auto key = PlacementKey::stripe((*file)->store, (*file)->key, stripe);
    const bool holds_it = holds(*view, key, request.route);
    beside = !holds_it && is_replica(*view, key, request.route);
    if (!holds_it && !beside) co_return misdirected<PeerBytes>(*view);
  }
  Result<PeerBytes> bytes = co_await fetch(context, *file, request.range, here, beside);
  if (bytes) note_served(request);
  if (!bytes && bytes.error().code() == StatusCode::kChanged && parts_.gone) {
    parts_.gone(request.mount, *file);
  }
  co_return answered(std::move(bytes), *view);
}

// `beside`: a replica read; falls back to the own fetcher if no earlier candidate responds.
Task<Result<PeerBytes>> OwnPeer::fetch(Context context, FileRefPtr file, ByteRange range, bool here,
                                       bool beside) {
  if (beside) {
    Result<PeerBytes> bytes = co_await fetch_by(*parts_.replicas, context, file, range, here);
    if (bytes || bytes.error().code() != StatusCode::kBusy) co_return bytes;
  }
  co_return co_await fetch_by(parts_.fetcher, context, file, range, here);
}

// Returns local ranges and single blocks, which come as a whole, in one piece.
Task<Result<PeerBytes>> OwnPeer::fetch_by(Fetcher& fetcher, Context context, FileRefPtr file,
                                          ByteRange range, bool here) {
  std::optional<Bytes> hot;
  if (!here) hot = fetcher.try_read(*file, range);  // it may be only in memory
  if (hot) co_return PeerBytes{*std::move(hot), {}};
  if (here || range.size <= kBlockBytes) {
    LEAT_CO_TRY(Bytes bytes, co_await fetcher.read(context, file, range));
    co_return PeerBytes{std::move(bytes), {}};
  }
  StreamedReadPtr rest = fetcher.stream(file, range);
  LEAT_CO_TRY(Bytes first, co_await rest->next(context));
  if (first.size() == range.size) rest = nullptr;
  co_return PeerBytes{std::move(first), std::move(rest)};
}

// Only the first candidate sees a stripe's whole load, or its share of it. Failover and replica
// reads do not count.
ReplicaAdvice OwnPeer::advice(const PeerRead& answered) {
  const ClusterViewPtr view = parts_.map.view();
  if (answered.only_if_cached || answered.route.instead || answered.route.replicas > 1) return {};
  const FileRef& file = *answered.file;
  const auto key =
      PlacementKey::stripe(file.store, file.key, stripe_at(answered.range.offset, file.size));
  const auto mount = view->mounts.find(answered.mount);
  const uint32_t least = mount == view->mounts.end() ? 1 : mount->second.replicas;
  const uint32_t replicas = heat_.note(key, answered.range.size, least);
  if (replicas <= least) return {};
  // Looked up last, because most reads do not need it.
  const auto candidates = view->ring.candidates(key, 2);
  if (candidates.size() < 2 || candidates.front() != parts_.self) return {};
  return {.replicas = replicas, .lasts = kAdviceLasts};
}

Task<PeerReply<void>> OwnPeer::read(Context context, PeerRead request, std::span<std::byte> into) {
  const PeerRead of = request;
  PeerReply<PeerBytes> reply = co_await read_bytes(context, std::move(request));
  PeerReply<void> copied{reply.reach, {}, reply.epoch};
  if (!reply.result) {
    copied.result = Error(reply.result.error());
    co_return copied;
  }
  copied.advice = advice(of);
  Result<Bytes> part = std::move(reply.result->first);
  for (size_t done = 0;;) {
    part->copy_to(into.subspan(done));
    done += part->size();
    of.progress.arrived(done);
    if (done == into.size()) co_return copied;
    part = co_await reply.result->rest->next(context);
    if (part) continue;
    copied.result = Error(part.error());
    co_return copied;
  }
}

std::optional<Bytes> OwnPeer::try_read(const PeerRead& request) {
  Result<FileRefPtr> file = own_ref(request.mount, *request.file, request.range);
  if (!file) return std::nullopt;
  std::optional<Bytes> hot = parts_.fetcher.try_read(**file, request.range);
  if (hot) note_served(request);
  return hot;
}

std::optional<StoredRange> OwnPeer::stored(const PeerRead& request) {
  if (parts_.store == nullptr) return std::nullopt;
  Result<FileRefPtr> file = own_ref(request.mount, *request.file, request.range);
  if (!file) return std::nullopt;
  std::optional<StoredRange> stored;
  if (auto backing = parts_.store->backing(**file)) {
    const int fd = backing->fd();
    stored = StoredRange{std::move(backing), fd, request.range.offset};
  } else {
    stored = parts_.store->stored(**file, request.range);
  }
  if (!stored) return std::nullopt;
  note_served(request);
  return stored;
}

Result<std::shared_ptr<BackingFile>> OwnPeer::whole_file(const std::string& mount,
                                                         const FileRef& asked) {
  LEAT_TRY(FileRefPtr file, own_ref(mount, asked));
  std::shared_ptr<BackingFile> whole;
  if (parts_.store != nullptr && file->version.known()) whole = parts_.store->backing(*file);
  if (whole == nullptr || whole->size() != file->size) {
    return error(StatusCode::kNotFound,
                 fmt::format("'{}' is not complete here, or packed with others", file->key));
  }
  given_files.add();
  return whole;
}

Task<Result<SourceFilePtr>> OwnPeer::open(Context, PeerReadRequest request) {
  Result<std::shared_ptr<BackingFile>> whole = whole_file(request.mount, request.file);
  if (!whole) co_return Error(whole.error());
  const int fd = (*whole)->fd();
  const uint64_t size = (*whole)->size();
  co_return std::make_shared<GivenFile>(*std::move(whole), fd, size);
}

// --- names ---------------------------------------------------------------------------------------

Task<PeerReply<ListPage>> OwnPeer::list(Context context, PeerList request) {
  const ClusterViewPtr view = parts_.map.view();
  Result<Place> place = find(request.mount, request.store, request.prefix);
  if (!place) co_return not_found_here<ListPage>(place.error(), *view);
  if (!holds(*view, PlacementKey::listing(request.store, request.prefix), request.route)) {
    co_return misdirected<ListPage>(*view);
  }
  Result<ListPage> page = co_await list_page(context, *std::move(place), std::move(request));
  co_return answered(std::move(page), *view);
}

// A token is the last key of the previous page, so it stays valid after changes.
Task<Result<ListPage>> OwnPeer::list_page(Context context, Place place, PeerList request) {
  if (request.age_max == Clock::duration(0) && request.token.empty()) {
    Result<RefreshNews> asked = co_await parts_.catalog.refresh(context, place.path);
    if (!asked) co_return Error(asked.error());
  }
  Result<ListingPtr> listing = co_await parts_.catalog.list(context, place.path);
  if (!listing) co_return Error(listing.error());
  const Freshness& freshness = place.policy->of(path_below(place.path, request.mount)).freshness;
  ListPage page;
  page.age = age_of((*listing)->fresh_until(), freshness);
  if (page.age > request.age_max && request.token.empty() && request.age_max > Clock::duration(0)) {
    Result<RefreshNews> asked = co_await parts_.catalog.refresh(context, place.path);
    if (!asked) co_return Error(asked.error());
    listing = co_await parts_.catalog.list(context, place.path);
    if (!listing) co_return Error(listing.error());
    page.age = age_of((*listing)->fresh_until(), freshness);
  }
  if (request.token.empty()) page.left_out = (*listing)->left_out();
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

Task<PeerReply<SourceObject>> OwnPeer::stat(Context context, PeerStat request) {
  const ClusterViewPtr view = parts_.map.view();
  Result<Place> place = find(request.mount, request.store, request.key);
  if (!place) co_return not_found_here<SourceObject>(place.error(), *view);
  if (!holds(*view, PlacementKey::listing(request.store, parent_of(request.key)), request.route)) {
    co_return misdirected<SourceObject>(*view);
  }
  Result<SourceObject> object = co_await stat_object(context, *std::move(place), request);
  co_return answered(std::move(object), *view);
}

Task<Result<SourceObject>> OwnPeer::stat_object(Context context, Place place, PeerStat request) {
  if (request.age_max == Clock::duration(0)) {
    co_return co_await stat_now(std::move(context), std::move(place), std::move(request.mount),
                                std::move(request.key));
  }
  Result<CatalogEntry> entry = co_await parts_.catalog.lookup(context, place.path);
  if (!entry) co_return Error(entry.error());
  if (entry->info.is_directory() != request.key.ends_with('/')) {
    co_return error(StatusCode::kNotFound, fmt::format("there is no '{}'", request.key));
  }
  SourceObject object = object_of("", *entry);
  object.key = request.key;
  co_return object;
}

// Reads the store. A difference to the cached name is published as a change.
Task<Result<SourceObject>> OwnPeer::stat_now(Context context, Place place, std::string mount,
                                             std::string key) {
  SourcePtr source;
  for (const MountPtr& one : parts_.catalog.mounts()) {
    if (one->entry.path == mount) source = one->source;
  }
  if (source == nullptr) {
    co_return error(StatusCode::kBusy, fmt::format("{} is not served by this worker yet", mount));
  }
  Result<SourceObject> now = co_await source->stat(context, {.key = key});
  if (!now && now.error().code() != StatusCode::kNotFound) co_return now;
  const auto known = parts_.catalog.try_lookup(place.path);
  if (known && !agrees(*known, now)) {
    Result<RefreshNews> found = co_await parts_.catalog.refresh_name(context, place.path);
    if (!found) log::info("{}: {}", place.path, found.error().to_string());
  }
  co_return now;
}

// --- for jobs ------------------------------------------------------------------------------------

Task<PeerReply<uint64_t>> OwnPeer::upkeep(Context context, PeerUpkeep request) {
  ClusterViewPtr view = parts_.map.view();
  if (parts_.target == nullptr) co_return answered<uint64_t>(no_cache(), *view);
  Result<FileRefPtr> file = own_ref(request.mount, *request.file, request.range);
  if (!file) co_return not_found_here<uint64_t>(file.error(), *view);
  if (request.action == UpkeepAction::kEnsure) {
    view = co_await rings_.view_for_upkeep(context, request.route.epoch);
  }
  const uint32_t stripe = stripe_at(request.range.offset, (*file)->size);
  const auto key = PlacementKey::stripe((*file)->store, (*file)->key, stripe);
  if (!holds(*view, key, request.route)) co_return misdirected<uint64_t>(*view);
  HostTarget& target = *parts_.target;
  Result<uint64_t> bytes = error(StatusCode::kUnsupported, "unknown upkeep");
  switch (request.action) {
    case UpkeepAction::kEnsure:
      bytes = co_await target.ensure(context, *file, request.range);
      break;
    case UpkeepAction::kMissing:
      bytes = co_await target.missing(context, *file, request.range);
      break;
    case UpkeepAction::kReadBack:
      bytes = co_await target.read_back(context, *file, request.range);
      break;
  }
  co_return answered(std::move(bytes), *view);
}

Task<PeerReply<uint64_t>> OwnPeer::drop(Context context, std::vector<FileId> files) {
  const ClusterViewPtr view = parts_.map.view();
  if (parts_.target == nullptr) co_return answered<uint64_t>(no_cache(), *view);
  co_return answered(co_await parts_.target->drop_ids(std::move(context), std::move(files)), *view);
}

Task<PeerReply<UpkeepVerify>> OwnPeer::verify(Context context, uint64_t job) {
  const ClusterViewPtr view = parts_.map.view();
  if (parts_.verify_runs == nullptr) co_return answered<UpkeepVerify>(no_cache(), *view);
  co_return answered(co_await parts_.verify_runs->look(std::move(context), job), *view);
}

// Any worker may run a copy, because the bytes come from their owners.
Task<PeerReply<CopyStep>> OwnPeer::copy(Context context, PeerCopy request) {
  const ClusterViewPtr view = parts_.map.view();
  if (parts_.copy_runs == nullptr) {
    co_return answered<CopyStep>(error(StatusCode::kUnsupported, "this worker copies nothing"),
                                 *view);
  }
  Result<Place> from = find(request.mount, request.file->store, request.file->key);
  if (!from) co_return not_found_here<CopyStep>(from.error(), *view);
  FileToRead file{.key = client_key(*from->mount, request.file->key),
                  .ref = std::move(request.file)};
  co_return answered(co_await parts_.copy_runs->step(std::move(context), std::move(file),
                                                     request.range, std::move(request.goal)),
                     *view);
}

}  // namespace leat
