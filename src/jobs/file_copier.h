// SPDX-License-Identifier: Apache-2.0
// FileCopier: who copies the files of a copy job, step by step, so that the job keeps the pace.
// Thread-safe.
#pragma once

#include <memory>

#include "base/status.h"
#include "model/byte_range.h"
#include "model/file_ref.h"
#include "peer/copy_request.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

// One file on its way. One step at a time.
class FileCopy {
 public:
  virtual ~FileCopy() = default;
  // The next range, from the file's beginning on, without gaps; an empty file has one, which is
  // empty. kUnavailable: who copied it is lost; another copy of the file may do better.
  virtual Task<Result<CopyStep>> step(Context context, ByteRange range) = 0;
};

class FileCopier {
 public:
  virtual ~FileCopier() = default;
  // `goal.copy` is the copier's to draw.
  virtual std::unique_ptr<FileCopy> begin(FileRefPtr file, CopyGoal goal) = 0;
};

}  // namespace leat
