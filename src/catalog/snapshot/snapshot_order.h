// SPDX-License-Identifier: Apache-2.0
// The order of paths in a snapshot: by their components, so that paths below a directory follow it
// without a gap ("a", "a/b", "a!").
#pragma once

#include <algorithm>
#include <compare>
#include <cstring>
#include <string_view>

namespace leat {

inline std::strong_ordering compare_paths(std::string_view a, std::string_view b) {
  const size_t common = std::min(a.size(), b.size());
  const auto [at, other] =
      std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(common), b.begin());
  if (at == a.begin() + static_cast<ptrdiff_t>(common)) return a.size() <=> b.size();
  if (*at == '/') return std::strong_ordering::less;
  if (*other == '/') return std::strong_ordering::greater;
  return static_cast<unsigned char>(*at) <=> static_cast<unsigned char>(*other);
}

}  // namespace leat
