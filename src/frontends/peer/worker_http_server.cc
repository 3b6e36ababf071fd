// SPDX-License-Identifier: Apache-2.0
#include "frontends/peer/worker_http_server.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontends/peer/job_routes.h"
#include "frontends/peer/peer_server.h"
#include "http/server/server.h"
#include "peer/fd_passing/fd_server.h"
#include "telemetry/log.h"
#include "wire/batch.h"

namespace leat {
namespace {

constexpr unsigned kConnectionsMax = 8'192;
constexpr unsigned kOverloadRejectsMax = 256;
// Bound of a request body: a batch, or invalidations from another worker.
constexpr uint64_t kBodyBytesMax = kBatchRequestBytesMax;

Result<> check_address(const HttpEndpoint& listen, const std::string& advertise) {
  if (!listen.unix_path.empty()) {
    return error(StatusCode::kInvalidArgument, "worker.listen is an address, HOST:PORT");
  }
  const bool any = listen.host == "0.0.0.0" || listen.host == "::";
  if (any && advertise.empty()) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("a worker that listens at {} has to say where others find it: set "
                             "worker.advertise (--advertise HOST:PORT)",
                             listen.to_string()));
  }
  return {};
}

class WorkerHttpServer : public WorkerServer {
 public:
  WorkerHttpServer(const WorkerHttpServerOptions& options, const WorkerServerDeps& deps)
      : peer_server_({.service = deps.service,
                      .views = deps.views,
                      .changes = deps.invalidations,
                      .verifier = deps.verifier,
                      .view_is_current = deps.view_is_current,
                      .on_invalidations = deps.on_invalidations,
                      .snapshots = &deps.snapshots,
                      // Memory for responses has a lower bound, however small that of reads is.
                      .response_memory = {.bytes_max = std::max(options.response_bytes_max,
                                                                4 * kServiceReadBytesMax)}}),
        job_routes_(peer_server_, deps.views) {}

  Result<> start(const WorkerHttpServerOptions& options, Executor& executor) {
    HttpServerOptions serving{.body_bytes_max = kBodyBytesMax,
                              .connections_max = kConnectionsMax,
                              .overload_rejects_max = kOverloadRejectsMax,
                              .tls = options.tls};
    HttpRouter router = peer_server_.router();
    job_routes_.add_to(router);
    LEAT_TRY(server_, HttpServer::start(options.listen, std::move(router), serving, executor));
    if (!options.fd_socket.empty()) start_fd_server(options.fd_socket, executor);
    return {};
  }

  std::string address() const override { return server_->endpoint().to_string(); }
  std::string fd_socket() const override { return fd_server_ ? fd_server_->path() : ""; }
  void set_job_store(ClusterJobStore& store) override { job_routes_.set_store(store); }
  Task<> stop() override {
    co_await server_->stop();
    if (fd_server_) co_await fd_server_->stop();
  }

 private:
  // Without fd passing, readers fetch bytes. So a failure here does not stop the worker.
  void start_fd_server(const std::string& path, Executor& executor) {
    FdHandler handler = [this](Context context, HttpRequest request) {
      return peer_server_.descriptor(std::move(context), std::move(request));
    };
    Result<std::unique_ptr<FdServer>> server =
        FdServer::start(path, std::move(handler), {}, executor);
    if (server) {
      fd_server_ = *std::move(server);
    } else {
      log::warning("no fd passing to readers on this host: {}", server.error().to_string());
    }
  }

  PeerServer peer_server_;
  JobRoutes job_routes_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<FdServer> fd_server_;  // null without fd passing
};

}  // namespace

Result<StartWorkerServer> worker_http_server(WorkerHttpServerOptions options) {
  LEAT_CHECK_OK(check_address(options.listen, options.advertise));
  return
      [options = std::move(options)](const WorkerServerDeps& deps,
                                     Executor& executor) -> Result<std::unique_ptr<WorkerServer>> {
        auto server = std::make_unique<WorkerHttpServer>(options, deps);
        LEAT_CHECK_OK(server->start(options, executor));
        return server;
      };
}

}  // namespace leat
