// SPDX-License-Identifier: Apache-2.0
// Reads of a file that is open on a local disk, straight into the caller's memory: what is in the
// page cache on the caller's thread, the rest by io_uring, or by the FilePool where that is
// refused.
#pragma once

#include "source/file/source_file.h"

namespace leat {

// How much of `into`, from its start, was in the page cache. Never waits.
size_t read_page_cache(int fd, uint64_t offset, std::span<std::byte> into);
// How much of `into` was filled, from its start: less than all of it only at the file's end. `into`
// is not touched any more once the task has ended; `file` stays open for that long.
Task<Result<size_t>> read_open_file(Context context, SourceFilePtr file, uint64_t offset,
                                    std::span<std::byte> into);

}  // namespace leat
