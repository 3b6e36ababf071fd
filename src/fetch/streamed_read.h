// SPDX-License-Identifier: Apache-2.0
// StreamedRead: a read whose bytes are had as they come, by who passes them on and has no use for
// all of them at once.
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
  // The bytes that follow: a block or the rest is waited for, and what there is beyond it comes
  // along, up to kStreamedBytesMax. None once all were given. An error ends the read; what was
  // given before it is right all the same.
  virtual Task<Result<Bytes>> next(Context context) = 0;
};

using StreamedReadPtr = std::shared_ptr<StreamedRead>;

inline constexpr uint64_t kStreamedBytesMax = 1 << 20;

}  // namespace leat
