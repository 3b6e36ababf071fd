// SPDX-License-Identifier: Apache-2.0
// The configuration of a cluster, and of this host's part in it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cluster/registry.h"
#include "config/config.h"
#include "http/endpoint.h"
#include "http/tls.h"
#include "runtime/executor.h"

namespace leat {

// Returns the cluster's part of daemon_schema().
std::vector<Option> cluster_schema();

// Returns whether this daemon is a worker.
bool in_cluster(const Config& config);

// Opens the registry that `cluster.registry` names; does not connect yet. Blocks.
Result<std::unique_ptr<Registry>> open_registry(const Config& config, Executor& executor);

// Returns TLS between workers and clients, from `worker.ca` and related options; null if it is off.
Result<std::shared_ptr<const HttpTls>> worker_tls(const Config& config);

}  // namespace leat
