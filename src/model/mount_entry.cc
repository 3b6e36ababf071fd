// SPDX-License-Identifier: Apache-2.0
#include "model/mount_entry.h"

#include <fmt/format.h>

#include <algorithm>

namespace leat {

Result<std::string> normalise_path(std::string_view path) {
  if (!path.starts_with('/')) {
    return error(StatusCode::kInvalidArgument, fmt::format("path '{}' is not absolute", path));
  }
  std::string normal;
  std::string_view rest = path;
  while (!rest.empty()) {
    std::string_view component = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(rest.size(), component.size() + 1));
    if (component.empty() || component == ".") continue;
    if (component == "..") {
      return error(StatusCode::kInvalidArgument,
                   fmt::format("path '{}' holds '..'; write it without", path));
    }
    normal += '/';
    normal += component;
  }
  return normal.empty() ? "/" : normal;
}

bool is_at_or_below(std::string_view path, std::string_view root) {
  if (root == "/") return true;
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

std::string join_path(std::string_view directory, std::string_view below) {
  std::string path(directory);
  if (below.empty()) return path;
  if (!path.ends_with('/')) path += '/';
  return path.append(below);
}

std::string_view path_below(std::string_view path, std::string_view root) {
  return path.substr(root == "/" ? 1 : std::min(root.size() + 1, path.size()));
}

}  // namespace leat
