// SPDX-License-Identifier: Apache-2.0
#include "peer/sources/cluster_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/unordered/unordered_flat_set.hpp>
#include <mutex>

#include "base/id128.h"
#include "cluster/stripes.h"
#include "peer/mounts/mount_lookup.h"
#include "peer/mounts/mount_ttl.h"
#include "peer/replication/hedged_reader.h"
#include "peer/replication/replica_hints.h"
#include "peer/sources/cluster_writes.h"
#include "peer/sources/tree_listing.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "wire/invalidations.h"
#include "wire/write_request.h"

namespace leat {
namespace {

// Read size of a mount without a disk cache: one page of the kernel.
constexpr uint64_t kReadBytesMin = 4 * kKiB;
// Limit of a directory with mounts in it, which is listed as one page; larger ones are rejected.
constexpr size_t kMixedNamesMax = 1'000'000;
// Workers pack smaller files into segments unless configured otherwise.
constexpr uint64_t kPassedBytesMin = 1 * kMiB;

Counter fds_received("leat_peer_fds_received_total",
                     "Files opened through a descriptor received from a worker on this host");

// Objects of which reads missed the workers' caches, until they are asked for. Approximate: equal
// hashes count as one, and too many are forgotten. Thread-safe.
class CacheMisses {
 public:
  void add(const std::string& key) {
    std::lock_guard lock(mutex_);
    if (hashes_.size() == kKeysMax) hashes_.clear();
    hashes_.insert(std::hash<std::string>{}(key));
  }
  // Whether there was one; forgets it.
  bool take(const std::string& key) {
    std::lock_guard lock(mutex_);
    return hashes_.erase(std::hash<std::string>{}(key)) > 0;
  }

 private:
  static constexpr size_t kKeysMax = 4096;
  std::mutex mutex_;  // leaf
  boost::unordered_flat_set<size_t> hashes_;
};

// Receive what the answers to a read say besides its bytes.
struct Observers {
  PlacementKey stripe;
  std::shared_ptr<ReplicaHints> hints;
  std::string key;  // the client's
  std::shared_ptr<CacheMisses> misses;
};

// Reads only the bytes that have not arrived. `second` finds a worker for a hedge; empty: no
// hedging.
Task<PeerReply<void>> read_rest(PeerPtr peer, SecondPeer second, Context context, PeerRead request,
                                std::span<std::byte> into, Observers observers,
                                std::shared_ptr<HedgedReader> hedged_reader) {
  const bool first = !request.route.failover_for && request.route.replicas <= 1;
  const uint64_t done = request.progress.bytes();
  request.range = {request.range.offset + done, request.range.size - done};
  request.progress = request.progress.after(done);
  if (request.range.empty()) co_return PeerReply<void>{PeerOutcome::kAnswered, {}, 0};
  into = into.subspan(done);
  HedgedReply got;
  if (second) {
    got = co_await hedged_reader->read(std::move(context), std::move(peer), std::move(second),
                                       std::move(request), into);
  } else {
    got.reply = co_await peer->read(std::move(context), std::move(request), into);
  }
  if (first && !got.from_second && got.reply.outcome == PeerOutcome::kAnswered) {
    observers.hints->store(observers.stripe, got.reply.hint);
  }
  if (got.reply.missed_cache) observers.misses->add(observers.key);
  co_return std::move(got.reply);
}

std::string parent_of(std::string_view key) {
  if (key.ends_with('/')) key.remove_suffix(1);
  return std::string(key.substr(0, key.rfind('/') + 1));
}

class ClusterSource : public Source {
 public:
  ClusterSource(ClusterSourceOptions options, ClusterViewSource& views, const PeerTable& peers)
      : options_(std::move(options)),
        id_(cluster_store_id(options_.cluster)),
        views_(views),
        peers_(peers),
        router_(views, peers, options_.router),
        writes_(options_.name, router_),
        seed_(options_.seed != 0 ? options_.seed : Id128::random().hash64()) {
    capabilities_.conditional_read = true;
    capabilities_.read_bytes_min = kReadBytesMin;
  }

