// SPDX-License-Identifier: Apache-2.0
// The WorkerServer of a daemon: the peer protocol over HTTP (PeerServer, JobRoutes), and fd passing
// to readers on this host (FdServer).
#pragma once

#include <memory>
#include <string>

#include "base/units.h"
#include "http/endpoint.h"
#include "http/tls.h"
#include "worker/worker_server.h"

namespace leat {

struct WorkerHttpServerOptions {
  HttpEndpoint listen{};
  std::string
      advertise{};  // address for others; empty: `listen`, which must be a real address then
  std::string fd_socket{};  // empty: no fd passing
  std::shared_ptr<const HttpTls> tls{};
  uint64_t response_bytes_max = 64 * kMiB;  // raised to a lower bound
};

// kInvalidArgument if other hosts cannot reach a worker that listens there. Every request is
// signed, so it may listen on any address.
Result<StartWorkerServer> worker_http_server(WorkerHttpServerOptions options);

}  // namespace leat
