// SPDX-License-Identifier: Apache-2.0
// Invariant: everything here runs on the socket's strand, so a connection needs no lock; wake() and
// cut() only post there.
#include "http/connection.h"

#include <fmt/format.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/buffers_prefix.hpp>
#include <boost/beast/core/buffers_suffix.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using asio::redirect_error;
using asio::use_awaitable;
using ErrorCode = boost::system::error_code;
using Stream = beast::basic_stream<asio::generic::stream_protocol>;

Counter requests_total("leat_http_requests_total", "Requests that were answered");
Counter refused_total("leat_http_refused_total",
                      "Requests refused as broken, too large or too slow");

std::string_view view(beast::string_view text) {
  return {text.data(), text.size()};
}

Result<> to_result(const ErrorCode& failed, const char* what) {
  if (!failed) return {};
  if (failed == beast::error::timeout) {
    return error(StatusCode::kTimedOut, fmt::format("{}: the client took too long", what));
  }
  return error(StatusCode::kUnavailable, fmt::format("{}: {}", what, failed.message()));
}

std::vector<asio::const_buffer> buffers_of(const Bytes& data) {
  std::vector<asio::const_buffer> buffers;
  buffers.reserve(data.slices().size());
  for (const Slice& slice : data.slices()) buffers.emplace_back(slice.data, slice.size);
  return buffers;
}

// What came of waiting for a request.
struct Incoming {
  std::optional<HttpRequest> request;
  std::optional<HttpResponse> refusal;  // neither: the client is gone or said nothing
  bool keep_alive = false;
  bool chunks = true;  // HTTP/1.0 does not know them
  bool head = false;   // HEAD: an answer without its body
};

class ConnectionImpl : public Connection, public std::enable_shared_from_this<ConnectionImpl> {
 public:
  ConnectionImpl(asio::generic::stream_protocol::socket socket, const HttpRouter& router,
                 const HttpServerOptions& options, std::stop_token stopping)
      : stream_(std::move(socket)),
        buffer_(options.header_bytes_max + kReadAhead),
        router_(router),
        options_(options),
        stopping_(std::move(stopping)) {}

  Task<> serve() override;
  void wake() override {
    asio::post(stream_.get_executor(), [self = shared_from_this()] {
      if (self->waiting_) self->stream_.cancel();
    });
  }
  void cut() override {
    asio::post(stream_.get_executor(), [self = shared_from_this()] { self->stream_.close(); });
  }

  Task<Result<>> write_chunk(Bytes data, bool chunked);

 private:
  using Parser = bhttp::request_parser<bhttp::string_body>;

  Task<Incoming> receive();
  Incoming refuse(const ErrorCode& failed) const;
  void give_time_to_write();
  template <class Buffers>
  Task<ErrorCode> write_all(Buffers buffers);
  Task<bool> send(HttpResponse response, bool keep_alive, bool chunks);
  Task<bool> send_head(HttpResponse response, bool keep_alive);
  Task<bool> send_stream(HttpResponse response, bool keep_alive, bool chunks);
  Task<> linger();
  bhttp::response<bhttp::string_body> make_head(const HttpResponse& response,
                                                bool keep_alive) const;

  static constexpr size_t kReadAhead = 64 * kKiB;
  static constexpr size_t kPieceBytes = 64 * kKiB;  // that a client must take in one timeout

  Stream stream_;
  beast::flat_buffer buffer_;
  const HttpRouter& router_;
  const HttpServerOptions& options_;
  const std::stop_token stopping_;
  bool waiting_ = false;  // for a request's first byte
};

class ChunkWriter : public BodyWriter {
 public:
  ChunkWriter(std::shared_ptr<ConnectionImpl> connection, bool chunked)
      : connection_(std::move(connection)), chunked_(chunked) {}

  Task<Result<>> write(Bytes data) override {
    return connection_->write_chunk(std::move(data), chunked_);
  }

 private:
  const std::shared_ptr<ConnectionImpl> connection_;
  const bool chunked_;
};

