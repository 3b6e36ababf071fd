// SPDX-License-Identifier: Apache-2.0
// State of the cluster, and requests to it, on a host that is a worker.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "daemon/cluster/cluster_membership.h"
#include "daemon/cluster/cluster_service.h"
#include "worker/cluster_mounts.h"

namespace leat {
namespace {

constexpr Clock::duration kWorkerCheckInterval = std::chrono::seconds(30);
// How long the status waits for what is staged.
constexpr Clock::duration kStagedTimeout = std::chrono::seconds(2);
// Workers checked per request. So the cost of checks grows with the number of workers, not with its
// square.
constexpr size_t kCheckedMax = 32;

// Includes the options that recreate the mount.
ClusterMountView view_of(const ClusterMount& mount) {
  ClusterMountView view{.path = mount.path, .source = mount.source, .options = mount.options};
  if (mount.write_copies > 0) {
    view.options[std::string(kWriteCopiesOption)] = std::to_string(mount.write_copies);
  }
  if (mount.replicas > 1) {
    view.options[std::string(kReplicasOption)] = std::to_string(mount.replicas);
  }
  return view;
}

// Returns workers with a lease except this one, starting at index `from`.
std::vector<WorkerInfo> others_in(const ClusterView& view, const WorkerId& self, size_t from,
                                  size_t count) {
  std::vector<WorkerInfo> others;
  for (const auto& [id, worker] : view.workers) {
    if (id != self) others.push_back(worker);
  }
  if (others.empty()) return others;
  std::ranges::rotate(others, others.begin() + static_cast<ptrdiff_t>(from % others.size()));
  if (others.size() > count) others.resize(count);
  return others;
}

}  // namespace

Result<> ClusterService::need_worker() const {
  if (worker_ != nullptr) return {};
  return error(StatusCode::kUnsupported,
               "this daemon is no worker of a cluster; 'leat worker --registry …' starts one");
}

Result<ClusterStatusView> ClusterService::known_status() const {
  LEAT_CHECK_OK(need_worker());
  const std::map<WorkerId, PeerCheckFailure> troubles = checks_->failures();
  const ClusterViewPtr view = worker_->view();
  ClusterStatusView status{.name = view->cluster,
                           .self = worker_->self().id.to_hex(),
                           .leader = view->leader,
                           .epoch = view->ring.epoch()};
  if (auto trouble = worker_->trouble()) status.trouble = trouble->to_string();
  uint64_t weights = 0;
  std::map<WorkerId, uint32_t> weight_of;
  for (const RingMember& member : view->ring.members()) {
    weights += member.weight;
    weight_of[member.worker] = member.weight;
  }
  std::set<WorkerId> all;
  for (const auto& [id, weight] : weight_of) all.insert(id);
  for (const auto& [id, worker] : view->workers) all.insert(id);
  const std::vector<WorkerId> rejected = worker_->rejected();
  all.insert(rejected.begin(), rejected.end());
  for (const WorkerId& id : all) {
    const bool stranger = std::ranges::find(rejected, id) != rejected.end();
    ClusterWorkerView one{.id = id.to_hex(), .state = stranger ? "rejected" : "down"};
    if (auto was = view->ring_addresses.find(id); was != view->ring_addresses.end()) {
      one.address = was->second;
    }
    if (const WorkerInfo* worker = view->worker(id)) {
      one.address = worker->address;
      one.host = worker->host_name;
      one.version = worker->version;
      one.capacity_bytes = worker->capacity_bytes;
      one.state = worker->state == WorkerState::kDraining ? "draining" : "active";
      if (auto trouble = troubles.find(id); trouble != troubles.end()) {
        one.state = trouble->second.rejected ? "refusing" : "unreachable";
        one.trouble = trouble->second.why.to_string();
      }
    }
    if (weights > 0) one.share = static_cast<double>(weight_of[id]) / static_cast<double>(weights);
    status.workers.push_back(std::move(one));
  }
  for (const auto& [path, mount] : view->mounts) {
    ClusterMountView one = view_of(mount);
    if (auto trouble = worker_->mount_trouble(path)) one.trouble = trouble->to_string();
    status.mounts.push_back(std::move(one));
  }
  if (const auto drain = worker_->drain_progress()) {
    status.drain = ClusterDrainView{.ended = drain->ended,
                                    .stopped = drain->stopped,
                                    .objects_total = drain->objects_total,
                                    .objects_done = drain->objects_done,
                                    .objects_failed = drain->objects_failed,
                                    .bytes_total = drain->bytes_total,
                                    .bytes_done = drain->bytes_done,
                                    .errors = drain->errors};
  }
  return status;
}

Task<Result<ClusterStatusView>> ClusterService::cluster_status() {
  LEAT_CO_CHECK_OK(need_worker());
  const ClusterViewPtr view = worker_->view();
  checks_->keep_only(view->workers);
  co_await checks_->ping_all(others_in(*view, worker_->self().id, 0, SIZE_MAX));
  LEAT_CO_TRY(ClusterStatusView status, known_status());
  const Context context = Context::background().with_timeout(kStagedTimeout);
  for (const StagingState& state : co_await worker_->staged(context)) {
    for (ClusterMountView& mount : status.mounts) {
      if (mount.path != state.mount) continue;
      mount.unsent_changes = state.changes;
      mount.unsent_bytes = state.bytes;
      if (state.trouble) mount.unsent_trouble = state.trouble->to_string();
    }
  }
  co_return status;
}

Task<> ClusterService::watch_workers(Gate::Holder) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  for (size_t from = 0;; from += kCheckedMax) {
    Result<> slept = co_await sleep_for(context, kWorkerCheckInterval);
    if (!slept) co_return;
    const ClusterViewPtr view = worker_->view();
    checks_->keep_only(view->workers);
    co_await checks_->ping_all(others_in(*view, worker_->self().id, from, kCheckedMax));
  }
}

std::vector<ClusterMembershipView> ClusterService::memberships() const {
  std::vector<ClusterMembershipView> all;
  if (auto status = known_status()) {
    all.push_back(membership_of(*status));
    all.back().address = worker_->self().address;
  }
  std::lock_guard lock(mutex_);
  for (const auto& [key, client] : clients_) {
    if (client->used()) all.push_back(membership_of(*client, key.substr(0, key.find('\n'))));
  }
  return all;
}

Task<Result<ClusterMountView>> ClusterService::add_cluster_mount(Context context,
                                                                 ClusterMountRequest request) {
  LEAT_CO_CHECK_OK(need_worker());
  ClusterMount mount{.path = request.path, .source = request.source, .options = request.options};
  Result<ClusterMount> added = co_await worker_->add_mount(context, std::move(mount));
  if (!added) co_return Error(added.error());
  co_return view_of(*added);
}

Task<Result<>> ClusterService::remove_cluster_mount(Context context, std::string path) {
  LEAT_CO_CHECK_OK(need_worker());
  co_return co_await worker_->remove_mount(context, std::move(path));
}

Task<Result<>> ClusterService::drain_worker(Context context, ClusterDrainRequest request) {
  LEAT_CO_CHECK_OK(need_worker());
  co_return co_await worker_->drain(context.with_timeout(std::chrono::seconds(60)), request.undrain,
                                    request.bandwidth);
}

}  // namespace leat
