// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster_member.h"

#include <fmt/format.h>

#include <mutex>

#include "cluster/cluster_records.h"
#include "telemetry/log.h"

namespace leat {
namespace {

Status duplicate_error(const std::string& duplicate) {
  return {
      StatusCode::kBusy,
      fmt::format("the worker at {} has the identity of this one and receives its requests: the "
                  "cache directory of one is a copy of the other's; give one of them an empty "
                  "directory (--cache-dir)",
                  duplicate)};
}

class ClusterMemberImpl : public ClusterMember {
 public:
  ClusterMemberImpl(Registry& registry, ClusterMemberOptions options, Executor& executor)
      : self_(std::move(options.self)), on_view_(std::move(options.on_view)) {
    session_ = RegistrySession::start(registry, {.ttl = options.ttl}, executor);
    publish(self_);
    views_ = RegistryViewSource::start(
        registry,
        {.cluster = std::move(options.cluster),
         .changed = [this](const ClusterViewPtr& view) { on_view(view); },
         .relisted = [this](const ClusterViewPtr& view) { republish_if_stale(*view); }},
        executor);
    election_ = Election::start(
        registry, *session_, {.key = std::string(kLeaderKey), .name = self_.id.to_hex()}, executor);
    updater_ = RingUpdater::start(registry, *election_, *views_, options.ring, executor);
  }

  RegistryViewSource& views() override { return *views_; }
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
    if (auto map = views_->trouble()) return map;
    std::lock_guard lock(mutex_);
    if (duplicate_.empty()) return std::nullopt;
    return duplicate_error(duplicate_);
  }

  // The leader resigns before its lease ends, so that the next one leads at once.
  Task<> stop(Context context) override {
    co_await updater_->stop();
    co_await election_->stop(context);
    co_await session_->stop(context);
    co_await views_->stop();
  }

 private:
  void on_view(const ClusterViewPtr& view) {
    check_for_duplicate(*view);
    check_own_record(*view);
    if (on_view_) on_view_(view);
  }

  // A record with our id and another address, put after ours, means that another process has our
  // identity. Its record stays, so that the two do not alternate. Ours returns after the other has
  // left.
  void check_for_duplicate(const ClusterView& view) {
    const WorkerInfo mine = self();
    const WorkerInfo* there = view.worker(mine.id);
    const bool another = there != nullptr && there->address != mine.address;
    {
      std::lock_guard lock(mutex_);
      if (there != nullptr && !another) published_ = true;
      std::string duplicate = another && published_ ? there->address : "";
      if (duplicate == duplicate_) return;
      duplicate_ = std::move(duplicate);
    }
    if (another) {
      log::error("{}", duplicate_error(there->address).to_string());
    } else {
      session_->republish();
    }
  }

  // Our record was removed, so our lease has ended. An etcd that was stopped and continues may end
  // leases that were renewed elsewhere meanwhile (etcd-io/etcd#15247). This notifies the session at
  // once; by itself it would notice at its next renewal.
  void check_own_record(const ClusterView& view) {
    const bool there = view.worker(self().id) != nullptr;
    {
      std::lock_guard lock(mutex_);
      if (!std::exchange(shown_, there) || there) return;
    }
    session_->republish();
  }

  // A restored registry may know our lease but have no record of us, or an older one.
  void republish_if_stale(const ClusterView& view) {
    const WorkerInfo published = self();
    const WorkerInfo* there = view.worker(published.id);
    if (there == nullptr || *there != published) session_->republish();
  }

  mutable std::mutex mutex_;  // leaf
  WorkerInfo self_;           // the id never changes
  bool published_ = false;    // the registry has shown our record
  bool shown_ = false;        // the last view has a record with our id
  std::string duplicate_;     // the address of another worker with our id
  const RegistryViewSourceOptions::Listener on_view_;
  std::unique_ptr<RegistrySession> session_;
  std::unique_ptr<RegistryViewSource> views_;
  std::unique_ptr<Election> election_;
  std::unique_ptr<RingUpdater> updater_;
};

}  // namespace

std::unique_ptr<ClusterMember> ClusterMember::start(Registry& registry,
                                                    ClusterMemberOptions options,
                                                    Executor& executor) {
  return std::make_unique<ClusterMemberImpl>(registry, std::move(options), executor);
}

}  // namespace leat
