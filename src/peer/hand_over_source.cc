// SPDX-License-Identifier: Apache-2.0
#include "peer/hand_over_source.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cluster/stripes.h"
#include "runtime/traced.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter handed_over("leat_peer_handed_over_bytes_total",
                    "Bytes taken from the owner of before, in place of the store");

class HandOverSource : public Source {
 public:
  HandOverSource(HandOverOptions options, SourcePtr store, ClusterMap& map, const PeerTable& peers)
      : options_(std::move(options)), store_(std::move(store)), map_(map), peers_(peers) {}

  const StoreId& id() const override { return store_->id(); }
  const std::string& name() const override { return store_->name(); }
  const SourceCapabilities& capabilities() const override { return store_->capabilities(); }
  unsigned window() const override { return store_->window(); }

  Task<Result<SourceObject>> stat(Context context, StatRequest request) override {
    return store_->stat(std::move(context), std::move(request));
  }
  Task<Result<ListPage>> list(Context context, ListRequest request) override {
    return store_->list(std::move(context), std::move(request));
  }

  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override {
    for (const FormerOwner& before : former_owners(request)) {
      const Traced span(context, "ask the owner of before");
      const ReadRequest rest = rest_of(request);
      Result<> got = co_await read_from(context, before, rest, into.last(rest.range.size));
      if (got) co_return got;
    }
    ReadRequest rest = rest_of(std::move(request));
    const std::span<std::byte> room = into.last(rest.range.size);
    co_return co_await store_->read(context, std::move(rest), room);
  }

 private:
  struct FormerOwner {
    WorkerId id;
    PeerPtr peer;
  };

  // Returns the previous owners in the order of the attempts; empty if there are none.
  std::vector<FormerOwner> former_owners(const ReadRequest& request) {
    const ClusterViewPtr view = map_.view();
    if (!view->previous || request.object_size == 0) return {};
    const std::shared_ptr<const Ring> oldest = ring_before(*view);
    if (oldest == nullptr) return {};
    const auto key = PlacementKey::stripe(store_->id(), request.key,
                                          stripe_at(request.range.offset, request.object_size));
    std::vector<WorkerId> ids{oldest->owner(key), view->previous->owner(key)};
    if (ids[0] == ids[1]) ids.pop_back();
    if (ids.size() > 1 && drains(*view, ids[1])) std::swap(ids[0], ids[1]);
    std::vector<FormerOwner> owners;
    for (const WorkerId& id : ids) {
      if (auto owner = usable(*view, id)) owners.push_back(*std::move(owner));
    }
    return owners;
  }

  static bool drains(const ClusterView& view, const WorkerId& id) {
    const WorkerInfo* worker = view.worker(id);
    return worker != nullptr && worker->state == WorkerState::kDraining;
  }

  std::optional<FormerOwner> usable(const ClusterView& view, const WorkerId& id) const {
    if (id == options_.self || view.worker(id) == nullptr || pauses(id)) return std::nullopt;
    PeerPtr peer = peers_.find(id);
    if (peer == nullptr || !peer->usable()) return std::nullopt;
    return FormerOwner{id, std::move(peer)};
  }

  bool pauses(const WorkerId& before) const {
    std::lock_guard lock(mutex_);
    const auto found = paused_until_.find(before);
    return found != paused_until_.end() && Clock::now() < found->second;
  }
  // `wanted`: the caller still waits. If it gave up, a missing answer does not count against the
  // worker.
  void judge(const WorkerId& before, Clock::duration took, bool answered, bool wanted) {
    if (took < options_.slow_min && (answered || !wanted)) return;
    const Clock::time_point until = Clock::now() + options_.pause;
    std::lock_guard lock(mutex_);
    paused_until_[before] = until;
  }

  // Returns the ring before the first of the recent changes; null if the last change is over. If
  // workers join one after another, the last ring's owner has cached hardly anything. If nothing
  // was read before the last join, the oldest ring's owner has everything.
  std::shared_ptr<const Ring> ring_before(const ClusterView& view) {
    const Clock::time_point now = Clock::now();
    std::lock_guard lock(mutex_);
    if (view.ring.epoch() != epoch_) {
      const bool goes_on = before_ != nullptr && lasts(view, now);
      if (!goes_on) before_ = std::make_shared<const Ring>(*view.previous);
      epoch_ = view.ring.epoch();
      since_ = now;
      paused_until_.clear();
    }
    return lasts(view, now) ? before_ : nullptr;
  }
  // A draining worker serves all that it has, however long that takes. Requires mutex_.
  bool lasts(const ClusterView& view, Clock::time_point now) const {
    if (now - since_ < options_.lasts) return true;
    return std::ranges::any_of(
        view.workers, [](const auto& one) { return one.second.state == WorkerState::kDraining; });
  }

  Task<Result<>> read_from(Context context, FormerOwner before, ReadRequest request,
                           std::span<std::byte> into) {
    PeerRead asked{.mount = options_.mount, .range = request.range, .only_if_cached = true};
    asked.file = std::make_shared<const FileRef>(
        FileRef::make(store_->id(), request.key, request.if_version, request.object_size));
    asked.route.epoch = map_.view()->ring.epoch();
    asked.progress = request.progress;
    const Context bounded = context.with_timeout(options_.answer_max);
    const Clock::time_point begun = Clock::now();
    PeerReply<void> reply = co_await before.peer->read(bounded, std::move(asked), into);
    judge(before.id, Clock::now() - begun, was_heard(reply.reach), context.check("").has_value());
    if (reply.result) handed_over.add(into.size());
    co_return std::move(reply.result);
  }

  const HandOverOptions options_;
  const SourcePtr store_;
  ClusterMap& map_;
  const PeerTable& peers_;
  mutable std::mutex mutex_;  // leaf
  int64_t epoch_ = -1;
  Clock::time_point since_;
  std::shared_ptr<const Ring> before_;
  std::map<WorkerId, Clock::time_point> paused_until_;  // previous owners of this ring
};

}  // namespace

SourcePtr make_hand_over_source(HandOverOptions options, SourcePtr store, ClusterMap& map,
                                const PeerTable& peers) {
  return std::make_shared<HandOverSource>(std::move(options), std::move(store), map, peers);
}

}  // namespace leat
