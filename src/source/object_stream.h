// SPDX-License-Identifier: Apache-2.0
// ObjectStream: an object of any size from bytes in any pieces. It makes the parts that the store
// takes: equal ones as long as the size keeps what was said of it, since some stores want that;
// growing ones where nothing was said, so that they are never too many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "source/source.h"

namespace leat {

class ObjectStream {
 public:
  static constexpr uint64_t kPartBytes = 8 * 1024 * 1024;

  // `size`: how many bytes will come, zero if nobody knows; more may come, or fewer. Asks nothing
  // of the store. `source` outlives the stream.
  static Result<ObjectStream> begin(Source& source, WriteRequest request, uint64_t size = 0);

  // After a failure nothing but abandon() is left, which also is what destroying the stream does,
  // in the background.
  Task<Result<>> append(Context context, std::span<const std::byte> bytes);
  Task<Result<SourceObject>> finish(Context context);
  Task<Result<>> abandon(Context context);

  // Bytes of the part with this number, from 0, `begun` bytes being in those before it.
  static uint64_t part_bytes(const SourceCapabilities& store, uint64_t size, uint64_t number,
                             uint64_t begun);

 private:
  ObjectStream(Source& source, WriteRequest request, uint64_t size, ObjectWriterPtr writer);

  Task<Result<>> send(Context context);

  Source* source_;
  WriteRequest request_;
  uint64_t size_;
  ObjectWriterPtr writer_;
  std::vector<std::byte> part_;
  uint64_t number_ = 0;
  uint64_t begun_ = 0;
};

}  // namespace leat
