// SPDX-License-Identifier: Apache-2.0
// A whole cluster on this machine, for trying and for tests: etcd, workers, and a folder.
#pragma once

#include <map>
#include <string>

#include "apps/command.h"

namespace leat {

inline constexpr unsigned kDevWorkersMax = 32;

struct ClusterDevOptions {
  unsigned workers = 1;
  std::string directory{};                       // empty: a temporary one, which goes with it
  std::string source{};                          // a store for all; empty: none
  std::map<std::string, std::string> options{};  // of it
  std::string registry = "etcd";                 // or "file"
  std::string mountpoint{};                      // of the cluster's namespace; empty: nowhere
};

// Starts it, says what there is, and waits for a signal; ends all of it in any case. Call it from
// main's thread before any other thread is there.
Attempt<> run_cluster_dev(ClusterDevOptions options, bool json);

}  // namespace leat
