// SPDX-License-Identifier: Apache-2.0
// FdServer: a Unix socket that passes cached files as descriptors to readers on this host.
// The handler identifies and authorizes the reader.
//
// Guarantees: a passed descriptor is read-only. The file counts as used while the reader keeps the
// connection. A bad, silent or lingering client holds one of a bounded number of slots, for a
// bounded time until it has a lease. Thread-safe.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "http/message.h"
#include "runtime/context.h"
#include "runtime/executor.h"
#include "runtime/task.h"

namespace leat {

// A complete regular file that begins with the object's first byte; open while `owner` lives. The
// server reopens it for each reader.
struct PassedFd {
  std::shared_ptr<const void> owner;
  int fd = -1;
};

// The reader sees any error as "not here", reads by HTTP and gets the reason there.
using FdHandler = std::function<Task<Result<PassedFd>>(Context, HttpRequest)>;

struct FdServerOptions {
  // All users of this host may connect; the token authenticates them.
  mode_t mode = 0666;
  // Connections without an answer yet; more wait in the kernel's queue.
  unsigned pending_max = 64;
  // Passed files in use; beyond this limit no file is passed.
  unsigned leases_max = 4096;
  Clock::duration request_timeout = std::chrono::seconds(2);  // for receiving a whole request
  Clock::duration answer_timeout = std::chrono::seconds(5);   // for the handler
};

class FdServer {
 public:
  // Replaces a stale socket file. kBusy if another process answers at it.
  static Result<std::unique_ptr<FdServer>> start(std::string path, FdHandler handler,
                                                 FdServerOptions options, Executor& executor);
  virtual ~FdServer() = default;

  virtual const std::string& path() const = 0;
  // Returns the number of passed files in use.
  virtual unsigned leases() const = 0;
  // Closes all connections; readers keep the descriptors that they have. Must be called before
  // destruction.
  virtual Task<> stop() = 0;
};

}  // namespace leat
