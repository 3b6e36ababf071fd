// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster_member.h"

#include <fmt/format.h>

#include <mutex>

#include "cluster/cluster_records.h"
#include "telemetry/log.h"

namespace leat {
namespace {

Status trouble_with(const std::string& namesake) {
  return {
      StatusCode::kBusy,
      fmt::format("the worker at {} has the identity of this one and is asked in its place: the "
                  "cache directory of one is a copy of the other's; give one of them an empty "
                  "directory (--cache-dir)",
                  namesake)};
}

class ClusterMemberImpl : public ClusterMember {
 public:
  ClusterMemberImpl(Registry& registry, ClusterMemberOptions options, Executor& executor)
      : self_(std::move(options.self)), on_view_(std::move(options.on_view)) {
    session_ = RegistrySession::start(registry, {.ttl = options.ttl}, executor);
    publish(self_);
    map_ = RegistryMap::start(registry,
                              {.cluster = std::move(options.cluster),
                               .changed = [this](const ClusterViewPtr& view) { follow(view); },
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
    if (auto map = map_->trouble()) return map;
    std::lock_guard lock(mutex_);
    if (namesake_.empty()) return std::nullopt;
    return trouble_with(namesake_);
  }

  // The leader resigns before its lease ends, so that the next one leads at once.
  Task<> stop(Context context) override {
    co_await keeper_->stop();
    co_await election_->stop(context);
    co_await session_->stop(context);
    co_await map_->stop();
  }

 private:
  void follow(const ClusterViewPtr& view) {
    look_for_namesake(*view);
    look_for_own(*view);
    if (on_view_) on_view_(view);
  }

  // A record with our id and another address, put after ours, means that another process has our
  // identity. Its record stays, so that the two do not alternate. Ours returns after the other has
  // left.
  void look_for_namesake(const ClusterView& view) {
    const WorkerInfo mine = self();
    const WorkerInfo* there = view.worker(mine.id);
    const bool another = there != nullptr && there->address != mine.address;
    {
      std::lock_guard lock(mutex_);
      if (there != nullptr && !another) published_ = true;
      std::string namesake = another && published_ ? there->address : "";
      if (namesake == namesake_) return;
      namesake_ = std::move(namesake);
    }
    if (another) {
      log::error("{}", trouble_with(there->address).to_string());
    } else {
      session_->put_again();
    }
  }

  // Our record was removed, so our lease has ended. An etcd that was stopped and continues may end
  // leases that were renewed elsewhere meanwhile (etcd-io/etcd#15247). This notifies the session at
  // once; by itself it would notice at its next renewal.
  void look_for_own(const ClusterView& view) {
    const bool there = view.worker(self().id) != nullptr;
    {
      std::lock_guard lock(mutex_);
      if (!std::exchange(shown_, there) || there) return;
    }
    session_->put_again();
  }

  // A restored registry may know our lease but have no record of us, or an older one.
  void look(const ClusterView& view) {
    const WorkerInfo published = self();
    const WorkerInfo* there = view.worker(published.id);
    if (there == nullptr || *there != published) session_->put_again();
  }

  mutable std::mutex mutex_;  // leaf
  WorkerInfo self_;           // the id never changes
  bool published_ = false;    // the registry has shown our record
  bool shown_ = false;        // the last view has a record with our id
  std::string namesake_;      // the address of another worker with our id
  const RegistryMapOptions::Listener on_view_;
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
