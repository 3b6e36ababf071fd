// SPDX-License-Identifier: Apache-2.0
// Requests of a host about the snapshots of a mounted cluster.
#include <fmt/format.h>

#include "daemon/cluster/cluster_service.h"
#include "model/mount_entry.h"

namespace leat {
namespace {

SnapshotView view_of(const SharedSnapshot& shared) {
  return {.name = shared.name,
          .source = "leat://" + shared.folder,
          .created = WallTime(std::chrono::nanoseconds(shared.created_ns)),
          .files = shared.files,
          .directories = shared.directories,
          .bytes = shared.bytes,
          .skipped = shared.skipped,
          .file_bytes = shared.file_bytes};
}

}  // namespace

ClusterService::ClientPtr ClusterService::client_of_source(const SourcePtr& source) const {
  std::lock_guard lock(mutex_);
  for (const auto& [key, client] : clients_) {
    if (client->used() && client->source() == source) return client;
  }
  return nullptr;
}

// The nearest mount of this host at or above the path; may be null.
MountPtr ClusterService::mount_at(const std::string& path) const {
  Catalog* catalog = nullptr;
  {
    std::lock_guard lock(mutex_);
    catalog = catalog_;
  }
  MountPtr nearest;
  for (const MountPtr& mount : catalog == nullptr ? std::vector<MountPtr>() : catalog->mounts()) {
    const std::string& at = mount->entry.path;
    if (is_at_or_below(path, at) && (!nearest || at.size() > nearest->entry.path.size())) {
      nearest = mount;
    }
  }
  return nearest;
}

std::optional<ClusterEpochLoads::Tree> ClusterService::tree_at(const std::string& path) const {
  const MountPtr mount = mount_at(path);
  ClientPtr client = mount ? client_of_source(mount->source) : nullptr;
  if (client == nullptr) return std::nullopt;
  std::string below(path_below(path, mount->entry.path));
  std::string there = "/" + mount->entry.source.prefix + below;
  if (there.size() > 1 && there.ends_with('/')) there.pop_back();
  return ClusterEpochLoads::Tree{std::move(client), std::move(there)};
}

Result<ClusterService::ClientPtr> ClusterService::client_at(const std::string& path) const {
  const MountPtr nearest = mount_at(path);
  ClientPtr client = nearest ? client_of_source(nearest->source) : nullptr;
  if (client) return client;
  return error(StatusCode::kInvalidArgument,
               fmt::format("{} is in no mount of a cluster (leat://…); without a path it is the "
                           "snapshots of this host",
                           path));
}

Task<Result<std::vector<SnapshotView>>> ClusterService::cluster_snapshots(Context context,
                                                                          std::string path) {
  LEAT_CO_TRY(const ClientPtr client, client_at(path));
  LEAT_CO_TRY(const std::vector<SharedSnapshot> all, co_await client->snapshots().list(context));
  std::vector<MountPtr> mounts;
  {
    std::lock_guard lock(mutex_);
    if (catalog_ != nullptr) mounts = catalog_->mounts();
  }
  std::vector<SnapshotView> views;
  for (const SharedSnapshot& one : all) {
    SnapshotView& view = views.emplace_back(view_of(one));
    for (const MountPtr& mount : mounts) {
      if (mount->snapshot && mount->snapshot->head().id == one.id) {
        view.used_by.push_back(mount->entry.path);
      }
    }
  }
  co_return views;
}

Task<Result<>> ClusterService::remove_cluster_snapshot(Context context, std::string path,
                                                       std::string name) {
  LEAT_CO_TRY(const ClientPtr client, client_at(path));
  co_return co_await client->snapshots().remove(context, name);
}

}  // namespace leat
