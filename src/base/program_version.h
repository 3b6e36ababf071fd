// SPDX-License-Identifier: Apache-2.0
// program_version: the version of this program, as in `leat --version`: "0.1.0".
#pragma once

#include <string_view>

namespace leat {

std::string_view program_version();

}  // namespace leat
