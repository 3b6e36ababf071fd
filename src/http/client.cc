// SPDX-License-Identifier: Apache-2.0
#include "http/client.h"

#include <fmt/format.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

namespace leat {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using asio::redirect_error;
using asio::use_awaitable;
using ErrorCode = boost::system::error_code;
using Protocol = asio::generic::stream_protocol;
using Stream = beast::basic_stream<Protocol>;
using Parser = bhttp::response_parser<bhttp::buffer_body>;

constexpr size_t kPieceBytes = 256 * kKiB;
constexpr uint32_t kHeaderBytesMax = 64 * kKiB;

// One request on one connection, all of it on the strand of `stream`.
struct Exchange {
  Exchange(asio::any_io_executor strand, HttpEndpoint to, Context with)
      : stream(strand), endpoint(std::move(to)), context(std::move(with)) {}

  Result<> failed(const ErrorCode& reason, const char* doing) const {
    if (!reason) return {};
    std::string what = fmt::format("cannot {} {}", doing, endpoint.to_string());
    if (context.cancelled()) return error(StatusCode::kCancelled, what + ": cancelled");
    if (reason == beast::error::timeout) {
      return error(StatusCode::kTimedOut, what + ": no answer in time");
    }
    return error(StatusCode::kUnavailable, fmt::format("{}: {}", what, reason.message()));
  }

