// SPDX-License-Identifier: Apache-2.0
// MountEntry: one line of the mount table: a store's prefix at a path of the namespace.
#pragma once

#include <string>
#include <string_view>

#include "model/policy.h"
#include "model/store_url.h"

namespace leat {

struct MountEntry {
  std::string path;  // normalised namespace path: "/", "/data/train"; no trailing slash
  StoreUrl source;
  Policy policy;
};

// "/a//b/./c/" → "/a/b/c". Rejects ".." and relative paths: a namespace path has no parent links.
Result<std::string> normalise_path(std::string_view path);

// Returns whether `path` is `root` or lies below it: "/a" and "/a/b" for "/a", but not "/ab". Both
// must be normalised.
bool is_at_or_below(std::string_view path, std::string_view root);

// "/a" + "b/c" = "/a/b/c", "/" + "b" = "/b", "/a" + "" = "/a".
std::string join_path(std::string_view directory, std::string_view below);
// The inverse: "b/c" for "/a/b/c" in "/a", which it is at or below; "" for "/a" itself.
std::string_view path_below(std::string_view path, std::string_view root);

}  // namespace leat
