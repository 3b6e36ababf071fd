// SPDX-License-Identifier: Apache-2.0
// FdProvider: a worker on this host that passes its cached files to readers: over its socket, or in
// this process. Thread-safe.
#pragma once

#include <memory>

#include "runtime/context.h"
#include "runtime/task.h"
#include "source/source_file.h"
#include "wire/read_request.h"

namespace leat {

class FdProvider {
 public:
  virtual ~FdProvider() = default;
  // Returns false during the back-off after a request without an answer.
  virtual bool usable() const = 0;
  // Opens the whole file in the requested version; the request's range is ignored. The content does
  // not change while the file is open, also after the end of the worker. kNotFound: not complete
  // there, packed with others, or not permitted.
  virtual Task<Result<SourceFilePtr>> open(Context context, PeerReadRequest request) = 0;
};
using FdProviderPtr = std::shared_ptr<FdProvider>;

}  // namespace leat
