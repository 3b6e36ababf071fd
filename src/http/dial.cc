// SPDX-License-Identifier: Apache-2.0
// The part of ClientPool that makes connections.
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include "http/client_pool.h"
#include "http/tls.h"
#include "http/tls_session.h"
#include "runtime/shared_promise.h"

namespace leat {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
using Address = asio::generic::stream_protocol::endpoint;
using Addresses = std::vector<Address>;

Result<Addresses> unix_address(const std::string& path) {
  if (path.size() > 107) {  // sizeof(sockaddr_un::sun_path) - 1
    return error(StatusCode::kInvalidArgument,
                 fmt::format("socket path {} is longer than 107 characters", path));
  }
  return Addresses{asio::local::stream_protocol::endpoint(path)};
}

// The wait ends with the context; the system's resolver cannot be interrupted.
Task<Result<Addresses>> look_up(HttpEndpoint endpoint, Context context,
                                asio::any_io_executor executor) {
  auto found = SharedPromise<Addresses>::make();
  auto resolver = std::make_shared<asio::ip::tcp::resolver>(executor);
  resolver->async_resolve(
      endpoint.host, std::to_string(endpoint.port),
      [found, resolver, name = endpoint.to_string()](const ErrorCode& failed, const auto& entries) {
        if (failed) {
          found->set(error(StatusCode::kUnavailable,
                           fmt::format("cannot resolve {}: {}", name, failed.message())));
          return;
        }
        Addresses addresses;
        for (const auto& entry : entries) addresses.emplace_back(entry.endpoint());
        found->set(std::move(addresses));
      });
  Result<Addresses> addresses = co_await found->wait(std::move(context), "a name's resolution");
  co_return addresses;
}

Task<Result<Addresses>> resolve(HttpEndpoint endpoint, Context context,
                                asio::any_io_executor executor) {
  if (!endpoint.unix_path.empty()) co_return unix_address(endpoint.unix_path);
  ErrorCode is_name;
  const auto address = asio::ip::make_address(endpoint.host, is_name);
  if (!is_name) co_return Addresses{asio::ip::tcp::endpoint(address, endpoint.port)};
  Result<Addresses> found = co_await look_up(std::move(endpoint), std::move(context), executor);
  co_return found;
}

// See tcp(7). It also keeps the connection alive in a router that drops silent ones.
void enable_keepalive(int fd) {
  constexpr int kOn = 1, kIdleSeconds = 5, kIntervalSeconds = 2, kProbes = 3;
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleSeconds, sizeof kIdleSeconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kIntervalSeconds, sizeof kIntervalSeconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof kProbes);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof kOn);
}

}  // namespace

Clock::time_point ClientPool::deadline_of_dial(const Context& context) const {
  if (options_.connect_timeout <= Clock::duration::zero()) return context.deadline;
  return std::min(context.deadline, Stream::after(options_.connect_timeout));
}

Status ClientPool::cannot_connect(const Stream& stream, const Context& context,
                                  std::string reason) const {
  const std::string what = fmt::format("cannot connect to {}", name_);
  if (stream.cut_reason() == Stream::Cut::kCancelled) {
    return {StatusCode::kCancelled, what + ": cancelled"};
  }
  if (stream.cut_reason() == Stream::Cut::kTimedOut) {
    if (context.expired()) return {StatusCode::kTimedOut, what + ": no response in time"};
    const auto limit =
        std::chrono::duration_cast<std::chrono::milliseconds>(options_.connect_timeout);
    return {StatusCode::kUnavailable,
            fmt::format("{}: no connection within {} ms", what, limit.count())};
  }
  return {StatusCode::kUnavailable, fmt::format("{}: {}", what, reason)};
}

Task<Result<>> ClientPool::dial(std::shared_ptr<Stream> stream, Context context) {
  Result<> connected = co_await connect(stream, context);
  if (!connected || options_.tls == nullptr) co_return connected;
  Result<> secure = co_await begin_tls(std::move(stream), std::move(context));
  co_return secure;
}

// Connects to the first of a name's addresses that answers.
Task<Result<>> ClientPool::connect(std::shared_ptr<Stream> stream, Context context) {
  Result<Addresses> addresses =
      co_await resolve(endpoint_, context, stream->socket().get_executor());
  if (!addresses) co_return Error(addresses.error());
  stream->expires_at(deadline_of_dial(context));
  ErrorCode failed = asio::error::host_not_found;
  for (const Address& address : *addresses) {
    failed = co_await stream->connect(address);
    if (!failed || stream->cut_reason() != Stream::Cut::kNone) break;
  }
  if (failed || stream->cut_reason() != Stream::Cut::kNone) {
    co_return Error(cannot_connect(*stream, context, failed.message()));
  }
  if (endpoint_.unix_path.empty()) {
    ErrorCode ignored;
    stream->socket().set_option(asio::ip::tcp::no_delay(true), ignored);
    if (options_.tcp_keepalive) enable_keepalive(stream->fd());
  }
  co_return Result<>();
}

Task<Result<>> ClientPool::begin_tls(std::shared_ptr<Stream> stream, Context context) {
  const std::string& host = endpoint_.unix_path.empty() ? endpoint_.host : host_;
  LEAT_CO_TRY(std::unique_ptr<TlsSession> session,
              options_.tls->client_session(stream->fd(), host));
  stream->begin_tls(std::move(session));
  const IoResult shaken = co_await stream->handshake();
  if (shaken.done() && stream->cut_reason() == Stream::Cut::kNone) co_return Result<>();
  if (stream->tls()->certificate_rejected()) {
    co_return error(StatusCode::kPermissionDenied,
                    fmt::format("no TLS with {}: {}; check the CA and the certificates", name_,
                                stream->reason(shaken)));
  }
  co_return Error(
      cannot_connect(*stream, context, fmt::format("no TLS: {}", stream->reason(shaken))));
}

}  // namespace leat
