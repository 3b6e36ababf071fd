// SPDX-License-Identifier: Apache-2.0
// StreamedRead: a read that returns bytes as they arrive, for a caller that forwards them and does
// not need all of them at once.
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/status.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

// One call at a time.
class StreamedRead {
 public:
  virtual ~StreamedRead() = default;
  // Returns the next bytes: waits for a block or the rest, and adds the bytes that have arrived
  // beyond it, up to kStreamedBytesMax. Returns none after the last byte. An error ends the read;
  // bytes returned before it remain valid.
  virtual Task<Result<Bytes>> next(Context context) = 0;
};

using StreamedReadPtr = std::shared_ptr<StreamedRead>;

inline constexpr uint64_t kStreamedBytesMax = 1 << 20;

}  // namespace leat
