// SPDX-License-Identifier: Apache-2.0
// PartWriter: writes an object of any size from byte pieces of any size. It cuts them into the
// parts that the store accepts. Parts are equal while the object has the announced size, since some
// stores require that; without one they grow, so that they never become too many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "source/source.h"

namespace leat {

class PartWriter {
 public:
  static constexpr uint64_t kPartBytes = 8 * 1024 * 1024;

  // Starts a write; sends nothing to the store. `size` is the expected number of bytes, zero if
  // unknown; more or fewer may follow. `source` outlives the writer.
  static Result<PartWriter> begin(Source& source, WriteRequest request, uint64_t size = 0);

  // After a failure only abort() may be called; destroying the writer does that in the
  // background.
  Task<Result<>> append(Context context, std::span<const std::byte> bytes);
  Task<Result<SourceObject>> complete(Context context);
  Task<Result<>> abort(Context context);

  // Returns the size of part `number` (from 0); the parts before it have `written` bytes together.
  static uint64_t part_bytes(const SourceCapabilities& store, uint64_t size, uint64_t number,
                             uint64_t written);

 private:
  PartWriter(Source& source, WriteRequest request, uint64_t size, ObjectWriterPtr writer);

  Task<Result<>> send(Context context);

  Source* source_;
  WriteRequest request_;
  uint64_t size_;
  ObjectWriterPtr writer_;
  std::vector<std::byte> part_;
  uint64_t number_ = 0;
  uint64_t written_ = 0;
};

}  // namespace leat