  const StoreId& id() const override { return id_; }
  const std::string& name() const override { return options_.name; }
  const SourceCapabilities& capabilities() const override { return capabilities_; }
  SourceCapabilities capabilities_of(std::string_view key) const override {
    return writes_.capabilities_of(*views_.view(), key);
  }
  std::string why_read_only(std::string_view key) const override {
    return writes_.why_read_only(*views_.view(), key);
  }
  unsigned concurrency_hint(uint64_t) const override { return kPeerConcurrency; }
  Clock::duration metadata_ttl_max() const override {
    if (options_.invalidations_live == nullptr || options_.invalidations_live())
      return Clock::duration::max();
    return kInvalidationLease;
  }
  bool notifies_of_changes() const override { return true; }
  NameTtl ttl_max(std::string_view directory) const override {
    return ttls_.of(views_.view(), directory);
  }

  Task<Result<SourceObject>> stat(Context context, StatRequest request) override;
  Task<Result<ListPage>> list(Context context, ListRequest request) override;
  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override;
  Task<Result<SourceObject>> write(Context context, WriteRequest request,
                                   std::span<const std::byte> content) override;
  Result<ObjectWriterPtr> begin_write(WriteRequest request) override {
    return writes_.begin_write(views_, std::move(request));
  }
  Task<Result<SourceObject>> copy(Context context, CopyRequest request) override;
  Task<Result<>> rename(Context context, RenameRequest request) override;
  Task<Result<SourceObject>> set_attributes(Context context, AttributesRequest request) override;
  Task<Result<>> remove(Context context, RemoveRequest request) override;
  Task<Result<>> flush(Context context, std::string key) override {
    return writes_.flush(views_.view(), std::move(context), std::move(key));
  }
  bool has_local_file(const std::string& key, uint64_t object_size) const override;
  Task<Result<SourceFilePtr>> open_file(Context context, OpenRequest request) override;
  std::optional<bool> take_cache_miss(const std::string& key) override {
    return misses_->take(key);
  }

 private:
  Task<Result<ClusterViewPtr>> known_view(Context context) const;
  Task<Result<ListPage>> list_mount(Context context, ClusterMount mount, std::string prefix,
                                    ListRequest request);
  Task<Result<ListPage>> list_mixed(Context context, ClusterMount mount, std::string prefix,
                                    ListRequest request, std::vector<std::string> mounted);
  Result<> check_version(const ReadRequest& request) const;
  ReplicaSelection select_replica(const ClusterMount& mount, PlacementKey stripe);
  FdProviderPtr provider_of(const ClusterView& view, const ResolvedKey& at, uint64_t size) const;

