// SPDX-License-Identifier: Apache-2.0
// A whole cluster on this machine, for trials and tests: etcd, workers, and a mount.
#pragma once

#include <map>
#include <string>

#include "apps/cli/command/command.h"

namespace leat {

inline constexpr unsigned kDevWorkersMax = 32;

struct ClusterDevOptions {
  unsigned workers = 1;
  std::string directory{};                       // empty: a temporary one, removed at the end
  std::string source{};                          // a store to mount; empty: none
  std::map<std::string, std::string> options{};  // options of the source
  std::string registry = "etcd";                 // or "file"
  std::string mountpoint{};                      // mount point of the cluster's namespace; empty:
                                                 // none
};

// Starts the cluster, prints its addresses, and waits for a signal. Always stops all its processes.
// Call it from the main thread before any other thread exists.
CommandResult<> run_cluster_dev(ClusterDevOptions options, bool json);

}  // namespace leat
