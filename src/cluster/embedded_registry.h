// SPDX-License-Identifier: Apache-2.0
// EmbeddedRegistry: a registry in one process, stored in a file; for a single machine.
#pragma once

#include <memory>
#include <string>

#include "cluster/registry.h"
#include "runtime/disk.h"
#include "runtime/executor.h"

namespace leat {

struct EmbeddedRegistryOptions {
  // File, replaced as a whole at each change of entries without a lease. Empty: nothing survives
  // the process.
  std::string path{};
  // Changes kept for watches that begin in the past; older ones are dropped.
  size_t history_max = 1000;
};

class EmbeddedRegistry : public Registry {
 public:
  // Blocks. Reads the file; entries with a lease are not in it, because their owners ended with the
  // process. kCorrupt for a malformed file, kBusy if another process uses it.
  static Result<std::unique_ptr<EmbeddedRegistry>> open(EmbeddedRegistryOptions options,
                                                        std::shared_ptr<Disk> disk,
                                                        Executor& executor);
};

}  // namespace leat