  const ClusterSourceOptions options_;
  const StoreId id_;
  ClusterViewSource& views_;
  const PeerTable& peers_;
  const PeerRouter router_;
  const ClusterWrites writes_;
  const uint64_t seed_;
  std::atomic<uint64_t> reads_ = 0;
  mutable MountTtls ttls_;
  // Outlive requests in flight.
  const std::shared_ptr<ReplicaHints> hints_ = std::make_shared<ReplicaHints>();
  const std::shared_ptr<CacheMisses> misses_ = std::make_shared<CacheMisses>();
  const std::shared_ptr<HedgedReader> hedged_reader_ = HedgedReader::make(options_.hedging);
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

Error not_mounted(std::string_view key) {
  return error(StatusCode::kNotFound, fmt::format("nothing is mounted at /{} of the cluster", key));
}

Context bounded(Context context, Clock::duration time) {
  return time == Clock::duration::max() ? context : context.with_timeout(time);
}

// Waits for the first view: an unknown namespace is not an empty one.
Task<Result<ClusterViewPtr>> ClusterSource::known_view(Context context) const {
  const ClusterViewPtr view = views_.view();
  if (view->revision != 0) co_return view;
  Result<ClusterViewPtr> first =
      co_await views_.newer(bounded(context, options_.router.timeout_for(context)), 0);
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
  if (key.ends_with('/') && is_mount_or_ancestor(*view, key)) {
    co_return directory_object(key);
  }
  const ResolvedKey at = resolve_key(*view, key);
  if (at.mount == nullptr || is_mount_or_ancestor(*view, key + "/")) co_return not_mounted(key);
  const ClusterMount mount = *at.mount;
  PeerStat base{
      .mount = mount.path, .store = mount.store, .key = at.key, .age_max = request.age_max};
  PeerRouter::Attempt<SourceObject> attempt = [context, base](PeerPtr peer, PeerRoute route) {
    PeerStat request_to_peer = base;
    request_to_peer.route = std::move(route);
    return peer->stat(context, std::move(request_to_peer));
  };
  Result<SourceObject> object = co_await router_.request<SourceObject>(
      context, PlacementKey::listing(mount.store, parent_of(at.key)), fmt::format("/{}", key),
      std::move(attempt));
  if (object) {
    object->key = key;
    object->local = false;
  }
  co_return object;
}

Task<Result<ListPage>> ClusterSource::list(Context context, ListRequest request) {
  LEAT_CO_TRY(const ClusterViewPtr view, co_await known_view(context));
  // Each directory has one owner.
  if (request.recursive) co_return co_await list_tree(*this, context, std::move(request));
  std::vector<std::string> mounted = mounted_names(*view, request.prefix);
  const ResolvedKey at = resolve_key(*view, request.prefix);
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
  PeerList base{.mount = mount.path,
                .store = mount.store,
                .prefix = prefix,
                .token = request.token,
                .age_max = request.age_max};
  PeerRouter::Attempt<ListPage> attempt = [context, base](PeerPtr peer, PeerRoute route) {
    PeerList request_to_peer = base;
    request_to_peer.route = std::move(route);
    return peer->list(context, std::move(request_to_peer));
  };
  Result<ListPage> page = co_await router_.request<ListPage>(
      context, PlacementKey::listing(mount.store, prefix),
      fmt::format("the names of /{}", request.prefix), std::move(attempt));
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
    all.skipped += page->skipped;
    if (all.skipped_example.empty()) all.skipped_example = std::move(page->skipped_example);
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
ReplicaSelection ClusterSource::select_replica(const ClusterMount& mount, PlacementKey stripe) {
  const uint32_t replicas = std::max(mount.replicas, hints_->replicas(stripe));
  if (replicas <= 1) return {};
  return {.replicas = replicas, .host_id = options_.host_id, .seed = seed_ + reads_++};
}

Task<Result<>> ClusterSource::read(Context context, ReadRequest request,
                                   std::span<std::byte> into) {
  if (auto known = check_version(request); !known) co_return known;
  LEAT_CO_TRY(const ClusterViewPtr view, co_await known_view(context));
  const ResolvedKey at = resolve_key(*view, request.key);
  if (at.mount == nullptr) co_return not_mounted(request.key);
  const ClusterMount mount = *at.mount;
  const auto file = std::make_shared<const FileRef>(
      FileRef::make(mount.store, at.key, request.if_version, request.object_size));
  ByteRange left = request.range;
  while (!left.empty()) {
    const ByteRange part = first_stripe_of(left, file->size);
    const std::span<std::byte> piece = into.subspan(part.offset - request.range.offset, part.size);
    const ReadProgress progress = request.progress.after(part.offset - request.range.offset);
    PeerRead base{.mount = mount.path, .file = file, .range = part, .progress = progress};
    const auto stripe =
        PlacementKey::stripe(mount.store, at.key, stripe_at(part.offset, file->size));
    const ReplicaSelection selection = select_replica(mount, stripe);
    PeerRouter::Attempt<void> attempt = [this, context, base, piece, stripe, key = request.key,
                                         replicas = selection.replicas](PeerPtr peer,
                                                                        PeerRoute route) {
      PeerRead request_to_peer = base;
      SecondPeer second;
      const bool hedged = options_.hedging.reads_per_hedge > 0;
      if (hedged && replicas > 1 && !route.failover_for) {
        second = [this, stripe, replicas, peer] {
          return router_.other_replica(stripe, replicas, peer);
        };
      }
      request_to_peer.route = std::move(route);
      const Observers observers{stripe, hints_, key, misses_};
      return read_rest(std::move(peer), std::move(second), context, std::move(request_to_peer),
                       piece, observers, hedged_reader_);
    };
    Result<> got = co_await router_.request<void>(
        context, stripe, fmt::format("bytes of '/{}'", request.key), std::move(attempt), selection);
    if (!got) co_return got;
    left = {part.end(), left.size - part.size};
  }
  co_return Result<>();
}

// --- changes -------------------------------------------------------------------------------------

Task<Result<SourceObject>> ClusterSource::write(Context context, WriteRequest request,
                                                std::span<const std::byte> content) {
  LEAT_CO_TRY(const ClusterViewPtr view, co_await known_view(context));
  if (content.size() <= kWriteBytesMax) {
    co_return co_await writes_.write(view, context, std::move(request), content);
  }
  const ObjectWriterPtr writer = writes_.begin_write(views_, std::move(request));
  LEAT_CO_CHECK_OK(co_await writer->append(context, content, {}));
  co_return co_await writer->complete(context, {});
}

Task<Result<SourceObject>> ClusterSource::copy(Context context, CopyRequest request) {
  LEAT_CO_TRY(const ClusterViewPtr view, co_await known_view(context));
  co_return co_await writes_.copy(view, context, std::move(request));
}

Task<Result<>> ClusterSource::rename(Context context, RenameRequest request) {
  LEAT_CO_TRY(const ClusterViewPtr view, co_await known_view(context));
  co_return co_await writes_.rename(view, context, std::move(request));
}

Task<Result<SourceObject>> ClusterSource::set_attributes(Context context,
                                                         AttributesRequest request) {
  LEAT_CO_TRY(const ClusterViewPtr view, co_await known_view(context));
  co_return co_await writes_.set_attributes(view, context, std::move(request));
}

Task<Result<>> ClusterSource::remove(Context context, RemoveRequest request) {
  LEAT_CO_TRY(const ClusterViewPtr view, co_await known_view(context));
  co_return co_await writes_.remove(view, context, std::move(request));
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
FdProviderPtr ClusterSource::provider_of(const ClusterView& view, const ResolvedKey& at,
                                         uint64_t size) const {
  if (at.mount == nullptr || !has_one_owner(view.ring, at.mount->store, at.key, size)) {
    return nullptr;
  }
  const auto key = PlacementKey::stripe(at.mount->store, at.key, 0);
  for (const WorkerId& id : view.ring.candidates(key, options_.router.candidates_max)) {
    const PeerPtr peer = peers_.find(id);
    if (view.worker(id) == nullptr || peer == nullptr || !peer->usable()) continue;
    return options_.fd_providers->find(id);
  }
  return nullptr;
}

bool ClusterSource::has_local_file(const std::string& key, uint64_t object_size) const {
  if (options_.fd_providers == nullptr || options_.fd_providers->empty()) return false;
  if (object_size < kPassedBytesMin) return false;
  const ClusterViewPtr view = views_.view();
  return provider_of(*view, resolve_key(*view, key), object_size) != nullptr;
}

Task<Result<SourceFilePtr>> ClusterSource::open_file(Context context, OpenRequest request) {
  if (options_.fd_providers == nullptr || request.object_size < kPassedBytesMin) {
    co_return SourceFilePtr();
  }
  const ClusterViewPtr view = views_.view();
  const ResolvedKey at = resolve_key(*view, request.key);
  const FdProviderPtr provider = provider_of(*view, at, request.object_size);
  if (provider == nullptr) co_return SourceFilePtr();
  const uint64_t size = request.object_size;
  PeerReadRequest message{.mount = at.mount->path,
                          .file = FileRef::make(at.mount->store, at.key, request.if_version, size),
                          .range = {0, size}};
  Result<SourceFilePtr> file = co_await provider->open(context, std::move(message));
  if (file) {
    fds_received.add();
    co_return file;
  }
  log::debug("'/{}' is not passed as a descriptor: {}", request.key, file.error().to_string());
  co_return SourceFilePtr();
}

}  // namespace

SourcePtr make_cluster_source(ClusterSourceOptions options, ClusterViewSource& views,
                              const PeerTable& peers) {
  return std::make_shared<ClusterSource>(std::move(options), views, peers);
}

StoreId cluster_store_id(std::string_view cluster) {
  return make_store_id("leat", cluster, "", "");
}

}  // namespace leat
