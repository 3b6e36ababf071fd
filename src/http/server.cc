// SPDX-License-Identifier: Apache-2.0
// Invariant: the state lives as long as the accept loop or any connection, all of which hold it;
// the acceptor is touched on its strand only.
#include "http/server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>

#include "http/connection.h"
#include "http/listener.h"
#include "http/open_connections.h"
#include "runtime/semaphore.h"
#include "telemetry/log.h"

namespace leat {
namespace {

namespace asio = boost::asio;
using Protocol = asio::generic::stream_protocol;
using ErrorCode = boost::system::error_code;

struct ServerState {
  ServerState(Listener listener, HttpRouter routes, HttpServerOptions limits, Executor& on)
      : endpoint(std::move(listener.endpoint)),
        router(std::move(routes)),
        options(std::move(limits)),
        executor(on),
        strand(asio::make_strand(on.any())),
        acceptor(strand, Protocol(listener.family, 0), listener.fd),
        places(limits.connections_max),
        standing(limits.turned_away_max) {}

  const HttpEndpoint endpoint;
  const HttpRouter router;
  const HttpServerOptions options;
  Executor& executor;
  const asio::any_io_executor strand;
  asio::basic_socket_acceptor<Protocol> acceptor;
  Semaphore places;
  Semaphore standing;  // of those who are turned away
  std::stop_source stopping;
  std::shared_ptr<SharedResult<bool>> drained = SharedResult<bool>::make();

  OpenConnections connections;
};
using StatePtr = std::shared_ptr<ServerState>;

Task<> serve_one(StatePtr state, std::shared_ptr<Connection> connection, Semaphore::Permit place) {
  co_await connection->serve();
  if (state->connections.remove(connection)) state->drained->set(true);
}

struct Place {
  Semaphore::Permit permit;
  bool standing = false;
};

// Without one nobody is accepted.
Task<Result<Place>> find_place(StatePtr state, Context context) {
  if (auto free = state->places.try_acquire(1)) co_return Place{.permit = std::move(*free)};
  const bool standing = state->options.turned_away_max > 0;
  Semaphore& wanted = standing ? state->standing : state->places;
  Result<Semaphore::Permit> permit =
      co_await wanted.acquire(context, 1, "a place for a connection");
  if (!permit) co_return Error(permit.error());
  co_return Place{.permit = std::move(*permit), .standing = standing};
}

// Who comes finds a place that somebody has left who asked nothing, rather than none.
void keep_places_free(const StatePtr& state) {
  const uint64_t reserve = std::max(state->options.connections_max / 32, 1u);
  if (state->places.in_use() + reserve <= state->options.connections_max) return;
  state->connections.end_idlest(2 * reserve);
}

void welcome(const StatePtr& state, Protocol::socket socket, Place place) {
  // One may have become free while we waited for somebody to come.
  if (place.standing) {
    if (auto free = state->places.try_acquire(1)) place = {.permit = std::move(*free)};
  }
  ErrorCode ignored;
  if (state->endpoint.unix_path.empty()) socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  auto executor = socket.get_executor();
  Connection::Surroundings around{.router = state->router,
                                  .options = state->options,
                                  .executor = state->executor,
                                  .full = place.standing};
  auto connection = Connection::create(std::move(socket), around, state->stopping.get_token());
  state->connections.add(connection);
  asio::co_spawn(executor, serve_one(state, std::move(connection), std::move(place.permit)),
                 end_process_for);
}

Task<> accept_loop(StatePtr state) {
  Context context = Context::background().with_cancel(state->stopping.get_token());
  while (!state->stopping.stop_requested()) {
    Result<Place> place = co_await find_place(state, context);
    // stop() cancels the accept that it finds; one that begins later would wait for ever.
    if (!place || state->stopping.stop_requested()) break;
    Protocol::socket socket(state->executor.any());
    ErrorCode failed;
    co_await state->acceptor.async_accept(socket,
                                          asio::redirect_error(asio::use_awaitable, failed));
    if (!failed) {
      keep_places_free(state);
      welcome(state, std::move(socket), std::move(*place));
    } else if (failed == asio::error::operation_aborted) {
      break;
    } else {
      // Out of descriptors, mostly: let those who have one end.
      log::warning("cannot accept a connection at {}: {}", state->endpoint.to_string(),
                   failed.message());
      (void)co_await sleep_for(context, std::chrono::milliseconds(100));
    }
  }
  ErrorCode ignored;
  state->acceptor.close(ignored);
  if (state->connections.close_door()) state->drained->set(true);
}

class HttpServerImpl : public HttpServer {
 public:
  explicit HttpServerImpl(StatePtr state) : state_(std::move(state)) {}

  const HttpEndpoint& endpoint() const override { return state_->endpoint; }
  Task<> stop() override;

 private:
  const StatePtr state_;
};

Task<> HttpServerImpl::stop() {
  state_->stopping.request_stop();
  if (!state_->endpoint.unix_path.empty()) unlink(state_->endpoint.unix_path.c_str());
  asio::post(state_->strand, [state = state_] {
    ErrorCode ignored;
    state->acceptor.cancel(ignored);
  });
  for (auto& connection : state_->connections.all()) connection->wake();
  Context patience = Context::background().with_timeout(state_->options.stop_timeout);
  auto ended = co_await state_->drained->wait(patience, "the end of the open connections");
  if (ended) co_return;
  for (auto& connection : state_->connections.all()) connection->cut();
  (void)co_await state_->drained->wait(Context::background(), "the end of the cut connections");
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpEndpoint endpoint, HttpRouter router,
                                                      HttpServerOptions options,
                                                      Executor& executor) {
  if (options.tls != nullptr && !options.tls->has_certificate()) {
    return error(
        StatusCode::kInvalidArgument,
        fmt::format("cannot listen at {} with TLS: a server needs a certificate and its key",
                    endpoint.to_string()));
  }
  LEAT_TRY(Listener listener, open_listener(std::move(endpoint)));
  auto state = std::make_shared<ServerState>(std::move(listener), std::move(router),
                                             std::move(options), executor);
  asio::co_spawn(state->strand, accept_loop(state), end_process_for);
  return std::make_unique<HttpServerImpl>(std::move(state));
}

}  // namespace leat