Task<> ConnectionImpl::serve() {
  auto self = shared_from_this();
  while (!stopping_.stop_requested()) {
    Incoming incoming = co_await receive();
    if (incoming.refusal) {
      refused_total.add();
      co_await send(std::move(*incoming.refusal), false, incoming.chunks);
      co_await linger();
      break;
    }
    if (!incoming.request) break;
    Context context = Context::background().with_cancel(stopping_);
    HttpResponse response = co_await router_.handle(context, std::move(*incoming.request));
    requests_total.add();
    bool keep_alive = incoming.keep_alive && !stopping_.stop_requested();
    bool sent = false;
    if (incoming.head || response.status == 304) {
      sent = co_await send_head(std::move(response), keep_alive);
    } else {
      sent = co_await send(std::move(response), keep_alive, incoming.chunks);
    }
    if (!sent || !keep_alive) break;
  }
  ErrorCode ignored;
  stream_.socket().shutdown(asio::socket_base::shutdown_send, ignored);
  stream_.close();
}

// A header and a body have `idle_timeout` each, however slowly they trickle.
Task<Incoming> ConnectionImpl::receive() {
  Parser parser;
  parser.header_limit(options_.header_bytes_max);
  parser.body_limit(options_.body_bytes_max);
  ErrorCode failed;
  waiting_ = true;
  stream_.expires_after(options_.idle_timeout);
  co_await bhttp::async_read_header(stream_, buffer_, parser,
                                    redirect_error(use_awaitable, failed));
  waiting_ = false;
  if (!failed) {
    stream_.expires_after(options_.idle_timeout);
    co_await bhttp::async_read(stream_, buffer_, parser, redirect_error(use_awaitable, failed));
  }
  if (failed) co_return refuse(failed);

  Incoming incoming;
  auto& message = parser.get();
  incoming.keep_alive = message.keep_alive();
  incoming.chunks = message.version() >= 11;
  HttpRequest request;
  request.method = std::string(view(message.method_string()));
  incoming.head = request.method == "HEAD";
  if (auto parsed = parse_target(view(message.target()), request); !parsed) {
    incoming.refusal =
        HttpResponse::failure(400, to_string(parsed.error().code()), parsed.error().message());
    co_return incoming;
  }
  for (const auto& field : message) {
    request.headers.set(std::string(view(field.name_string())), std::string(view(field.value())));
  }
  request.body = std::move(message.body());
  incoming.request = std::move(request);
  co_return incoming;
}

Incoming ConnectionImpl::refuse(const ErrorCode& failed) const {
  Incoming incoming;
  if (failed == bhttp::error::header_limit || failed == bhttp::error::buffer_overflow) {
    incoming.refusal = HttpResponse::failure(431, "invalid_argument",
                                             fmt::format("the request's header is larger than {}",
                                                         format_bytes(options_.header_bytes_max)));
  } else if (failed == bhttp::error::body_limit) {
    incoming.refusal = HttpResponse::failure(
        413, "invalid_argument",
        fmt::format("the request's body is larger than {}", format_bytes(options_.body_bytes_max)));
  } else if (failed.category() == bhttp::make_error_code(bhttp::error::bad_method).category() &&
             failed != bhttp::error::end_of_stream && failed != bhttp::error::partial_message) {
    incoming.refusal = HttpResponse::failure(400, "invalid_argument",
                                             "this is not an HTTP request: " + failed.message());
  } else if (failed == beast::error::timeout) {
    refused_total.add();
  }
  return incoming;
}

bhttp::response<bhttp::string_body> ConnectionImpl::make_head(const HttpResponse& response,
                                                              bool keep_alive) const {
  bhttp::response<bhttp::string_body> head;
  head.version(11);
  head.result(static_cast<unsigned>(response.status));
  for (const auto& [name, value] : response.headers.all()) head.insert(name, value);
  head.keep_alive(keep_alive);
  return head;
}

void ConnectionImpl::give_time_to_write() {
  if (options_.write_timeout == Clock::duration::max()) {
    stream_.expires_never();
  } else {
    stream_.expires_after(options_.write_timeout);
  }
}

