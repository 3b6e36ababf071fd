// SPDX-License-Identifier: Apache-2.0
// Invariant: one coroutine, serve(), does everything; wake() and cut() only shut the socket down.
#include "http/connection.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>

#include "http/message_parser.h"
#include "http/response_sender.h"
#include "http/stream.h"
#include "http/tls.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter requests_total("leat_http_requests_total", "Requests that were answered");
Counter refused_total("leat_http_refused_total",
                      "Requests refused as broken, too large, too slow, or for too many "
                      "connections");

// Whoever is turned away has so long to say what is asked.
constexpr Clock::duration kTurnedAwayPatience = std::chrono::seconds(1);

// What came of waiting for a request.
struct Incoming {
  std::optional<HttpRequest> request;
  std::optional<HttpResponse> refusal;  // neither: the client is gone or said nothing
  ResponseSender::Terms terms;
};

// "10.0.0.7:40312", "[::1]:40312", or "unix".
std::string peer_of(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (storage.ss_family == AF_INET) {
    const auto* address = reinterpret_cast<const sockaddr_in*>(&storage);
    inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
    return fmt::format("{}:{}", text.data(), ntohs(address->sin_port));
  }
  if (storage.ss_family == AF_INET6) {
    const auto* address = reinterpret_cast<const sockaddr_in6*>(&storage);
    inet_ntop(AF_INET6, &address->sin6_addr, text.data(), text.size());
    return fmt::format("[{}]:{}", text.data(), ntohs(address->sin6_port));
  }
  return "unix";
}

class ConnectionImpl : public Connection, public std::enable_shared_from_this<ConnectionImpl> {
 public:
  ConnectionImpl(Stream::Socket socket, Surroundings around, std::stop_token stopping)
      : stream_(std::make_shared<Stream>(std::move(socket))),
        router_(around.router),
        options_(around.options),
        full_(around.full),
        patience_(full_ ? std::min<Clock::duration>(options_.idle_timeout, kTurnedAwayPatience)
                        : options_.idle_timeout),
        sender_(stream_, options_.write_timeout, around.executor),
        context_(Context::background().with_cancel(stopping)),
        stopping_(std::move(stopping)),
        peer_(peer_of(stream_->fd())) {}

  Task<> serve() override;
  void wake() override {
    Phase waiting = kWaiting;
    if (phase_.compare_exchange_strong(waiting, kWoken)) stream_->end_reading();
  }
  std::optional<Clock::time_point> waits_since() const override {
    if (phase_ != kWaiting) return std::nullopt;
    return Clock::time_point(Clock::duration(waits_since_.load(std::memory_order_relaxed)));
  }
  void cut() override { stream_->cut(Stream::Cut::kCancelled); }

 private:
  enum Phase : uint8_t { kAnswering, kWaiting, kWoken };

  Task<bool> begin();
  Task<> refuse_clear_text();
  Task<> answer_all();
  Task<Incoming> receive();
  Incoming accepted(HttpRequest request, const RequestParser& parser) const;
  Incoming refuse(const ParseFault& fault) const;
  HttpResponse no_place() const;
  Task<> linger();

  void wait_for_client() {
    waits_since_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    phase_ = kWaiting;
  }
  // False when it was woken up meanwhile. A header has come, or nothing is waited for.
  bool header_came() {
    Phase waiting = kWaiting;
    return phase_.compare_exchange_strong(waiting, kAnswering);
  }

  static constexpr size_t kReadAhead = 64 * kKiB;

  const std::shared_ptr<Stream> stream_;
  const HttpRouter& router_;
  const HttpServerOptions& options_;
  const bool full_;
  const Clock::duration patience_;  // for a header and for a body
  ResponseSender sender_;
  const Context context_;
  const std::stop_token stopping_;
  const std::string peer_;
  std::string certificate_;
  std::atomic<Clock::rep> waits_since_ = 0;  // meant while kWaiting
  std::atomic<Phase> phase_ = kAnswering;
};

Task<> ConnectionImpl::serve() {
  auto self = shared_from_this();
  const bool begun = co_await begin();
  if (begun) co_await answer_all();
  stream_->end_writing();
  stream_->close();
}

// The handshake has as long as a header.
Task<bool> ConnectionImpl::begin() {
  if (options_.tls == nullptr) co_return true;
  Result<std::unique_ptr<TlsSession>> session = options_.tls->server_session(stream_->fd());
  if (!session) {
    log::warning("cannot answer {}: {}", peer_, session.error().to_string());
    co_return false;
  }
  stream_->begin_tls(std::move(*session));
  stream_->expires_after(patience_);
  wait_for_client();
  IoResult shaken{.state = IoResult::kEnd};
  if (!stopping_.stop_requested()) shaken = co_await stream_->shake_hands();
  if (!header_came()) co_return false;
  if (shaken.done()) {
    certificate_ = stream_->tls()->peer_name();
    co_return true;
  }
  refused_total.add();
  log::info("no TLS with {}: {}", peer_, stream_->reason(shaken));
  const bool in_clear = stream_->tls()->spoken_to_in_clear();
  stream_->end_tls();
  if (in_clear) co_await refuse_clear_text();
  co_await linger();
  co_return false;
}

