// SPDX-License-Identifier: Apache-2.0
#include "peer/replication/replica_source.h"

#include <fmt/format.h>

#include "cluster/stripes.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter filled_bytes("leat_peer_replica_filled_bytes_total",
                     "Bytes that this replica read from the owner of a stripe");

Task<PeerReply<void>> read_from_earlier(PeerPtr peer, bool self, Context context, PeerRead request,
                                        std::span<std::byte> into) {
  if (self) {
    co_return PeerReply<void>{PeerOutcome::kAnswered,
                              error(StatusCode::kBusy, "no worker before this one answers"), 0};
  }
  PeerReply<void> reply = co_await peer->read(std::move(context), std::move(request), into);
  if (reply.result) filled_bytes.add(into.size());
  co_return reply;
}

class ReplicaSource : public Source {
 public:
  ReplicaSource(WorkerId self, StoreId store, ClusterViewSource& views, const PeerTable& peers)
      : self_(self),
        id_(store),
        views_(views),
        peers_(peers),
        router_(views, peers, {.candidates_max = kReplicasMax}) {
    capabilities_.conditional_read = true;
  }

  const StoreId& id() const override { return id_; }
  const std::string& name() const override { return name_; }
  const SourceCapabilities& capabilities() const override { return capabilities_; }
  unsigned concurrency_hint(uint64_t) const override { return kPeerConcurrency; }

  Task<Result<SourceObject>> stat(Context, StatRequest) override { co_return names(); }
  Task<Result<ListPage>> list(Context, ListRequest) override { co_return names(); }

  // Cannot deadlock: the receivers answer from another fetcher, which never waits for this read.
  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override {
    PeerRead base{.mount = mount_of(request.key), .range = request.range};
    base.file = std::make_shared<const FileRef>(
        FileRef::make(id_, request.key, request.if_version, request.object_size));
    const PeerPtr own = peers_.find(self_);
    PeerRouter::Attempt<void> attempt = [context, base, own, into](PeerPtr peer, PeerRoute route) {
      PeerRead request_to_peer = base;
      request_to_peer.route = std::move(route);
      const bool self = peer == own;
      return read_from_earlier(std::move(peer), self, context, std::move(request_to_peer), into);
    };
    const uint32_t stripe = stripe_at(request.range.offset, request.object_size);
    co_return co_await router_.request<void>(
        context, PlacementKey::stripe(id_, request.key, stripe),
        fmt::format("bytes of '{}'", request.key), std::move(attempt));
  }

 private:
  static Error names() {
    return error(StatusCode::kUnsupported, "replicas have bytes, and no names");
  }
  // Any mount with this key will do, because a worker may read all mounts.
  std::string mount_of(const std::string& key) const {
    const ClusterViewPtr view = views_.view();
    for (const auto& [path, mount] : view->mounts) {
      if (mount.store == id_ && key.starts_with(mount.prefix)) return path;
    }
    return "/";
  }

  const WorkerId self_;
  const StoreId id_;
  const std::string name_ = "other workers";
  ClusterViewSource& views_;
  const PeerTable& peers_;
  const PeerRouter router_;
  SourceCapabilities capabilities_;
};

}  // namespace

SourcePtr make_replica_source(WorkerId self, StoreId store, ClusterViewSource& views,
                              const PeerTable& peers) {
  return std::make_shared<ReplicaSource>(self, store, views, peers);
}

}  // namespace leat
