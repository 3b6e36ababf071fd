// SPDX-License-Identifier: Apache-2.0
#include "peer/cluster_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "base/id128.h"
#include "cluster/stripes.h"
#include "peer/changes.h"
#include "peer/mounts/mount_lookup.h"
#include "peer/mounts/mount_ttl.h"
#include "peer/replicas/hedged_read.h"
#include "peer/replicas/replica_hints.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// Read size of a mount without a disk cache: one page of the kernel.
constexpr uint64_t kReadBytesMin = 4 * kKiB;
// Limit of a directory with mounts in it, which is listed as one page; larger ones are refused.
constexpr size_t kMixedNamesMax = 1'000'000;
// Workers pack smaller files into segments unless configured otherwise.
constexpr uint64_t kHandedBytesMin = 1 * kMiB;

Counter opened_files("leat_peer_opened_files_total",
                     "Files that were opened as a worker of this host has them in its cache");

// Reads only the bytes that have not arrived. `hints` receive the first candidate's advice for its
// stripe. `second` finds a worker for a hedge; empty: no hedging.
Task<PeerReply<void>> read_rest(PeerPtr peer, FindPeer second, Context context, PeerRead request,
                                std::span<std::byte> into, PlacementKey stripe,
                                std::shared_ptr<ReplicaHints> hints,
                                std::shared_ptr<Hedges> hedges) {
  const bool first = !request.route.instead && request.route.replicas <= 1;
  const uint64_t done = request.progress.bytes();
  request.range = {request.range.offset + done, request.range.size - done};
  request.progress = request.progress.after(done);
  if (request.range.empty()) co_return PeerReply<void>{PeerReach::kAnswered, {}, 0};
  into = into.subspan(done);
  HedgedReply got;
  if (second) {
    got = co_await hedges->read(std::move(context), std::move(peer), std::move(second),
                                std::move(request), into);
  } else {
    got.reply = co_await peer->read(std::move(context), std::move(request), into);
  }
  if (first && !got.of_second && got.reply.reach == PeerReach::kAnswered) {
    hints->take(stripe, got.reply.advice);
  }
  co_return std::move(got.reply);
}

std::string parent_of(std::string_view key) {
  if (key.ends_with('/')) key.remove_suffix(1);
  return std::string(key.substr(0, key.rfind('/') + 1));
}

class ClusterSource : public Source {
 public:
  ClusterSource(ClusterSourceOptions options, ClusterMap& map, const PeerTable& peers)
      : options_(std::move(options)),
        id_(cluster_store_id(options_.cluster)),
        map_(map),
        peers_(peers),
        router_(map, peers, options_.router),
        seed_(options_.seed != 0 ? options_.seed : Id128::random().hash64()) {
    capabilities_.conditional_read = true;
    capabilities_.read_bytes_min = kReadBytesMin;
  }

  const StoreId& id() const override { return id_; }
  const std::string& name() const override { return options_.name; }
  const SourceCapabilities& capabilities() const override { return capabilities_; }
  Clock::duration names_last() const override {
    if (options_.hears == nullptr || options_.hears()) return Clock::duration::max();
    return kChangesBelieved;
  }
  NameTtl ttl_max(std::string_view directory) const override {
    return ttls_.of(map_.view(), directory);
  }

  Task<Result<SourceObject>> stat(Context context, StatRequest request) override;
  Task<Result<ListPage>> list(Context context, ListRequest request) override;
  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override;
  bool hands_over(const std::string& key, uint64_t object_size) const override;
  Task<Result<SourceFilePtr>> open_file(Context context, OpenRequest request) override;

 private:
  Task<Result<ClusterViewPtr>> known_view(Context context) const;
  Task<Result<ListPage>> list_mount(Context context, ClusterMount mount, std::string prefix,
                                    ListRequest request);
  Task<Result<ListPage>> list_mixed(Context context, ClusterMount mount, std::string prefix,
                                    ListRequest request, std::vector<std::string> mounted);
  Result<> check_version(const ReadRequest& request) const;
  PeerSpread spread(const ClusterMount& mount, PlacementKey stripe);
  FileGiverPtr giver_of(const ClusterView& view, const MountedKey& at, uint64_t size) const;

