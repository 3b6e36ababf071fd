// SPDX-License-Identifier: Apache-2.0
#include "catalog/mount_table.h"

#include <fmt/format.h>

namespace leat {

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

void MountTable::replace(MountPtr mount) {
  mounts_.at(mount->entry.path) = mount;
  ++generation_;
}

MountPtr MountTable::owner(std::string_view path) const {
  return route(path).mount;
}

MountTable::Route MountTable::route(std::string_view path) const {
  Route route{.mount = nullptr, .in_mount_table = path == "/"};
  auto next = mounts_.lower_bound(path);
  if (next != mounts_.end() && is_at_or_below(next->first, path)) {
    route.in_mount_table = true;
    if (next->first == path) {
      route.mount = next->second;
      return route;
    }
  }
  if (next == mounts_.begin()) return route;
  // The longest of the mounts above the path is the last one before it, unless others are mounted
  // in between.
  if (auto last = std::prev(next); is_at_or_below(path, last->first)) {
    route.mount = last->second;
    return route;
  }
  while (path != "/" && !route.mount) {
    path = parent_path(path);
    route.mount = at(path);
  }
  return route;
}

std::vector<std::string> MountTable::names_in(std::string_view path) const {
  std::vector<std::string> names;
  for (auto at = mounts_.upper_bound(path); at != mounts_.end() && is_at_or_below(at->first, path);
       ++at) {
    std::string_view rest = std::string_view(at->first).substr(path == "/" ? 1 : path.size() + 1);
    std::string_view name = rest.substr(0, rest.find('/'));
    if (names.empty() || names.back() != name) names.emplace_back(name);
  }
  return names;
}

std::string_view path_below_mount(const Mount& mount, std::string_view path) {
  return path_below(path, mount.entry.path);
}

std::string directory_key_in_mount(const Mount& mount, std::string_view path) {
  std::string key = mount.entry.source.prefix;
  key += path_below_mount(mount, path);
  if (!key.empty() && !key.ends_with('/')) key += '/';
  return key;
}

}  // namespace leat
