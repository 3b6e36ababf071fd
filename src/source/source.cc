// SPDX-License-Identifier: Apache-2.0
#include "source/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace leat {
namespace {

Error only_read(const Source& source) {
  return error(StatusCode::kUnsupported,
               fmt::format("cannot change {}: stores of its kind are only read", source.name()));
}

}  // namespace

Task<Result<>> Source::read_scattered(Context context, ReadRequest request,
                                      std::vector<std::span<std::byte>> pieces) {
  std::vector<std::byte> whole(request.range.size);
  Result<> done = co_await read(std::move(context), std::move(request), whole);
  if (!done) co_return done;
  std::span<const std::byte> rest(whole);
  for (std::span<std::byte> piece : pieces) {
    LEAT_CHECK(piece.size() <= rest.size());
    std::ranges::copy(rest.first(piece.size()), piece.begin());
    rest = rest.subspan(piece.size());
  }
  LEAT_CHECK(rest.empty());
  co_return done;
}

Task<Result<SourceObject>> Source::write(Context, WriteRequest, std::span<const std::byte>) {
  co_return only_read(*this);
}

Task<Result<>> ObjectWriter::copy_part(Context, PartCopy from, AttemptTimeouts) {
  co_return error(StatusCode::kUnsupported,
                  fmt::format("cannot copy a part of {}: the store copies none", from.key));
}

Result<ObjectWriterPtr> Source::begin_write(WriteRequest) {
  return only_read(*this);
}

Task<Result<SourceObject>> Source::copy(Context, CopyRequest) {
  co_return only_read(*this);
}

Task<Result<>> Source::rename(Context, RenameRequest) {
  co_return only_read(*this);
}

Task<Result<SourceObject>> Source::set_attributes(Context, AttributesRequest) {
  co_return only_read(*this);
}

Task<Result<>> Source::remove(Context, RemoveRequest) {
  co_return only_read(*this);
}

}  // namespace leat