  const ClusterSourceOptions options_;
  const StoreId id_;
  ClusterMap& map_;
  const PeerTable& peers_;
  const PeerRouter router_;
  const uint64_t seed_;
  std::atomic<uint64_t> reads_ = 0;
  mutable MountTtls ttls_;
  // Outlive requests in flight.
  const std::shared_ptr<ReplicaHints> hints_ = std::make_shared<ReplicaHints>();
  const std::shared_ptr<Hedges> hedges_ = Hedges::make(options_.hedges);
  SourceCapabilities capabilities_;
};

SourceObject directory_object(std::string key) {
  SourceObject directory;
  directory.key = std::move(key);
  directory.kind = FileKind::kDirectory;
  return directory;
}

SourceObject mounted_directory(std::string_view parent, const std::string& name) {
  return directory_object(fmt::format("{}{}/", parent, name));
}

Error nothing_there(std::string_view key) {
  return error(StatusCode::kNotFound, fmt::format("nothing is mounted at /{} of the cluster", key));
}

Context bounded(Context context, Clock::duration time) {
  return time == Clock::duration::max() ? context : context.with_timeout(time);
}

// Waits for the first view: an unknown namespace is not an empty one.
Task<Result<ClusterViewPtr>> ClusterSource::known_view(Context context) const {
  const ClusterViewPtr view = map_.view();
  if (view->revision != 0) co_return view;
  Result<ClusterViewPtr> first =
      co_await map_.newer(bounded(context, options_.router.patience_for(context)), 0);
  if (first) co_return first;
  const auto alive = context.check("a request to the cluster");
  Status why(alive ? StatusCode::kUnavailable : alive.error().code(),
             fmt::format("no worker at {} has answered yet; is one running there?", options_.name));
  const auto trouble = options_.trouble ? options_.trouble() : std::nullopt;
  if (!trouble) co_return Error(std::move(why));
  co_return error(Status(why.code(), why.message(), *trouble));
}

// --- names ---------------------------------------------------------------------------------------

Task<Result<SourceObject>> ClusterSource::stat(Context context, StatRequest request) {
  LEAT_CO_TRY(const ClusterViewPtr view, co_await known_view(context));
  const std::string key = request.key;
  if (key.ends_with('/') && leads_to_mount(*view, key)) {
    co_return directory_object(key);
  }
  const MountedKey at = find_mounted(*view, key);
  if (at.mount == nullptr || leads_to_mount(*view, key + "/")) co_return nothing_there(key);
  const ClusterMount mount = *at.mount;
  PeerStat question{
      .mount = mount.path, .store = mount.store, .key = at.key, .age_max = request.age_max};
  PeerRouter::Ask<SourceObject> ask = [context, question](PeerPtr peer, PeerRoute route) {
    PeerStat asked = question;
    asked.route = std::move(route);
    return peer->stat(context, std::move(asked));
  };
  Result<SourceObject> object = co_await router_.ask<SourceObject>(
      context, PlacementKey::listing(mount.store, parent_of(at.key)), fmt::format("/{}", key),
      std::move(ask));
  if (object) {
    object->key = key;
    object->local = false;
  }
  co_return object;
}

Task<Result<ListPage>> ClusterSource::list(Context context, ListRequest request) {
  LEAT_CO_TRY(const ClusterViewPtr view, co_await known_view(context));
  if (request.recursive) {
    co_return error(StatusCode::kUnsupported,
                    "a cluster lists one level at a time, so that each directory has one owner");
  }
  std::vector<std::string> mounted = mounted_names(*view, request.prefix);
  const MountedKey at = find_mounted(*view, request.prefix);
  if (at.mount == nullptr) {
    ListPage page;
    for (const std::string& name : mounted) {
      page.objects.push_back(mounted_directory(request.prefix, name));
    }
    co_return page;
  }
  const ClusterMount mount = *at.mount;
  if (mounted.empty()) co_return co_await list_mount(context, mount, at.key, std::move(request));
  co_return co_await list_mixed(context, mount, at.key, std::move(request), std::move(mounted));
}

