// SPDX-License-Identifier: Apache-2.0
// PageSource: the read interface. Every frontend ends in it; each layer below serves a read or
// passes it on: local cache, owner worker, source.
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
  // Returns exactly `range`, which lies within the file, in the version of `ref`. Returns
  // kVersionChanged if that version no longer exists and the bytes are not cached.
  virtual Task<Result<Bytes>> read(Context context, FileRefPtr ref, ByteRange range) = 0;
  // Like read(), for bytes in memory or in the page cache; never waits.
  virtual std::optional<Bytes> try_read(const FileRef& ref, ByteRange range) = 0;
};

}  // namespace leat
