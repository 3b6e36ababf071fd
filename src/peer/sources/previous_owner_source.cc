// SPDX-License-Identifier: Apache-2.0
#include "peer/sources/previous_owner_source.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cluster/stripes.h"
#include "runtime/scoped_span.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter previous_owner_bytes("leat_peer_previous_owner_bytes_total",
                             "Bytes read from the previous owner instead of the store");

class PreviousOwnerSource : public Source {
 public:
  PreviousOwnerSource(PreviousOwnerOptions options, SourcePtr store, ClusterViewSource& views,
                      const PeerTable& peers)
      : options_(std::move(options)), store_(std::move(store)), views_(views), peers_(peers) {}

  const StoreId& id() const override { return store_->id(); }
  const std::string& name() const override { return store_->name(); }
  const SourceCapabilities& capabilities() const override { return store_->capabilities(); }
  unsigned concurrency_hint(uint64_t bytes) const override {
    return store_->concurrency_hint(bytes);
  }
  Clock::duration first_byte_median() const override { return store_->first_byte_median(); }
  bool failing() const override { return store_->failing(); }

  Task<Result<SourceObject>> stat(Context context, StatRequest request) override {
    return store_->stat(std::move(context), std::move(request));
  }
  Task<Result<ListPage>> list(Context context, ListRequest request) override {
    return store_->list(std::move(context), std::move(request));
  }
  Task<Result<SourceObject>> write(Context context, WriteRequest request,
                                   std::span<const std::byte> content) override {
    return store_->write(std::move(context), std::move(request), content);
  }
  Result<ObjectWriterPtr> begin_write(WriteRequest request) override {
    return store_->begin_write(std::move(request));
  }
  Task<Result<SourceObject>> copy(Context context, CopyRequest request) override {
    return store_->copy(std::move(context), std::move(request));
  }
  Task<Result<>> rename(Context context, RenameRequest request) override {
    return store_->rename(std::move(context), std::move(request));
  }
  Task<Result<SourceObject>> set_attributes(Context context, AttributesRequest request) override {
    return store_->set_attributes(std::move(context), std::move(request));
  }
  Task<Result<>> remove(Context context, RemoveRequest request) override {
    return store_->remove(std::move(context), std::move(request));
  }

  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override {
    for (const PreviousOwner& owner : previous_owners(request)) {
      const ScopedSpan span(context, "peer.previous_owner.read");
      const ReadRequest rest = rest_of(request);
      Result<> got = co_await read_from(context, owner, rest, into.last(rest.range.size));
      if (got) co_return got;
    }
    ReadRequest rest = rest_of(std::move(request));
    const std::span<std::byte> room = into.last(rest.range.size);
    co_return co_await store_->read(context, std::move(rest), room);
  }

 private:
  struct PreviousOwner {
    WorkerId id;
    PeerPtr peer;
  };

  // Returns the previous owners in the order of the attempts; empty if there are none.
  std::vector<PreviousOwner> previous_owners(const ReadRequest& request) {
    const ClusterViewPtr view = views_.view();
    if (!view->previous || request.object_size == 0) return {};
    const std::shared_ptr<const Ring> oldest = ring_before_changes(*view);
    if (oldest == nullptr) return {};
    const auto key = PlacementKey::stripe(store_->id(), request.key,
                                          stripe_at(request.range.offset, request.object_size));
    std::vector<WorkerId> ids{oldest->owner(key), view->previous->owner(key)};
    if (ids[0] == ids[1]) ids.pop_back();
    if (ids.size() > 1 && drains(*view, ids[1])) std::swap(ids[0], ids[1]);
    std::vector<PreviousOwner> owners;
    for (const WorkerId& id : ids) {
      if (auto owner = usable_owner(*view, id)) owners.push_back(*std::move(owner));
    }
    return owners;
  }

