// SPDX-License-Identifier: Apache-2.0
#include "catalog/snapshot/snapshot_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace leat {

Result<> check_snapshot_name(std::string_view name) {
  constexpr size_t kNameBytesMax = 200;
  constexpr std::string_view kOther = "._-";
  const bool fits = !name.empty() && name.size() <= kNameBytesMax && name[0] != '.' &&
                    std::ranges::all_of(name, [&](unsigned char c) {
                      return std::isalnum(c) != 0 || kOther.contains(static_cast<char>(c));
                    });
  if (fits) return {};
  return error(StatusCode::kInvalidArgument,
               fmt::format("'{}' is not a snapshot's name: letters, digits, '.', '_' and '-', not "
                           "beginning with a dot",
                           name));
}

}  // namespace leat
