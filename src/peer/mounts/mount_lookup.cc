// SPDX-License-Identifier: Apache-2.0
#include "peer/mounts/mount_lookup.h"

#include <set>

#include "model/mount_entry.h"

namespace leat {
namespace {

// Returns "/data/train" for "data/train" and "data/train/".
std::string path_of(std::string_view key) {
  if (key.ends_with('/')) key.remove_suffix(1);
  return "/" + std::string(key);
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

// The path as sent: a directory ends with a slash.
std::string sent_path(const Invalidation& invalidation) {
  return join_path(invalidation.mount.empty() ? "/" : invalidation.mount, invalidation.key);
}

}  // namespace

ResolvedKey resolve_key(const ClusterView& view, std::string_view key) {
  const std::string path = path_of(key);
  const ClusterMount* mount = view.mount_of(path);
  if (mount == nullptr) return {};
  std::string below(path_below(path, mount->path));
  if (key.ends_with('/') && !below.empty()) below += '/';
  return {mount, mount->prefix + below};
}

std::string client_key(const ClusterMount& mount, std::string_view store_key) {
  const std::string_view below = store_key.substr(mount.prefix.size());
  const std::string path = mount.path.substr(1);
  return path.empty() ? std::string(below) : path + "/" + std::string(below);
}

std::vector<std::string> mounted_names(const ClusterView& view, std::string_view key) {
  const std::string path = path_of(key);
  std::set<std::string> names;
  for (const auto& [at, mount] : view.mounts) {
    if (at == path || !is_at_or_below(at, path)) continue;
    const std::string_view below = path_below(at, path);
    names.emplace(below.substr(0, below.find('/')));
  }
  return {names.begin(), names.end()};
}

bool is_mount_or_ancestor(const ClusterView& view, std::string_view key) {
  const std::string path = path_of(key);
  for (const auto& [at, mount] : view.mounts) {
    if (is_at_or_below(at, path)) return true;
  }
  return path == "/";
}

std::string invalidated_path(const Invalidation& invalidation) {
  return without_slashes(sent_path(invalidation));
}

std::string invalidated_directory(const Invalidation& invalidation) {
  std::string path = sent_path(invalidation);
  if (invalidation.kind == Invalidation::Kind::kObject) path.resize(path.rfind('/') + 1);
  return without_slashes(std::move(path));
}

}  // namespace leat