Task<Result<ListPage>> ClusterSource::list_mount(Context context, ClusterMount mount,
                                                 std::string prefix, ListRequest request) {
  PeerList question{.mount = mount.path,
                    .store = mount.store,
                    .prefix = prefix,
                    .token = request.token,
                    .age_max = request.age_max};
  PeerRouter::Ask<ListPage> ask = [context, question](PeerPtr peer, PeerRoute route) {
    PeerList asked = question;
    asked.route = std::move(route);
    return peer->list(context, std::move(asked));
  };
  Result<ListPage> page = co_await router_.ask<ListPage>(
      context, PlacementKey::listing(mount.store, prefix),
      fmt::format("the names of /{}", request.prefix), std::move(ask));
  if (!page) co_return Error(page.error());
  for (SourceObject& object : page->objects) {
    if (!object.key.starts_with(prefix) || object.key.size() == prefix.size()) {
      co_return error(StatusCode::kInternal,
                      fmt::format("a worker listed '{}' below '{}'", object.key, prefix));
    }
    object.key = client_key(mount, object.key);
    object.local = false;
  }
  co_return page;
}

// A mount hides the store's names at its path. Such directories are few and small.
Task<Result<ListPage>> ClusterSource::list_mixed(Context context, ClusterMount mount,
                                                 std::string prefix, ListRequest request,
                                                 std::vector<std::string> mounted) {
  ListPage all;
  const std::string parent = request.prefix;
  std::string token;
  do {
    request.token = token;
    Result<ListPage> page = co_await list_mount(context, mount, prefix, request);
    if (!page) co_return Error(page.error());
    token = page->next_token;
    all.left_out += page->left_out;
    if (all.left_out_example.empty()) all.left_out_example = std::move(page->left_out_example);
    all.age = std::max(all.age, page->age);
    std::ranges::move(page->objects, std::back_inserter(all.objects));
    if (all.objects.size() > kMixedNamesMax) {
      co_return error(StatusCode::kUnsupported,
                      fmt::format("/{} has mounts in it and more than {} names beside them", parent,
                                  kMixedNamesMax));
    }
  } while (!token.empty());
  auto hidden = [&](const SourceObject& object) {
    std::string_view name = std::string_view(object.key).substr(parent.size());
    if (name.ends_with('/')) name.remove_suffix(1);
    return std::ranges::binary_search(mounted, name);
  };
  std::erase_if(all.objects, hidden);
  for (const std::string& name : mounted) all.objects.push_back(mounted_directory(parent, name));
  std::ranges::sort(all.objects, {}, &SourceObject::key);
  co_return all;
}

// --- bytes ---------------------------------------------------------------------------------------

Result<> ClusterSource::check_version(const ReadRequest& request) const {
  if (request.object_size != 0 && request.range.end() <= request.object_size) return {};
  return error(StatusCode::kInvalidArgument,
               fmt::format("a read of '{}' from the cluster must know its size", request.key));
}

// Draws per read, so that repeated reads of one stripe by one client are spread, too.
PeerSpread ClusterSource::spread(const ClusterMount& mount, PlacementKey stripe) {
  const uint32_t replicas = std::max(mount.replicas, hints_->replicas(stripe));
  if (replicas <= 1) return {};
  return {.replicas = replicas, .host_id = options_.host_id, .draw = seed_ + reads_++};
}

