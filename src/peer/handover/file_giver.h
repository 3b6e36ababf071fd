// SPDX-License-Identifier: Apache-2.0
// FileGiver: a worker of this host, as those see it who would have its cached files themselves:
// over its socket, or this process itself. Thread-safe.
#pragma once

#include <memory>

#include "peer/read_request.h"
#include "runtime/context.h"
#include "runtime/task.h"
#include "source/file/source_file.h"

namespace leat {

class FileGiver {
 public:
  virtual ~FileGiver() = default;
  // False while it is not to be asked, since it did not answer.
  virtual bool usable() const = 0;
  // The whole of the file in that version, which stays as it is while somebody has it, whatever
  // becomes of the worker; the request's range is not looked at. Errors say why it is not to be
  // had: kNotFound where it is not complete there, is packed with others, or is not for us.
  virtual Task<Result<SourceFilePtr>> open(Context context, PeerReadRequest request) = 0;
};
using FileGiverPtr = std::shared_ptr<FileGiver>;

}  // namespace leat
