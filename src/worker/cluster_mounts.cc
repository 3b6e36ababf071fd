// SPDX-License-Identifier: Apache-2.0
#include "worker/cluster_mounts.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/policy_settings.h"
#include "telemetry/log.h"

namespace leat {

namespace {

// A write survives the loss of one worker.
constexpr uint32_t kWriteCopiesDefault = 2;

struct PlannedMount {
  StoreUrl url;
  ParsedPolicy made;
  uint32_t replicas = 1;
  uint32_t write_copies = 0;
};

// Removes the option, since the store would reject it.
Result<uint32_t> take_copies(StoreUrl& url, std::string_view option, uint32_t otherwise) {
  const auto found = url.options.find(std::string(option));
  if (found == url.options.end()) return otherwise;
  const std::string text = found->second;
  url.options.erase(found);
  if (text.size() == 1 && text[0] >= '1' && text[0] - '0' <= int(kReplicasMax)) {
    return static_cast<uint32_t>(text[0] - '0');
  }
  return error(
      StatusCode::kInvalidArgument,
      fmt::format("option {}={} must be a number from 1 to {}", option, text, kReplicasMax));
}

Result<PlannedMount> plan_mount(const ClusterMount& mount) {
  LEAT_TRY(StoreUrl url, StoreUrl::parse(mount.source));
  for (const auto& [name, value] : mount.options) url.options[name] = value;
  LEAT_TRY(const uint32_t replicas, take_copies(url, kReplicasOption, 1));
  const bool has_copies = url.options.contains(std::string(kWriteCopiesOption));
  LEAT_TRY(const uint32_t copies, take_copies(url, kWriteCopiesOption, kWriteCopiesDefault));
  PolicySettings settings;
  for (std::string_view option : policy_options()) {
    auto given = url.options.find(std::string(option));
    if (given != url.options.end()) settings.mount.insert(*given);
  }
  LEAT_TRY(ParsedPolicy made, parse_policy(mount.path, settings, {}));
  // The cluster caches on its own disks, even if the store's bytes lie on this host.
  if (!settings.mount.contains("cache")) made.policy.cache = CacheMode::kAlways;
  // A worker's cached metadata may use half of the lifetime; clients use the other half
  // (Freshness::answer_age_max).
  made.policy.freshness.max_age /= 2;
  made.policy.freshness.negative_ttl /= 2;
  if (made.policy.write == WriteMode::kLocal) {
    return error(StatusCode::kInvalidArgument,
                 "a cluster keeps no files that never reach their store; take write=back, or "
                 "write=local of a client's mount");
  }
  const bool is_back = made.policy.write == WriteMode::kBack;
  if (has_copies && !is_back) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("option {} belongs to write=back; add that", kWriteCopiesOption));
  }
  return PlannedMount{std::move(url), std::move(made), replicas, is_back ? copies : 0};
}

}  // namespace

Result<MountEntry> cluster_mount_entry(const ClusterMount& mount) {
  LEAT_TRY(PlannedMount planned, plan_mount(mount));
  return MountEntry{mount.path, std::move(planned.url), std::move(planned.made.policy)};
}

Result<OpenedMount> open_cluster_mount(const ClusterMount& mount, const LocalPaths& local) {
  LEAT_TRY(PlannedMount planned, plan_mount(mount));
  const bool isolated = planned.made.policy.isolated;
  LEAT_TRY(SourcePtr source, local.open(planned.url, isolated ? mount.path : ""));
  return OpenedMount{{mount.path, std::move(planned.url), std::move(planned.made.policy)},
                     std::move(source),
                     std::move(planned.made.pools),
                     planned.replicas,
                     planned.write_copies};
}

Task<> ClusterMounts::follow(ClusterViewPtr view) {
  std::map<std::string, Served> gone;
  {
    std::lock_guard lock(mutex_);
    gone = mounted_;
  }
  std::vector<ClusterMount> wanted;
  for (const auto& [path, mount] : view->mounts) {
    auto found = gone.find(path);
    if (found != gone.end() && found->second.mount == mount) {
      gone.erase(found);
    } else {
      wanted.push_back(mount);
    }
  }
  for (const auto& [path, mount] : gone) {
    static_cast<void>(catalog_.unmount(path));
    std::lock_guard lock(mutex_);
    mounted_.erase(path);
  }
  {
    std::lock_guard lock(mutex_);
    std::erase_if(troubles_, [&](const auto& one) { return !view->mounts.contains(one.first); });
  }
  for (const ClusterMount& mount : wanted) note(mount.path, add(mount));
  co_return;
}

Result<> ClusterMounts::add(const ClusterMount& mount) {
  LEAT_TRY(OpenedMount opened, open_cluster_mount(mount, local_));
  if (opened.source->id() != mount.store) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("{} is another store here than where it was mounted: an endpoint or "
                             "region of the environment differs between workers; give it as an "
                             "option of the mount",
                             mount.source));
  }
  if (store_ != nullptr) {
    for (const auto& [id, policy] : opened.pools) store_->set_pool_policy(id, policy);
  }
  auto policy = std::make_shared<const Policy>(opened.entry.policy);
  LEAT_CHECK_OK(catalog_.mount(std::move(opened.entry), wrap_(mount, std::move(opened.source))));
  std::lock_guard lock(mutex_);
  mounted_[mount.path] = {mount, std::move(policy)};
  return {};
}

void ClusterMounts::note(const std::string& path, const Result<>& added) {
  {
    std::lock_guard lock(mutex_);
    if (added) {
      troubles_.erase(path);
    } else {
      troubles_.insert_or_assign(path, added.error());
    }
  }
  if (added) {
    log::info("the cluster's mount at {} is served", path);
  } else {
    log::warning("the cluster's mount at {} is not served here: {}", path,
                 added.error().to_string());
  }
}

std::shared_ptr<const Policy> ClusterMounts::policy_of(const std::string& path) const {
  std::lock_guard lock(mutex_);
  auto found = mounted_.find(path);
  return found == mounted_.end() ? nullptr : found->second.policy;
}

std::optional<Status> ClusterMounts::trouble(const std::string& path) const {
  std::lock_guard lock(mutex_);
  auto found = troubles_.find(path);
  if (found == troubles_.end()) return std::nullopt;
  return found->second;
}

}  // namespace leat
