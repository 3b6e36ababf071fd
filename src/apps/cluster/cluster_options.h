// SPDX-License-Identifier: Apache-2.0
// What is configured of a cluster and of this host's place in it.
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

// Its part of daemon_schema().
std::vector<Option> cluster_schema();

// Whether this daemon is a worker.
bool in_cluster(const Config& config);

// What `cluster.registry` names; connects to nothing yet. Blocks.
Result<std::unique_ptr<Registry>> open_registry(const Config& config, Executor& executor);

// kInvalidArgument where no other host finds a worker that listens there.
Result<> check_worker_address(const HttpEndpoint& listen, const std::string& advertise);

// TLS between workers and clients, by `worker.ca` and the like; null where none is asked for.
Result<std::shared_ptr<const HttpTls>> worker_tls(const Config& config);

}  // namespace leat
