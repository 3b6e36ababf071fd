// SPDX-License-Identifier: Apache-2.0
#include "base/pluralize.h"

#include <fmt/format.h>

namespace leat {

std::string pluralize(uint64_t number, std::string_view noun, std::string_view nouns) {
  if (number == 1) return fmt::format("1 {}", noun);
  return nouns.empty() ? fmt::format("{} {}s", number, noun) : fmt::format("{} {}", number, nouns);
}

}  // namespace leat