// A slow client is none that has gone: each piece that it takes gives it time for the next.
template <class Buffers>
Task<ErrorCode> ConnectionImpl::write_all(Buffers buffers) {
  beast::buffers_suffix<Buffers> left(std::move(buffers));
  ErrorCode failed;
  while (!failed && beast::buffer_bytes(left) != 0) {
    give_time_to_write();
    size_t taken = co_await stream_.async_write_some(beast::buffers_prefix(kPieceBytes, left),
                                                     redirect_error(use_awaitable, failed));
    left.consume(taken);
  }
  co_return failed;
}

// True when the answer went out whole.
Task<bool> ConnectionImpl::send(HttpResponse response, bool keep_alive, bool chunks) {
  if (response.stream) {
    bool sent = co_await send_stream(std::move(response), keep_alive, chunks);
    co_return sent;
  }
  auto message = make_head(response, keep_alive);
  message.body() = std::move(response.body);
  message.prepare_payload();
  ErrorCode failed;
  give_time_to_write();
  co_await bhttp::async_write(stream_, message, redirect_error(use_awaitable, failed));
  co_return !failed;
}

// To HEAD the length that GET would have had (RFC 9110, 9.3.2), where it is known; with 304 none.
Task<bool> ConnectionImpl::send_head(HttpResponse response, bool keep_alive) {
  auto message = make_head(response, keep_alive);
  if (!response.stream && response.status != 304) message.content_length(response.body.size());
  bhttp::response_serializer<bhttp::string_body> head(message);
  ErrorCode failed;
  give_time_to_write();
  co_await bhttp::async_write_header(stream_, head, redirect_error(use_awaitable, failed));
  co_return !failed;
}

Task<bool> ConnectionImpl::send_stream(HttpResponse response, bool keep_alive, bool chunks) {
  auto message = make_head(response, keep_alive && chunks);
  if (chunks) {
    message.chunked(true);
    message.set(bhttp::field::trailer, "leat-error");
  }
  bhttp::response_serializer<bhttp::string_body> head(message);
  ErrorCode failed;
  give_time_to_write();
  co_await bhttp::async_write_header(stream_, head, redirect_error(use_awaitable, failed));
  if (failed) co_return false;

  std::shared_ptr<BodyWriter> writer = std::make_shared<ChunkWriter>(shared_from_this(), chunks);
  Result<> produced = co_await response.stream(std::move(writer));
  if (!produced) log::info("an answer ended early: {}", produced.error().to_string());
  if (!chunks) co_return false;  // the close is the end mark

  bhttp::fields trailer;
  if (!produced) trailer.set("leat-error", percent_encode(produced.error().to_string()));
  failed = co_await write_all(bhttp::make_chunk_last(trailer));
  co_return produced && !failed;
}

Task<Result<>> ConnectionImpl::write_chunk(Bytes data, bool chunked) {
  if (data.empty()) co_return Result<>();  // an empty chunk would end the body
  auto self = shared_from_this();
  std::vector<asio::const_buffer> buffers = buffers_of(data);
  ErrorCode failed;
  if (chunked) {
    failed = co_await write_all(bhttp::make_chunk(buffers));
  } else {
    failed = co_await write_all(buffers);
  }
  co_return to_result(failed, "cannot send an answer");
}

// Closing with unread bytes makes the kernel send a reset, which may overtake the refusal that the
// client should see; so take what it still sends, within limits.
Task<> ConnectionImpl::linger() {
  constexpr size_t kBytesMax = 8 * kMiB;
  ErrorCode failed;
  stream_.socket().shutdown(asio::socket_base::shutdown_send, failed);
  std::vector<std::byte> sink(64 * kKiB);
  stream_.expires_after(std::min<Clock::duration>(options_.idle_timeout, std::chrono::seconds(2)));
  for (size_t taken = 0; !failed && taken < kBytesMax;) {
    taken +=
        co_await stream_.async_read_some(asio::buffer(sink), redirect_error(use_awaitable, failed));
  }
}

}  // namespace

std::shared_ptr<Connection> Connection::create(asio::generic::stream_protocol::socket socket,
                                               const HttpRouter& router,
                                               const HttpServerOptions& options,
                                               std::stop_token stopping) {
  return std::make_shared<ConnectionImpl>(std::move(socket), router, options, std::move(stopping));
}

}  // namespace leat