  static bool drains(const ClusterView& view, const WorkerId& id) {
    const WorkerInfo* worker = view.worker(id);
    return worker != nullptr && worker->state == WorkerState::kDraining;
  }

  std::optional<PreviousOwner> usable_owner(const ClusterView& view, const WorkerId& id) const {
    if (id == options_.self || view.worker(id) == nullptr || backs_off(id)) return std::nullopt;
    PeerPtr peer = peers_.find(id);
    if (peer == nullptr || !peer->usable()) return std::nullopt;
    return PreviousOwner{id, std::move(peer)};
  }

  bool backs_off(const WorkerId& owner) const {
    std::lock_guard lock(mutex_);
    const auto found = backoff_until_.find(owner);
    return found != backoff_until_.end() && Clock::now() < found->second;
  }
  // `caller_waits`: the caller has not given up. If it has, a missing answer does not count against
  // the worker.
  void record_outcome(const WorkerId& owner, Clock::duration duration, bool answered,
                      bool caller_waits) {
    if (duration < options_.slow_min && (answered || !caller_waits)) return;
    const Clock::time_point until = Clock::now() + options_.backoff;
    std::lock_guard lock(mutex_);
    backoff_until_[owner] = until;
  }

  // Returns the ring before the first of the recent changes; null if the last change is over. If
  // workers join one after another, the last ring's owner has cached hardly anything. If nothing
  // was read before the last join, the oldest ring's owner has everything.
  std::shared_ptr<const Ring> ring_before_changes(const ClusterView& view) {
    const Clock::time_point now = Clock::now();
    std::lock_guard lock(mutex_);
    if (view.ring.epoch() != epoch_) {
      const bool continues = oldest_ring_ != nullptr && in_transition(view, now);
      if (!continues) oldest_ring_ = std::make_shared<const Ring>(*view.previous);
      epoch_ = view.ring.epoch();
      changed_at_ = now;
      backoff_until_.clear();
    }
    return in_transition(view, now) ? oldest_ring_ : nullptr;
  }
  // A draining worker serves all that it has, however long that takes. Requires mutex_.
  bool in_transition(const ClusterView& view, Clock::time_point now) const {
    if (now - changed_at_ < options_.transition_time) return true;
    return std::ranges::any_of(
        view.workers, [](const auto& one) { return one.second.state == WorkerState::kDraining; });
  }

  Task<Result<>> read_from(Context context, PreviousOwner owner, ReadRequest request,
                           std::span<std::byte> into) {
    PeerRead read{.mount = options_.mount, .range = request.range, .only_if_cached = true};
    read.file = std::make_shared<const FileRef>(
        FileRef::make(store_->id(), request.key, request.if_version, request.object_size));
    read.route.epoch = views_.view()->ring.epoch();
    read.progress = request.progress;
    const Context bounded = context.with_timeout(options_.timeout);
    const Clock::time_point begun = Clock::now();
    PeerReply<void> reply = co_await owner.peer->read(bounded, std::move(read), into);
    record_outcome(owner.id, Clock::now() - begun, responded(reply.outcome),
                   context.check("").has_value());
    if (reply.result) previous_owner_bytes.add(into.size());
    co_return std::move(reply.result);
  }

  const PreviousOwnerOptions options_;
  const SourcePtr store_;
  ClusterViewSource& views_;
  const PeerTable& peers_;
  mutable std::mutex mutex_;  // leaf
  int64_t epoch_ = -1;
  Clock::time_point changed_at_;
  std::shared_ptr<const Ring> oldest_ring_;
  std::map<WorkerId, Clock::time_point> backoff_until_;  // previous owners of this ring
};

}  // namespace

SourcePtr make_previous_owner_source(PreviousOwnerOptions options, SourcePtr store,
                                     ClusterViewSource& views, const PeerTable& peers) {
  return std::make_shared<PreviousOwnerSource>(std::move(options), std::move(store), views, peers);
}

}  // namespace leat
