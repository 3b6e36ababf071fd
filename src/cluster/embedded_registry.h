// SPDX-License-Identifier: Apache-2.0
// EmbeddedRegistry: the registry of one process, kept in a file: what one machine needs.
#pragma once

#include <memory>
#include <string>

#include "cluster/registry.h"
#include "runtime/disk.h"
#include "runtime/executor.h"

namespace leat {

struct EmbeddedRegistryOptions {
  // Replaced as a whole at each change of what has no lease; empty: nothing outlives the process.
  std::string path{};
  // Changes that a watch can begin before; older ones are forgotten.
  size_t history_max = 1000;
};

class EmbeddedRegistry : public Registry {
 public:
  // Blocks. What the file holds; entries with a lease are not in it, since whoever held one is
  // gone. kCorrupt for a file that is none, kBusy when another process has it.
  static Result<std::unique_ptr<EmbeddedRegistry>> open(EmbeddedRegistryOptions options,
                                                        std::shared_ptr<Disk> disk,
                                                        Executor& executor);
};

}  // namespace leat