  Stream stream;
  beast::flat_buffer buffer;
  const HttpEndpoint endpoint;
  const Context context;
};
using ExchangePtr = std::shared_ptr<Exchange>;

Task<Result<Protocol::endpoint>> resolve(ExchangePtr exchange) {
  const HttpEndpoint& to = exchange->endpoint;
  if (!to.unix_path.empty()) {
    if (to.unix_path.size() > 107) {  // sizeof(sockaddr_un::sun_path) - 1
      co_return error(StatusCode::kInvalidArgument,
                      fmt::format("socket path {} is longer than 107 characters", to.unix_path));
    }
    co_return Protocol::endpoint(asio::local::stream_protocol::endpoint(to.unix_path));
  }
  asio::ip::tcp::resolver resolver(exchange->stream.get_executor());
  ErrorCode reason;
  std::string port = std::to_string(to.port);
  auto found =
      co_await resolver.async_resolve(to.host, port, redirect_error(use_awaitable, reason));
  if (auto ok = exchange->failed(reason, "resolve"); !ok) co_return Error(ok.error());
  co_return Protocol::endpoint(found.begin()->endpoint());
}

Task<Result<>> connect(ExchangePtr exchange) {
  Result<Protocol::endpoint> address = co_await resolve(exchange);
  if (!address) co_return Error(address.error());
  ErrorCode reason;
  co_await exchange->stream.async_connect(*address, redirect_error(use_awaitable, reason));
  co_return exchange->failed(reason, "connect to");
}

Task<Result<>> send(ExchangePtr exchange, HttpRequest request) {
  bhttp::request<bhttp::string_body> message;
  message.version(11);
  message.method_string(request.method);
  message.target(make_target(request.path, request.query));
  bool is_unix = !exchange->endpoint.unix_path.empty();
  message.set(bhttp::field::host, is_unix ? "localhost" : exchange->endpoint.to_string());
  for (const auto& [name, value] : request.headers.all()) message.set(name, value);
  message.keep_alive(false);
  message.body() = std::move(request.body);
  message.prepare_payload();
  ErrorCode reason;
  co_await bhttp::async_write(exchange->stream, message, redirect_error(use_awaitable, reason));
  // A server that refuses early closes its side while we still write; its answer is what counts.
  if (reason == asio::error::broken_pipe || reason == asio::error::connection_reset) {
    co_return Result<>();
  }
  co_return exchange->failed(reason, "send a request to");
}

HttpResponse head_of(const Parser::value_type& message) {
  HttpResponse response;
  response.status = message.result_int();
  for (const auto& field : message) {
    response.headers.set(std::string(field.name_string()), std::string(field.value()));
  }
  return response;
}

// The next piece of the body; empty at its end.
Task<Result<Bytes>> next_piece(ExchangePtr exchange, std::shared_ptr<Parser> parser) {
  if (parser->is_done()) co_return Bytes();
  Buffer piece(kPieceBytes);
  auto& body = parser->get().body();
  body.data = piece.data();
  body.size = piece.size();
  ErrorCode reason;
  co_await bhttp::async_read(exchange->stream, exchange->buffer, *parser,
                             redirect_error(use_awaitable, reason));
  if (reason && reason != bhttp::error::need_buffer) {
    co_return Error(exchange->failed(reason, "read the answer of").error());
  }
  piece.truncate(kPieceBytes - body.size);
  co_return Bytes(std::move(piece));
}

Task<Result<>> pass_body(ExchangePtr exchange, std::shared_ptr<Parser> parser, BodySink sink) {
  while (!parser->is_done()) {
    Result<Bytes> piece = co_await next_piece(exchange, parser);
    if (!piece) co_return Error(piece.error());
    if (piece->empty()) continue;
    Result<> taken = co_await sink(std::move(*piece));
    if (!taken) co_return taken;
  }
  auto trailer = parser->get().find("leat-error");
  if (trailer == parser->get().end()) co_return Result<>();
  auto reason = percent_decode(std::string(trailer->value()), false);
  co_return error(StatusCode::kUnavailable, reason.value_or("the answer ended early"));
}

Task<Result<>> append_to(std::string* whole, uint64_t bytes_max, Bytes piece) {
  if (whole->size() + piece.size() > bytes_max) {
    co_return error(StatusCode::kOutOfRange,
                    fmt::format("the answer is larger than {}", format_bytes(bytes_max)));
  }
  whole->append(piece.to_string());
  co_return Result<>();
}

BodySink into(std::string* whole, uint64_t bytes_max) {
  return [whole, bytes_max](Bytes piece) { return append_to(whole, bytes_max, std::move(piece)); };
}

// `sink` takes the body of a 2xx answer; without it, and for any other answer, it is gathered.
Task<Result<HttpResponse>> converse(ExchangePtr exchange, HttpRequest request, BodySink sink,
                                    uint64_t bytes_max) {
  std::weak_ptr<Exchange> weak = exchange;
  std::stop_callback stop(exchange->context.cancel, [weak] {
    auto alive = weak.lock();
    if (!alive) return;
    auto executor = alive->stream.get_executor();
    asio::post(executor, [alive] { alive->stream.close(); });
  });
  if (exchange->context.deadline != Clock::time_point::max()) {
    exchange->stream.expires_at(exchange->context.deadline);
  }
  if (auto alive = exchange->context.check("a request"); !alive) co_return Error(alive.error());
  Result<> connected = co_await connect(exchange);
  if (!connected) co_return Error(connected.error());
  Result<> sent = co_await send(exchange, std::move(request));
  if (!sent) co_return Error(sent.error());

  auto parser = std::make_shared<Parser>();
  parser->header_limit(kHeaderBytesMax);
  parser->body_limit(boost::none);
  ErrorCode reason;
  co_await bhttp::async_read_header(exchange->stream, exchange->buffer, *parser,
                                    redirect_error(use_awaitable, reason));
  if (auto ok = exchange->failed(reason, "read the answer of"); !ok) co_return Error(ok.error());

  HttpResponse response = head_of(parser->get());
  if (response.status / 100 != 2 || !sink) sink = into(&response.body, bytes_max);
  Result<> passed = co_await pass_body(exchange, parser, std::move(sink));
  if (!passed) co_return Error(passed.error());
  co_return response;
}

// The timers of a Beast stream need all of it on one strand.
Task<Result<HttpResponse>> run(HttpEndpoint endpoint, Context context, HttpRequest request,
                               BodySink sink, uint64_t bytes_max) {
  auto executor = co_await asio::this_coro::executor;
  asio::any_io_executor strand = asio::make_strand(executor);
  auto exchange = std::make_shared<Exchange>(strand, std::move(endpoint), std::move(context));
  Result<HttpResponse> response = co_await asio::co_spawn(
      strand, converse(exchange, std::move(request), std::move(sink), bytes_max), use_awaitable);
  co_return response;
}

constexpr uint64_t kErrorBytesMax = 1 * kMiB;

}  // namespace

Task<Result<HttpResponse>> HttpClient::request(Context context, HttpRequest request,
                                               uint64_t body_bytes_max) const {
  return run(endpoint_, std::move(context), std::move(request), nullptr, body_bytes_max);
}

Task<Result<HttpResponse>> HttpClient::request_streamed(Context context, HttpRequest request,
                                                        BodySink sink) const {
  return run(endpoint_, std::move(context), std::move(request), std::move(sink), kErrorBytesMax);
}

}  // namespace leat
