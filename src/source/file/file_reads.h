// SPDX-License-Identifier: Apache-2.0
// Reads of an open file on a local disk, straight into the caller's memory. Bytes in the page cache
// are read on the caller's thread, the rest by io_uring, or by the FilePool if io_uring is not
// available.
#pragma once

#include "source/source_file.h"

namespace leat {

// Reads what is in the page cache and returns how many bytes of `into`, from its start, were
// filled. Never waits.
size_t read_page_cache(int fd, uint64_t offset, std::span<std::byte> into);
// Returns how many bytes of `into`, from its start, were filled: fewer than all only at the end of
// the file. `into` is not written after the task ended; `file` stays open until then.
Task<Result<size_t>> read_open_file(Context context, SourceFilePtr file, uint64_t offset,
                                    std::span<std::byte> into);

}  // namespace leat
