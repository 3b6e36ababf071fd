// SPDX-License-Identifier: Apache-2.0
#include "peer/replicas/replica_source.h"

#include <fmt/format.h>

#include "cluster/stripes.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter filled_bytes("leat_peer_replica_filled_bytes_total",
                     "Bytes taken from the first candidate of a stripe, to answer beside it");

Task<PeerReply<void>> read_before(PeerPtr peer, bool self, Context context, PeerRead request,
                                  std::span<std::byte> into) {
  if (self) {
    co_return PeerReply<void>{PeerReach::kAnswered,
                              error(StatusCode::kBusy, "no worker before this one answers"), 0};
  }
  PeerReply<void> reply = co_await peer->read(std::move(context), std::move(request), into);
  if (reply.result) filled_bytes.add(into.size());
  co_return reply;
}

class ReplicaSource : public Source {
 public:
  ReplicaSource(WorkerId self, StoreId store, ClusterMap& map, const PeerTable& peers)
      : self_(self),
        id_(store),
        map_(map),
        peers_(peers),
        router_(map, peers, {.candidates_max = kReplicasMax}) {
    capabilities_.conditional_read = true;
  }

  const StoreId& id() const override { return id_; }
  const std::string& name() const override { return name_; }
  const SourceCapabilities& capabilities() const override { return capabilities_; }

  Task<Result<SourceObject>> stat(Context, StatRequest) override { co_return names(); }
  Task<Result<ListPage>> list(Context, ListRequest) override { co_return names(); }

  // Cannot deadlock: the receivers answer from another fetcher, which never waits for this read.
  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override {
    PeerRead question{.mount = mount_of(request.key), .range = request.range};
    question.file = std::make_shared<const FileRef>(
        FileRef::make(id_, request.key, request.if_version, request.object_size));
    const PeerPtr own = peers_.find(self_);
    PeerRouter::Ask<void> ask = [context, question, own, into](PeerPtr peer, PeerRoute route) {
      PeerRead asked = question;
      asked.route = std::move(route);
      const bool self = peer == own;
      return read_before(std::move(peer), self, context, std::move(asked), into);
    };
    const uint32_t stripe = stripe_at(request.range.offset, request.object_size);
    co_return co_await router_.ask<void>(context, PlacementKey::stripe(id_, request.key, stripe),
                                         fmt::format("bytes of '{}'", request.key), std::move(ask));
  }

 private:
  static Error names() {
    return error(StatusCode::kUnsupported, "replicas have bytes, and no names");
  }
  // Any mount with this key will do, because a worker may read all mounts.
  std::string mount_of(const std::string& key) const {
    const ClusterViewPtr view = map_.view();
    for (const auto& [path, mount] : view->mounts) {
      if (mount.store == id_ && key.starts_with(mount.prefix)) return path;
    }
    return "/";
  }

  const WorkerId self_;
  const StoreId id_;
  const std::string name_ = "other workers";
  ClusterMap& map_;
  const PeerTable& peers_;
  const PeerRouter router_;
  SourceCapabilities capabilities_;
};

}  // namespace

SourcePtr make_replica_source(WorkerId self, StoreId store, ClusterMap& map,
                              const PeerTable& peers) {
  return std::make_shared<ReplicaSource>(self, store, map, peers);
}

}  // namespace leat
