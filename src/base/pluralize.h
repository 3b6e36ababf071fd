// SPDX-License-Identifier: Apache-2.0
// Formats numbers together with the noun that they count: "1 file", "3 files".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace leat {

// Uses `noun` for 1. For any other number it uses `nouns`, or `noun` with an "s" if `nouns` is
// empty.
std::string pluralize(uint64_t number, std::string_view noun, std::string_view nouns = {});

}  // namespace leat
