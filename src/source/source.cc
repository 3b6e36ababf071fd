// SPDX-License-Identifier: Apache-2.0
#include "source/source.h"

#include <fmt/format.h>

namespace leat {
namespace {

Error only_read(const Source& source) {
  return error(StatusCode::kUnsupported,
               fmt::format("cannot change {}: stores of its kind are only read", source.name()));
}

}  // namespace

Task<Result<SourceObject>> Source::write(Context, WriteRequest, std::span<const std::byte>) {
  co_return only_read(*this);
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

Task<Result<>> Source::remove(Context, RemoveRequest) {
  co_return only_read(*this);
}

}  // namespace leat
