// SPDX-License-Identifier: Apache-2.0
#include "apps/cluster/copy_places.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/cluster/cluster_mounts.h"
#include "cluster/cluster_records.h"
#include "model/mount_entry.h"

namespace leat {
namespace {

constexpr size_t kOpenedMax = 16;

}  // namespace

template <class Open>
Result<SourcePtr> CopyPlaces::opened(const std::string& what, Open open) {
  std::lock_guard lock(mutex_);
  auto found = std::ranges::find(opened_, what, &Opened::what);
  if (found != opened_.end()) return found->source;
  LEAT_TRY(SourcePtr source, open());
  if (!source->capabilities().writes) {
    return error(StatusCode::kUnsupported,
                 fmt::format("{} takes no changes: Leat cannot write to stores of this kind",
                             source->name()));
  }
  if (opened_.size() == kOpenedMax) opened_.pop_front();
  opened_.push_back({what, source});
  return source;
}

Result<CopyRuns::Place> CopyPlaces::find(const CopyGoal& goal) {
  Result<CopyRuns::Place> place = goal.to.starts_with('/') ? find_mounted(goal) : find_url(goal);
  if (place && place->key.empty()) {
    return error(StatusCode::kIsDirectory,
                 fmt::format("{} is no name of a file; end it with '/' to copy into it", goal.to));
  }
  return place;
}

Result<CopyRuns::Place> CopyPlaces::find_mounted(const CopyGoal& goal) {
  const ClusterViewPtr view = map_.view();
  const ClusterMount* mount = view->mount_of(goal.to);
  if (mount == nullptr) {
    return error(StatusCode::kNotFound,
                 fmt::format("nothing is mounted at {} of the cluster", goal.to));
  }
  auto open = [this, mount]() -> Result<SourcePtr> {
    LEAT_TRY(OpenedMount there, open_cluster_mount(*mount, local_));
    return std::move(there.source);
  };
  LEAT_TRY(SourcePtr source, opened(encode_mount(*mount), open));
  return CopyRuns::Place{std::move(source),
                         mount->prefix + std::string(path_below(goal.to, mount->path))};
}

Result<CopyRuns::Place> CopyPlaces::find_url(const CopyGoal& goal) {
  LEAT_TRY(const StoreUrl url, StoreUrl::parse(goal.to));
  LEAT_TRY(SourcePtr source, opened(goal.to, [&] { return local_.open(url); }));
  std::string key = url.prefix + goal.key;
  if (key.ends_with('/')) key.pop_back();
  return CopyRuns::Place{std::move(source), std::move(key)};
}

}  // namespace leat