Task<Result<>> ClusterSource::read(Context context, ReadRequest request,
                                   std::span<std::byte> into) {
  if (auto known = check_version(request); !known) co_return known;
  LEAT_CO_TRY(const ClusterViewPtr view, co_await known_view(context));
  const MountedKey at = find_mounted(*view, request.key);
  if (at.mount == nullptr) co_return nothing_there(request.key);
  const ClusterMount mount = *at.mount;
  const auto file = std::make_shared<const FileRef>(
      FileRef::make(mount.store, at.key, request.if_version, request.object_size));
  ByteRange left = request.range;
  while (!left.empty()) {
    const ByteRange part = first_stripe_of(left, file->size);
    const std::span<std::byte> piece = into.subspan(part.offset - request.range.offset, part.size);
    const ReadProgress progress = request.progress.after(part.offset - request.range.offset);
    PeerRead question{.mount = mount.path, .file = file, .range = part, .progress = progress};
    const auto stripe =
        PlacementKey::stripe(mount.store, at.key, stripe_at(part.offset, file->size));
    const PeerSpread among = spread(mount, stripe);
    PeerRouter::Ask<void> ask = [this, context, question, piece, stripe, replicas = among.replicas](
                                    PeerPtr peer, PeerRoute route) {
      PeerRead asked = question;
      FindPeer second;
      const bool hedged = options_.hedges.reads_per_hedge > 0;
      if (hedged && replicas > 1 && !route.instead) {
        second = [this, stripe, replicas, peer] { return router_.other(stripe, replicas, peer); };
      }
      asked.route = std::move(route);
      return read_rest(std::move(peer), std::move(second), context, std::move(asked), piece, stripe,
                       hints_, hedges_);
    };
    Result<> got = co_await router_.ask<void>(
        context, stripe, fmt::format("bytes of '/{}'", request.key), std::move(ask), among);
    if (!got) co_return got;
    left = {part.end(), left.size - part.size};
  }
  co_return Result<>();
}

// --- files as they lie in a worker's cache -------------------------------------------------------

// Returns true if one worker owns all stripes of the file, and so may have the whole file.
bool has_one_owner(const Ring& ring, const StoreId& store, const std::string& key, uint64_t size) {
  if (ring.members().size() <= 1) return true;
  const WorkerId first = ring.owner(PlacementKey::stripe(store, key, 0));
  const uint32_t last = stripe_at(size - 1, size);
  for (uint32_t stripe = 1; stripe <= last; ++stripe) {
    if (ring.owner(PlacementKey::stripe(store, key, stripe)) != first) return false;
  }
  return true;
}

// Returns null unless the first worker that a read would try is on this host and passes files.
FileGiverPtr ClusterSource::giver_of(const ClusterView& view, const MountedKey& at,
                                     uint64_t size) const {
  if (at.mount == nullptr || !has_one_owner(view.ring, at.mount->store, at.key, size)) {
    return nullptr;
  }
  const auto place = PlacementKey::stripe(at.mount->store, at.key, 0);
  for (const WorkerId& id : view.ring.candidates(place, options_.router.candidates_max)) {
    const PeerPtr peer = peers_.find(id);
    if (view.worker(id) == nullptr || peer == nullptr || !peer->usable()) continue;
    return options_.givers->find(id);
  }
  return nullptr;
}

bool ClusterSource::hands_over(const std::string& key, uint64_t object_size) const {
  if (options_.givers == nullptr || options_.givers->empty()) return false;
  if (object_size < kHandedBytesMin) return false;
  const ClusterViewPtr view = map_.view();
  return giver_of(*view, find_mounted(*view, key), object_size) != nullptr;
}

Task<Result<SourceFilePtr>> ClusterSource::open_file(Context context, OpenRequest request) {
  if (options_.givers == nullptr || request.object_size < kHandedBytesMin) {
    co_return SourceFilePtr();
  }
  const ClusterViewPtr view = map_.view();
  const MountedKey at = find_mounted(*view, request.key);
  const FileGiverPtr giver = giver_of(*view, at, request.object_size);
  if (giver == nullptr) co_return SourceFilePtr();
  const uint64_t size = request.object_size;
  PeerReadRequest asked{.mount = at.mount->path,
                        .file = FileRef::make(at.mount->store, at.key, request.if_version, size),
                        .range = {0, size}};
  Result<SourceFilePtr> file = co_await giver->open(context, std::move(asked));
  if (file) {
    opened_files.add();
    co_return file;
  }
  log::debug("'/{}' is not handed over: {}", request.key, file.error().to_string());
  co_return SourceFilePtr();
}

}  // namespace

SourcePtr make_cluster_source(ClusterSourceOptions options, ClusterMap& map,
                              const PeerTable& peers) {
  return std::make_shared<ClusterSource>(std::move(options), map, peers);
}

StoreId cluster_store_id(std::string_view cluster) {
  return make_store_id("leat", cluster, "", "");
}

}  // namespace leat
