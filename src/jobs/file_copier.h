// SPDX-License-Identifier: Apache-2.0
// FileCopier: copies the files of a copy job step by step, so that the job controls the rate.
// Thread-safe.
#pragma once

#include <memory>

#include "base/status.h"
#include "model/byte_range.h"
#include "model/file_ref.h"
#include "runtime/context.h"
#include "runtime/task.h"
#include "wire/copy_request.h"

namespace leat {

// The copy of one file. One step at a time.
class FileCopy {
 public:
  virtual ~FileCopy() = default;
  // Copies the next range. Ranges start at 0 and have no gaps; an empty file has one empty range.
  // Error kUnavailable: the worker that copied it is lost; a new copy of the file may succeed.
  virtual Task<Result<CopyStep>> step(Context context, ByteRange range) = 0;
};

class FileCopier {
 public:
  virtual ~FileCopier() = default;
  // The copier sets `spec.copy`.
  virtual std::unique_ptr<FileCopy> begin(FileRefPtr file, CopySpec spec) = 0;
};

}  // namespace leat
