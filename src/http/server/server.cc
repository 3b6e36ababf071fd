// SPDX-License-Identifier: Apache-2.0
// Invariant: the accept loop and each connection share ownership of the state; the acceptor is used
// on its strand only.
#include "http/server/server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>

#include "http/listener.h"
#include "http/server/connection.h"
#include "http/server/open_connections.h"
#include "runtime/semaphore.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

namespace asio = boost::asio;
using Protocol = asio::generic::stream_protocol;
using ErrorCode = boost::system::error_code;

Counter address_rejected_total(
    "leat_http_address_rejected_total",
    "Connections rejected because their remote address reached its connection limit");

// Maximum concurrent 503 connections if `overload_rejects_max` is 0.
constexpr unsigned kRejectSlotsMin = 8;
// Idle connections that are evicted when the process has no descriptor for a new one.
constexpr size_t kEvictedForDescriptors = 4;
// While no slot is free, the interval of the server's search for an evictable connection.
constexpr Clock::duration kSlotWait = std::chrono::milliseconds(50);

struct ServerState {
  ServerState(Listener listener, HttpRouter routes, HttpServerOptions limits, Executor& on)
      : endpoint(std::move(listener.endpoint)),
        router(std::move(routes)),
        options(std::move(limits)),
        executor(on),
        strand(asio::make_strand(on.any())),
        acceptor(strand, Protocol(listener.family, 0), listener.fd),
        slots(limits.connections_max),
        rejecting(std::max(limits.overload_rejects_max, kRejectSlotsMin)) {}

  const HttpEndpoint endpoint;
  const HttpRouter router;
  const HttpServerOptions options;
  Executor& executor;
  const asio::any_io_executor strand;
  asio::basic_socket_acceptor<Protocol> acceptor;
  Semaphore slots;
  Semaphore rejecting;  // for rejected connections
  std::stop_source stopping;
  std::shared_ptr<SharedPromise<bool>> drained = SharedPromise<bool>::make();

  OpenConnections connections;
};
using StatePtr = std::shared_ptr<ServerState>;

Task<> serve_one(StatePtr state, std::shared_ptr<Connection> connection, Semaphore::Permit slot) {
  co_await connection->serve();
  if (state->connections.remove(connection)) state->drained->set(true);
}

struct Slot {
  Semaphore::Permit permit;
  bool rejecting = false;
};

// Keeps slots in reserve for new clients by evicting clients that are idle or too slow.
void keep_slots_free(const StatePtr& state) {
  const uint64_t reserve = std::max(state->options.connections_max / 32, 1u);
  if (state->slots.in_use() + reserve <= state->options.connections_max) return;
  state->connections.evict(2 * reserve);
}

// Waits for a slot; no client is accepted without one.
Task<Result<Slot>> acquire_slot(StatePtr state, Context context) {
  if (auto free = state->slots.try_acquire(1)) co_return Slot{.permit = std::move(*free)};
  const bool rejecting = state->options.overload_rejects_max > 0;
  Semaphore& wanted = rejecting ? state->rejecting : state->slots;
  for (;;) {
    keep_slots_free(state);
    Context turn = context.with_timeout(kSlotWait);
    Result<Semaphore::Permit> permit = co_await wanted.acquire(turn, 1, "a slot for a connection");
    if (permit) co_return Slot{.permit = std::move(*permit), .rejecting = rejecting};
    if (permit.error().code() != StatusCode::kTimedOut) co_return Error(permit.error());
  }
}

size_t share_of(const RemoteAddress& address, const HttpServerOptions& options) {
  if (options.connections_per_address_max > 0) return options.connections_per_address_max;
  const unsigned share =
      address.is_loopback ? options.connections_max / 4 * 3 : options.connections_max / 2;
  return std::max(share, 1u);
}

// Returns whether one more connection of this address stays within its share. Evicts one of the
// same address if that helps.
bool within_share(const StatePtr& state, const RemoteAddress& address) {
  if (state->connections.count(address) < share_of(address, state->options)) return true;
  return state->connections.evict_one_of(address);
}

void admit(const StatePtr& state, Protocol::socket socket, Slot slot) {
  // A slot may have become free since.
  if (slot.rejecting) {
    if (auto free = state->slots.try_acquire(1)) slot = {.permit = std::move(*free)};
  }
  std::string full;
  if (slot.rejecting) {
    full = fmt::format("all {} connections are in use; try again later",
                       state->options.connections_max);
  } else if (const auto address = RemoteAddress::of(socket.native_handle());
             !within_share(state, address)) {
    address_rejected_total.add();
    full = fmt::format("{} connections from this address are open, which is the limit; close some",
                       share_of(address, state->options));
    auto permit = state->rejecting.try_acquire(1);
    if (!permit) return;  // closes the socket
    slot = {.permit = std::move(*permit), .rejecting = true};
  }
  ErrorCode ignored;
  if (state->endpoint.unix_path.empty()) socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  auto executor = socket.get_executor();
  Connection::Deps deps{.router = state->router,
                        .options = state->options,
                        .executor = state->executor,
                        .reject_reason = std::move(full)};
  auto connection =
      Connection::create(std::move(socket), std::move(deps), state->stopping.get_token());
  state->connections.add(connection);
  asio::co_spawn(executor, serve_one(state, std::move(connection), std::move(slot.permit)),
                 terminate_on_exception);
}

Task<> accept_loop(StatePtr state) {
  Context context = Context::background().with_cancel(state->stopping.get_token());
  while (!state->stopping.stop_requested()) {
    Result<Slot> slot = co_await acquire_slot(state, context);
    // stop() cancels a pending accept; a later one would wait for ever.
    if (!slot || state->stopping.stop_requested()) break;
    Protocol::socket socket(state->executor.any());
    ErrorCode failed;
    co_await state->acceptor.async_accept(socket,
                                          asio::redirect_error(asio::use_awaitable, failed));
    if (!failed) {
      keep_slots_free(state);
      admit(state, std::move(socket), std::move(*slot));
    } else if (failed == asio::error::operation_aborted) {
      break;
    } else {
      // Mostly out of descriptors: idle connections release theirs, also for other uses.
      state->connections.evict(kEvictedForDescriptors);
      log::warning("cannot accept a connection at {}: {}", state->endpoint.to_string(),
                   failed.message());
      (void)co_await sleep_for(context, std::chrono::milliseconds(100));
    }
  }
  ErrorCode ignored;
  state->acceptor.close(ignored);
  if (state->connections.stop_accepting()) state->drained->set(true);
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
  Context bounded = Context::background().with_timeout(state_->options.stop_timeout);
  auto ended = co_await state_->drained->wait(bounded, "the end of the open connections");
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
  asio::co_spawn(state->strand, accept_loop(state), terminate_on_exception);
  return std::make_unique<HttpServerImpl>(std::move(state));
}

}  // namespace leat
