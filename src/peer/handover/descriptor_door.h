// SPDX-License-Identifier: Apache-2.0
// DescriptorDoor: a Unix socket at which readers on this host get a file itself instead of its
// bytes. Who asks, and whether they may, is for its handler to say.
//
// Guarantees: who is given a descriptor can only read; the file counts as used for as long as they
// keep the connection; who sends rubbish, or nothing, or does not go away, holds one of a bounded
// number of places, for a bounded time until there is a lease. Thread-safe.
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

// A regular file that is complete and whose first byte is the object's first, open for as long as
// `owner` is there. The door opens it anew for whom it gives it to.
struct HandedFile {
  std::shared_ptr<const void> owner;
  int fd = -1;
};

// Any error is "not here" to the reader, who asks by HTTP then and hears the reason.
using DescriptorHandler = std::function<Task<Result<HandedFile>>(Context, HttpRequest)>;

struct DescriptorDoorOptions {
  // Everybody on this host may connect, since the token says who they are.
  mode_t mode = 0666;
  // Who has not been answered yet; more wait in the kernel's queue.
  unsigned asking_max = 64;
  // Files that are given and used; past that nothing is given.
  unsigned leases_max = 4096;
  Clock::duration request_timeout = std::chrono::seconds(2);  // for the whole of a request
  Clock::duration answer_timeout = std::chrono::seconds(5);   // of the handler
};

class DescriptorDoor {
 public:
  // Replaces the socket of a door that is gone; kBusy where another one answers there.
  static Result<std::unique_ptr<DescriptorDoor>> start(std::string path, DescriptorHandler handler,
                                                       DescriptorDoorOptions options,
                                                       Executor& executor);
  virtual ~DescriptorDoor() = default;

  virtual const std::string& path() const = 0;
  // Files that are given now.
  virtual unsigned leases() const = 0;
  // Ends all connections; what was given stays open with whom it was given to. Must be called
  // before destruction.
  virtual Task<> stop() = 0;
};

}  // namespace leat
