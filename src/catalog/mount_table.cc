// SPDX-License-Identifier: Apache-2.0
#include "catalog/mount_table.h"

#include <fmt/format.h>

namespace leat {
namespace {

std::string with_slash(std::string_view path) {
  return path == "/" ? "/" : std::string(path) + "/";
}

}  // namespace

std::string_view parent_path(std::string_view path) {
  size_t slash = path.rfind('/');
  return slash == 0 ? path.substr(0, 1) : path.substr(0, slash);
}

std::string_view last_component(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

Result<> MountTable::add(MountPtr mount) {
  const std::string& path = mount->entry.path;
  auto [at, added] = mounts_.try_emplace(path, mount);
  if (!added) {
    return error(
        StatusCode::kExists,
        fmt::format("cannot mount {} at {}: {} is mounted there; unmount it first or choose "
                    "another path",
                    mount->entry.source.to_string(), path, at->second->entry.source.to_string()));
  }
  ++generation_;
  return {};
}

MountPtr MountTable::remove(std::string_view path) {
  auto found = mounts_.find(path);
  if (found == mounts_.end()) return nullptr;
  MountPtr mount = std::move(found->second);
  mounts_.erase(found);
  ++generation_;
  return mount;
}

std::vector<MountPtr> MountTable::all() const {
  std::vector<MountPtr> mounts;
  for (const auto& [path, mount] : mounts_) mounts.push_back(mount);
  return mounts;
}

MountPtr MountTable::at(std::string_view path) const {
  auto found = mounts_.find(path);
  return found == mounts_.end() ? nullptr : found->second;
}

MountPtr MountTable::owner(std::string_view path) const {
  for (;;) {
    if (MountPtr mount = at(path)) return mount;
    if (path == "/") return nullptr;
    path = parent_path(path);
  }
}

bool MountTable::has_below(std::string_view path) const {
  std::string prefix = with_slash(path);
  auto first = mounts_.upper_bound(prefix);
  return first != mounts_.end() && first->first.starts_with(prefix);
}

std::vector<std::string> MountTable::names_in(std::string_view path) const {
  std::string prefix = with_slash(path);
  std::vector<std::string> names;
  for (auto at = mounts_.upper_bound(prefix); at != mounts_.end() && at->first.starts_with(prefix);
       ++at) {
    std::string_view rest = std::string_view(at->first).substr(prefix.size());
    names.emplace_back(rest.substr(0, rest.find('/')));
  }
  // "a", "a!", "a/b" sort in this order as paths, so equal names need not be neighbours.
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

std::string directory_key_in_mount(const Mount& mount, std::string_view path) {
  const std::string& root = mount.entry.path;
  std::string_view below = path.substr(root == "/" ? 1 : std::min(root.size() + 1, path.size()));
  std::string key = mount.entry.source.prefix + std::string(below);
  if (!key.empty() && !key.ends_with('/')) key += '/';
  return key;
}

}  // namespace leat
