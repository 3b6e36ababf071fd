// SPDX-License-Identifier: Apache-2.0
#include "source/part_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace leat {
namespace {

// The part size doubles after each tenth of the maximum number of parts. Ten doublings of 8 MiB
// hold more than any store's largest object.
constexpr uint64_t kDoublings = 10;

}  // namespace

uint64_t PartWriter::part_bytes(const SourceCapabilities& store, uint64_t size, uint64_t number,
                                uint64_t written) {
  const uint64_t share = size / store.parts_max + (size % store.parts_max == 0 ? 0 : 1);
  const uint64_t equal = std::max({kPartBytes, store.part_bytes_min, share});
  if (written < size) return equal;
  const uint64_t of_one_size = std::max<uint64_t>(store.parts_max / kDoublings, 1);
  return equal << std::min(number / of_one_size, kDoublings);
}

Result<PartWriter> PartWriter::begin(Source& source, WriteRequest request, uint64_t size) {
  LEAT_TRY(ObjectWriterPtr writer, source.begin_write(request));
  return PartWriter(source, std::move(request), size, std::move(writer));
}

PartWriter::PartWriter(Source& source, WriteRequest request, uint64_t size, ObjectWriterPtr writer)
    : source_(&source), request_(std::move(request)), size_(size), writer_(std::move(writer)) {}

Task<Result<>> PartWriter::append(Context context, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const uint64_t whole = part_bytes(source_->capabilities(), size_, number_, written_);
    // A full part is sent only when more bytes follow: the last one is sent by complete().
    if (part_.size() >= whole) {
      Result<> sent = co_await send(context);
      if (!sent) co_return sent;
      continue;
    }
    const size_t taken = std::min<uint64_t>(bytes.size(), whole - part_.size());
    part_.insert(part_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(taken));
    bytes = bytes.subspan(taken);
  }
  co_return Result<>();
}

Task<Result<>> PartWriter::send(Context context) {
  if (number_ == source_->capabilities().parts_max) {
    co_return error(StatusCode::kInvalidArgument,
                    fmt::format("cannot write {}/{}: the store takes {} parts, and more bytes than "
                                "were announced have arrived",
                                source_->name(), request_.key, number_));
  }
  Result<> sent = co_await writer_->append(std::move(context), part_, request_.timeouts);
  if (!sent) co_return sent;
  ++number_;
  written_ += part_.size();
  part_.clear();
  co_return Result<>();
}

Task<Result<SourceObject>> PartWriter::complete(Context context) {
  if (!part_.empty()) {
    Result<> sent = co_await send(context);
    if (!sent) co_return Error(sent.error());
  }
  Result<SourceObject> object = co_await writer_->complete(std::move(context), request_.timeouts);
  co_return object;
}

Task<Result<>> PartWriter::abort(Context context) {
  Result<> done = co_await writer_->abort(std::move(context), request_.timeouts);
  co_return done;
}

}  // namespace leat
