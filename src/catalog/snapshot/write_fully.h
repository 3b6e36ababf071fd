// SPDX-License-Identifier: Apache-2.0
// Writes all of `bytes` at `offset`, with as many calls as needed; `what` is for the message.
// Blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "runtime/disk.h"

namespace leat {

Result<> write_fully(const File& file, std::string_view bytes, uint64_t offset,
                     const std::string& what);

// Creates a file in `folder` that is removed with its last descriptor and mapping.
Result<File> open_unnamed(const std::string& folder);

}  // namespace leat
