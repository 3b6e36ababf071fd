// SPDX-License-Identifier: Apache-2.0
#include "peer/fd_passing/passed_file.h"

#include <fmt/format.h>

#include "source/file/file_reads.h"

namespace leat {

bool PassedFile::try_read(uint64_t offset, std::span<std::byte> into) {
  return read_page_cache(fd_, offset, into) == into.size();
}

Task<Result<>> PassedFile::read(Context context, uint64_t offset, std::span<std::byte> into) {
  // keeps the descriptor open during the kernel's read
  const SourceFilePtr self = shared_from_this();
  Result<size_t> got = co_await read_open_file(context, self, offset, into);
  if (!got) co_return Error(got.error());
  if (*got == into.size()) co_return Result<>();
  co_return error(StatusCode::kOutOfRange,
                  fmt::format("{} bytes at {} are not in a file of {} that a worker passed",
                              into.size(), offset, size_));
}

}  // namespace leat
