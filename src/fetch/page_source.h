// SPDX-License-Identifier: Apache-2.0
// PageSource: the one verb. Every door ends in it, every layer below answers it or passes it on:
// local cache, (later) owner worker, source.
#pragma once

#include <optional>

#include "base/bytes.h"
#include "base/status.h"
#include "model/byte_range.h"
#include "model/file_ref.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

class PageSource {
 public:
  virtual ~PageSource() = default;
  // Exactly `range`, which lies within the file, in the version that `ref` names; kChanged when
  // that version is gone and the bytes are not cached.
  virtual Task<Result<Bytes>> read(Context context, FileRefPtr ref, ByteRange range) = 0;
  // The synchronous twin for bytes in memory or in the page cache; never waits.
  virtual std::optional<Bytes> try_read(const FileRef& ref, ByteRange range) = 0;
};

}  // namespace leat
