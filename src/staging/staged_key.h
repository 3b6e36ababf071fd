// SPDX-License-Identifier: Apache-2.0
// Parts of keys. Private to this module.
#pragma once

#include <string>
#include <string_view>

namespace leat {

// Returns the key of the directory of a key: empty, or ending in '/'.
inline std::string_view directory_of(std::string_view key) {
  if (key.ends_with('/')) key.remove_suffix(1);
  return key.substr(0, key.rfind('/') + 1);
}

// Returns the first key after all that begin with `prefix`, which ends in '/'.
inline std::string end_of(std::string_view prefix) {
  std::string end(prefix);
  end.back() = '/' + 1;
  return end;
}

// Returns `key`, which begins with `from`, with `to` in its place.
inline std::string moved(std::string_view key, std::string_view from, std::string_view to) {
  return std::string(to).append(key.substr(from.size()));
}

}  // namespace leat