// Whoever forgot the "s" of https should be told so and not see noise.
Task<> ConnectionImpl::refuse_clear_text() {
  HttpResponse refusal = HttpResponse::failure(
      400, "invalid_argument", "this port speaks TLS and the request came in clear; use https");
  co_await sender_.send(std::move(refusal), {.keep_alive = false});
}

Task<> ConnectionImpl::answer_all() {
  while (!stopping_.stop_requested()) {
    Incoming incoming = co_await receive();
    stream_->expires_never();
    if (full_ && incoming.request) incoming.refusal = no_place();
    if (incoming.refusal) {
      refused_total.add();
      incoming.terms.keep_alive = false;
      co_await sender_.send(std::move(*incoming.refusal), incoming.terms);
      co_await linger();
      co_return;
    }
    if (!incoming.request) co_return;
    HttpResponse response = co_await router_.handle(context_, std::move(*incoming.request));
    requests_total.add();
    if (stopping_.stop_requested()) incoming.terms.keep_alive = false;
    const bool goes_on = co_await sender_.send(std::move(response), incoming.terms);
    if (!goes_on) co_return;
  }
}

// A header and a body have `idle_timeout` each, however slowly they trickle.
Task<Incoming> ConnectionImpl::receive() {
  HttpRequest request;
  RequestParser parser(request, {options_.header_bytes_max, options_.body_bytes_max});
  InputBuffer& input = stream_->input();
  wait_for_client();
  if (stopping_.stop_requested()) co_return Incoming();
  stream_->expires_after(patience_);
  for (bool header = true;;) {
    if (!input.empty()) {
      input.consume(parser.put(input.filled()));
      if (parser.fault()) co_return refuse(*parser.fault());
    }
    if (header && parser.header_done()) {
      header = false;
      if (!header_came()) co_return Incoming();
      if (!parser.done()) stream_->expires_after(patience_);
    }
    if (parser.done()) co_return accepted(std::move(request), parser);
    const std::span<std::byte> room = input.room(options_.header_bytes_max + kReadAhead);
    if (room.empty()) co_return refuse({ParseFault::kHeaderTooLarge, {}});
    const IoResult got = co_await stream_->read_some(room);
    if (!got.done()) {
      if (stream_->cut_reason() == Stream::Cut::kTimedOut) refused_total.add();
      co_return Incoming();
    }
    input.commit(got.bytes);
  }
}

Incoming ConnectionImpl::accepted(HttpRequest request, const RequestParser& parser) const {
  Incoming incoming;
  incoming.terms = {.keep_alive = parser.keep_alive(),
                    .chunks = parser.knows_chunks(),
                    .head_only = request.method == "HEAD"};
  if (auto parsed = parse_target(request.target, request); !parsed) {
    incoming.refusal =
        HttpResponse::failure(400, to_string(parsed.error().code()), parsed.error().message());
    return incoming;
  }
  request.peer = peer_;
  request.certificate = certificate_;
  incoming.request = std::move(request);
  return incoming;
}

HttpResponse ConnectionImpl::no_place() const {
  return HttpResponse::failure(
      503, "unavailable",
      fmt::format("there are {} connections already, and no more are taken; try again later",
                  options_.connections_max));
}

Incoming ConnectionImpl::refuse(const ParseFault& fault) const {
  Incoming incoming;
  int status = 400;
  std::string why = "this is not an HTTP request: " + fault.reason;
  if (fault.kind == ParseFault::kHeaderTooLarge) {
    status = 431;
    why = "the request's header is larger than " + format_bytes(options_.header_bytes_max);
  } else if (fault.kind == ParseFault::kBodyTooLarge) {
    status = 413;
    why = "the request's body is larger than " + format_bytes(options_.body_bytes_max);
  }
  incoming.refusal = HttpResponse::failure(status, "invalid_argument", why);
  return incoming;
}

// Closing with unread bytes makes the kernel send a reset, which may overtake the refusal that the
// client should see; so take what it still sends, within limits.
Task<> ConnectionImpl::linger() {
  constexpr size_t kBytesMax = 8 * kMiB;
  stream_->end_writing();
  std::vector<std::byte> sink(64 * kKiB);
  stream_->expires_after(std::min<Clock::duration>(patience_, std::chrono::seconds(2)));
  for (size_t taken = 0; taken < kBytesMax;) {
    const IoResult got = co_await stream_->read_some(sink);
    if (!got.done()) co_return;
    taken += got.bytes;
  }
}

}  // namespace

std::shared_ptr<Connection> Connection::create(boost::asio::generic::stream_protocol::socket socket,
                                               Surroundings around, std::stop_token stopping) {
  return std::make_shared<ConnectionImpl>(std::move(socket), around, std::move(stopping));
}

}  // namespace leat
