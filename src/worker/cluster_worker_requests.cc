// SPDX-License-Identifier: Apache-2.0
// ClusterWorker: requests of this host: mounts, flushes, drains.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "worker/cluster_worker_impl.h"

namespace leat {
namespace {

// Maximum wait of a change until this worker sees it.
constexpr Clock::duration kVisibilityTimeout = std::chrono::seconds(2);
// How long the removal of a mount waits for its staged writes.
constexpr Clock::duration kFlushTimeout = std::chrono::seconds(10);

StoreWriting writing_of(const SourceCapabilities& store) {
  return {.writes = store.writes,
          .write_if_absent = store.write_if_absent,
          .write_if_version = store.write_if_version,
          .copies = store.copies,
          .renames = store.renames,
          .real_directories = store.real_directories,
          .attributes = store.attributes,
          .sets_attributes = store.sets_attributes};
}

}  // namespace

// --- requests ------------------------------------------------------------------------------------

Task<Result<ClusterMount>> ClusterWorkerImpl::add_mount(Context context, ClusterMount mount) {
  Result<OpenedMount> opened = open_cluster_mount(mount, options_.local_paths);
  if (!opened) co_return Error(opened.error());
  mount.options.erase(std::string(kReplicasOption));
  mount.options.erase(std::string(kWriteCopiesOption));
  mount.replicas = opened->replicas;
  mount.write_copies = opened->write_copies;
  if (staging_ == nullptr && mount.write_copies > 0) {
    co_return error(StatusCode::kUnsupported, "this worker keeps no staged writes");
  }
  mount.store = opened->source->id();
  mount.prefix = opened->entry.source.prefix;
  mount.writing = writing_of(opened->source->capabilities());
  if (mount.write_copies > 0) mount.writing->renames = mount.writing->renames_directories = true;
  ListRequest probe;
  probe.prefix = mount.prefix;
  Result<ListPage> page = co_await opened->source->list(context, std::move(probe));
  if (!page) co_return Error(page.error());
  RegistryChange change{.conditions = {{mount_key(mount.path), 0}},
                        .puts = {{mount_key(mount.path), encode_mount(mount)}}};
  if (mount.write_copies > 0) {
    LEAT_CO_TRY(const StagingRecord record,
                co_await staging_->prepare_log(context, mount.path, mount.store));
    change.conditions.push_back({staging_key(mount.path), 0});
    change.puts.push_back({staging_key(mount.path), encode_staging(record)});
  }
  Result<RegistryRevision> written = co_await registry_->commit(context, std::move(change));
  if (written) {
    co_await wait_until_seen(context, *written);
    co_return mount;
  }
  if (written.error().code() == StatusCode::kUnavailable) {
    co_return error(written.error().with_context(
        fmt::format("whether {} is mounted now is not known, 'leat cluster' shows it; the registry "
                    "did not respond",
                    mount.path)));
  }
  if (written.error().code() != StatusCode::kVersionChanged) co_return Error(written.error());
  co_return error(StatusCode::kExists,
                  fmt::format("something is mounted at {} of the cluster already", mount.path));
}

Task<Result<>> ClusterWorkerImpl::remove_mount(Context context, std::string path) {
  if (!views_.view()->mounts.contains(path)) {
    co_return error(StatusCode::kNotFound,
                    fmt::format("nothing is mounted at {} of the cluster", path));
  }
  RegistryChange change{.removals = {mount_key(path)}};
  const auto staged = views_.view()->staging.find(path);
  if (staging_ != nullptr && staged != views_.view()->staging.end()) {
    Result<> flushed = co_await staging_->flush(context.with_timeout(kFlushTimeout), path, "");
    if (!flushed) {
      co_return error(Status(StatusCode::kBusy,
                             fmt::format("writes of {} are not in the store yet; wait for 'leat "
                                         "flush', and remove the mount then",
                                         path),
                             flushed.error()));
    }
    change.removals.push_back(staging_key(path));
  }
  Result<RegistryRevision> written = co_await registry_->commit(context, std::move(change));
  if (!written) co_return Error(written.error());
  co_await wait_until_seen(context, *written);
  co_return Result<>();
}

Task<std::vector<StagingState>> ClusterWorkerImpl::staged(Context context) {
  if (staging_ == nullptr) co_return std::vector<StagingState>();
  co_return co_await staging_->states(std::move(context));
}

Task<Result<>> ClusterWorkerImpl::flush(Context context, std::string path) {
  if (staging_ == nullptr) co_return Result<>();
  const ClusterViewPtr view = views_.view();
  for (const auto& [at, mount] : view->mounts) {
    if (is_at_or_below(at, path)) {
      LEAT_CO_CHECK_OK(co_await staging_->flush(context, at, ""));
    } else if (view->mount_of(path) == &mount) {
      const std::string below = path.substr(at == "/" ? 1 : at.size() + 1);
      LEAT_CO_CHECK_OK(co_await staging_->flush(context, at, mount.prefix + below));
    }
  }
  co_return Result<>();
}

// Waits until this worker has seen the write, so that the client's next query finds it.
Task<> ClusterWorkerImpl::wait_until_seen(Context context, RegistryRevision revision) {
  auto seen = co_await views_.newer(context.with_timeout(kVisibilityTimeout), revision - 1);
  static_cast<void>(seen);
}

Task<Result<>> ClusterWorkerImpl::drain(Context context, bool back, uint64_t bandwidth) {
  const ClusterViewPtr now = views_.view();
  const bool others = std::ranges::any_of(now->ring.members(), [&](const RingMember& one) {
    return one.worker != id_ && one.weight > 0 && now->worker(one.worker) != nullptr;
  });
  if (!back && !others) {
    co_return error(StatusCode::kBusy,
                    "there is no other worker for this one's share; start one first");
  }
  if (back) co_await drain_job_.cancel();
  WorkerInfo self = member_->self();
  self.state = back ? WorkerState::kActive : WorkerState::kDraining;
  member_->publish(self);
  RegistryRevision seen = 0;
  while (true) {
    Result<ClusterViewPtr> view = co_await views_.newer(context, seen);
    if (!view)
      co_return error(
          view.error().with_context("the ring does not change; is there a "
                                    "leader ('leat cluster status')?"));
    seen = (*view)->revision;
    const auto& members = (*view)->ring.members();
    const bool member =
        std::ranges::any_of(members, [this](const RingMember& one) { return one.worker == id_; });
    if (member == back) break;
  }
  if (!back && staging_ != nullptr) {
    staging_drains_ = true;
    executor_.spawn(drain_staging(*gate_.enter()));
  }
  if (!back) co_await drain_job_.begin(bandwidth);
  co_return Result<>();
}

Task<> ClusterWorkerImpl::drain_staging(Gate::Holder) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  Result<> drained = co_await staging_->drain(context);
  staging_drains_ = false;
  if (!drained) log::warning("staged writes stay here: {}", drained.error().to_string());
}

}  // namespace leat
