// SPDX-License-Identifier: Apache-2.0
// Numbers with what they count, as people read them: "1 file", "3 files".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace leat {

// `noun` for one; with an s for any other number, or `nouns` where that is given.
std::string counted(uint64_t number, std::string_view noun, std::string_view nouns = {});

}  // namespace leat
