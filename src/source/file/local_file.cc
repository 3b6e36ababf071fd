// SPDX-License-Identifier: Apache-2.0
#include "source/file/local_file.h"

#include "source/file/file_reads.h"

namespace leat {

bool LocalFile::try_read(uint64_t offset, std::span<std::byte> into) {
  if (!opened_.check_range(offset, into.size())) return false;
  return read_page_cache(fd(), offset, into) == into.size() &&
         opened_.check_unchanged().has_value();
}

Task<Result<>> LocalFile::read(Context context, uint64_t offset, std::span<std::byte> into) {
  LEAT_CO_CHECK_OK(opened_.check_range(offset, into.size()));
  const SourceFilePtr self = shared_from_this();  // keeps the file open for the kernel
  Result<size_t> got = co_await read_open_file(context, self, offset, into);
  if (!got) co_return error(got.error().with_context("cannot read " + opened_.path));
  if (*got < into.size()) co_return Error(opened_.became_shorter());
  co_return opened_.check_unchanged();
}

}  // namespace leat
