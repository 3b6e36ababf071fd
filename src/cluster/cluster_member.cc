// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster_member.h"

#include <mutex>

#include "cluster/cluster_records.h"

namespace leat {
namespace {

class ClusterMemberImpl : public ClusterMember {
 public:
  ClusterMemberImpl(Registry& registry, ClusterMemberOptions options, Executor& executor)
      : self_(std::move(options.self)) {
    session_ = RegistrySession::start(registry, {.ttl = options.ttl}, executor);
    publish(self_);
    map_ = RegistryMap::start(registry,
                              {.cluster = std::move(options.cluster),
                               .changed = std::move(options.on_view),
                               .listed_anew = [this](const ClusterViewPtr& view) { look(*view); }},
                              executor);
    election_ = Election::start(
        registry, *session_, {.key = std::string(kLeaderKey), .name = self_.id.to_hex()}, executor);
    keeper_ = RingKeeper::start(registry, *election_, *map_, options.ring, executor);
  }

  RegistryMap& map() override { return *map_; }
  Election& election() override { return *election_; }

  WorkerInfo self() const override {
    std::lock_guard lock(mutex_);
    return self_;
  }

  void publish(WorkerInfo self) override {
    {
      std::lock_guard lock(mutex_);
      self.id = self_.id;
      self_ = self;
    }
    session_->put(worker_key(self.id), encode_worker(self));
  }

  std::optional<Status> trouble() const override {
    if (auto lease = session_->trouble()) return lease;
    return map_->trouble();
  }

  // Who leads gives that up before its lease, so that the next one knows at once.
  Task<> stop(Context context) override {
    co_await keeper_->stop();
    co_await election_->stop(context);
    co_await session_->stop(context);
    co_await map_->stop();
  }

 private:
  // A registry that was restored may know our lease and lack our record, or hold an older one.
  void look(const ClusterView& view) {
    const WorkerInfo published = self();
    const WorkerInfo* there = view.worker(published.id);
    if (there == nullptr || *there != published) session_->put_again();
  }

  mutable std::mutex mutex_;  // leaf
  WorkerInfo self_;
  std::unique_ptr<RegistrySession> session_;
  std::unique_ptr<RegistryMap> map_;
  std::unique_ptr<Election> election_;
  std::unique_ptr<RingKeeper> keeper_;
};

}  // namespace

std::unique_ptr<ClusterMember> ClusterMember::start(Registry& registry,
                                                    ClusterMemberOptions options,
                                                    Executor& executor) {
  return std::make_unique<ClusterMemberImpl>(registry, std::move(options), executor);
}

}  // namespace leat
