// SPDX-License-Identifier: Apache-2.0
// Invariant: one coroutine, serve(), does everything; wake() and cut() only shut the socket down.
#include "http/server/connection.h"

#include <fmt/format.h>

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
Counter rejected_total(
    "leat_http_rejected_total",
    "Requests rejected: malformed, too large, too slow, or too many connections");
Counter slow_total("leat_http_slow_total",
                   "Requests aborted because their head or body arrived too slowly");

// Time for a rejected client to send its request.
constexpr Clock::duration kRejectTimeout = std::chrono::seconds(1);
// Progress of a request.
struct RequestProgress {
  enum Stage : uint8_t { kNothing, kHead, kBody } stage = kNothing;
  Clock::time_point body_begun{};
};

// The result of waiting for a request.
struct Incoming {
  std::optional<HttpRequest> request;
  std::optional<HttpResponse> error_response;  // neither: the client has closed or sent nothing
  ResponseSender::Options options;
};

class ConnectionImpl : public Connection, public std::enable_shared_from_this<ConnectionImpl> {
 public:
  ConnectionImpl(Stream::Socket socket, Deps deps, std::stop_token stopping)
      : stream_(std::make_shared<Stream>(std::move(socket))),
        router_(deps.router),
        options_(deps.options),
        reject_reason_(std::move(deps.reject_reason)),
        idle_timeout_(rejected() ? std::min(options_.idle_timeout, kRejectTimeout)
                                 : options_.idle_timeout),
        head_timeout_(std::min(idle_timeout_, options_.head_timeout)),
        sender_(stream_, options_.write_timeout, deps.executor),
        context_(Context::background().with_cancel(stopping)),
        stopping_(std::move(stopping)),
        address_(RemoteAddress::of(stream_->fd())) {}

  Task<> serve() override;
  void wake() override {
    Phase waiting = kWaiting;
    if (phase_.compare_exchange_strong(waiting, kWoken)) stream_->end_reading();
  }
  std::optional<Clock::time_point> evictable_since() const override;
  bool evict() override;
  void cut() override { stream_->cut(Stream::Cut::kCancelled); }
  const RemoteAddress& address() const override { return address_; }

 private:
  // kWaiting: for a whole head. kReceiving: a body.
  enum Phase : uint8_t { kResponding, kWaiting, kReceiving, kWoken };

  Task<bool> begin();
  Task<> reject_plain_http();
  Task<> serve_requests();
  Task<Incoming> receive();
  bool note_progress(RequestProgress& progress, const RequestParser& parser,
                     const HttpRequest& request);
  static void note_timeout(const RequestProgress& progress);
  Incoming accepted(HttpRequest request, const RequestParser& parser) const;
  Incoming reject(const ParseFault& fault) const;
  Task<> linger();

  bool rejected() const { return !reject_reason_.empty(); }
  void waits_from(Clock::time_point since) {
    waits_since_.store(since.time_since_epoch().count(), std::memory_order_relaxed);
  }
  void wait_for_client() {
    waits_from(Clock::now());
    phase_ = kWaiting;
  }
  // Returns false if it was woken or evicted meanwhile.
  bool move_on(Phase from, Phase to) { return phase_.compare_exchange_strong(from, to); }

  static constexpr size_t kReadAhead = 64 * kKiB;

  const std::shared_ptr<Stream> stream_;
  const HttpRouter& router_;
  const HttpServerOptions& options_;
  const std::string reject_reason_;
  const Clock::duration idle_timeout_;
  const Clock::duration head_timeout_;
  ResponseSender sender_;
  const Context context_;
  const std::stop_token stopping_;
  const RemoteAddress address_;
  std::string certificate_;
  std::atomic<Clock::rep> waits_since_ = 0;  // valid while kWaiting or kReceiving
  std::atomic<Phase> phase_ = kResponding;
};

Task<> ConnectionImpl::serve() {
  auto self = shared_from_this();
  const bool begun = co_await begin();
  if (begun) co_await serve_requests();
  stream_->end_writing();
  stream_->close();
}

std::optional<Clock::time_point> ConnectionImpl::evictable_since() const {
  const Phase phase = phase_;
  if (phase == kWaiting || phase == kReceiving) {
    const Clock::duration since(waits_since_.load(std::memory_order_relaxed));
    return Clock::time_point(since);
  }
  const auto blocked = stream_->blocked_since();
  if (!blocked || options_.write_timeout == Clock::duration::max()) return std::nullopt;
  return *blocked + options_.blocked_min;
}

bool ConnectionImpl::evict() {
  for (const Phase waiting : {kWaiting, kReceiving}) {
    if (!move_on(waiting, kWoken)) continue;
    stream_->end_reading();
    return true;
  }
  if (phase_ == kWoken || !stream_->blocked_since()) return false;
  cut();
  return true;
}

// The handshake has the time limit of a head.
Task<bool> ConnectionImpl::begin() {
  if (options_.tls == nullptr) co_return true;
  Result<std::unique_ptr<TlsSession>> session = options_.tls->server_session(stream_->fd());
  if (!session) {
    log::warning("cannot start TLS with {}: {}", address_.text, session.error().to_string());
    co_return false;
  }
  stream_->begin_tls(std::move(*session));
  stream_->expires_after(head_timeout_);
  wait_for_client();
  IoResult shaken{.state = IoResult::kEnd};
  if (!stopping_.stop_requested()) shaken = co_await stream_->handshake();
  if (!move_on(kWaiting, kResponding)) co_return false;
  if (shaken.done()) {
    certificate_ = stream_->tls()->peer_name();
    co_return true;
  }
  rejected_total.add();
  log::info("no TLS with {}: {}", address_.text, stream_->reason(shaken));
  const bool plaintext = stream_->tls()->peer_sent_plaintext();
  stream_->end_tls();
  if (plaintext) co_await reject_plain_http();
  co_await linger();
  co_return false;
}

// A client that used http instead of https gets a readable error.
Task<> ConnectionImpl::reject_plain_http() {
  HttpResponse error_response = HttpResponse::failure(
      400, "invalid_argument", "this port requires TLS and the request is plain HTTP; use https");
  co_await sender_.send(std::move(error_response), {.keep_alive = false});
}

Task<> ConnectionImpl::serve_requests() {
  while (!stopping_.stop_requested()) {
    Incoming incoming = co_await receive();
    stream_->expires_never();
    if (rejected() && incoming.request) {
      incoming.error_response = HttpResponse::failure(503, "unavailable", reject_reason_);
    }
    if (incoming.error_response) {
      rejected_total.add();
      incoming.options.keep_alive = false;
      co_await sender_.send(std::move(*incoming.error_response), incoming.options);
      co_await linger();
      co_return;
    }
    if (!incoming.request) co_return;
    HttpResponse response = co_await router_.handle(context_, std::move(*incoming.request));
    requests_total.add();
    if (stopping_.stop_requested()) incoming.options.keep_alive = false;
    const bool keep_open = co_await sender_.send(std::move(response), incoming.options);
    if (!keep_open) co_return;
  }
}

// An idle client has `idle_timeout`. From its first byte a head has `head_timeout` in all. A body
// has as much again, and the time of its bytes at the minimum rate. So a client cannot delay either
// by sending a byte now and then.
Task<Incoming> ConnectionImpl::receive() {
  HttpRequest request;
  RequestParser parser(request, {options_.header_bytes_max, options_.body_bytes_max});
  InputBuffer& input = stream_->input();
  wait_for_client();
  if (stopping_.stop_requested()) co_return Incoming();
  stream_->expires_after(idle_timeout_);
  RequestProgress progress;
  for (;;) {
    if (!input.empty()) {
      input.consume(parser.put(input.filled()));
      if (parser.fault()) co_return reject(*parser.fault());
      if (!note_progress(progress, parser, request)) co_return Incoming();
    }
    if (parser.done()) co_return accepted(std::move(request), parser);
    const std::span<std::byte> space = input.prepare(options_.header_bytes_max + kReadAhead);
    if (space.empty()) co_return reject({ParseFault::kHeaderTooLarge, {}});
    const IoResult got = co_await stream_->read_some(space);
    if (!got.done()) {
      if (stream_->cut_reason() == Stream::Cut::kTimedOut) note_timeout(progress);
      co_return Incoming();
    }
    input.commit(got.bytes);
  }
}

// Moves the deadline, and the time since when the client is behind the pace. Returns false if the
// connection was woken or evicted meanwhile.
bool ConnectionImpl::note_progress(RequestProgress& progress, const RequestParser& parser,
                                   const HttpRequest& request) {
  if (progress.stage == RequestProgress::kNothing) {
    progress.stage = RequestProgress::kHead;
    stream_->expires_after(head_timeout_);
  }
  if (!parser.header_done()) return true;
  if (progress.stage == RequestProgress::kHead) {
    if (parser.done()) return move_on(kWaiting, kResponding);
    progress = {.stage = RequestProgress::kBody, .body_begun = Clock::now()};
    waits_from(progress.body_begun);
    if (!move_on(kWaiting, kReceiving)) return false;
  }
  if (parser.done()) return move_on(kReceiving, kResponding);
  const auto earned = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
      static_cast<double>(request.body.size()) / static_cast<double>(options_.body_bytes_s_min)));
  waits_from(progress.body_begun + earned);
  stream_->expires_at(progress.body_begun + head_timeout_ + earned);
  return true;
}

void ConnectionImpl::note_timeout(const RequestProgress& progress) {
  rejected_total.add();
  if (progress.stage != RequestProgress::kNothing) slow_total.add();
}

Incoming ConnectionImpl::accepted(HttpRequest request, const RequestParser& parser) const {
  Incoming incoming;
  incoming.options = {.keep_alive = parser.keep_alive(),
                      .chunks = parser.accepts_chunked(),
                      .head_only = request.method == "HEAD"};
  if (auto parsed = parse_target(request.target, request); !parsed) {
    incoming.error_response =
        HttpResponse::failure(400, to_string(parsed.error().code()), parsed.error().message());
    return incoming;
  }
  request.peer = address_.text;
  request.certificate = certificate_;
  incoming.request = std::move(request);
  return incoming;
}

Incoming ConnectionImpl::reject(const ParseFault& fault) const {
  Incoming incoming;
  int status = 400;
  std::string why = "this is not an HTTP request: " + fault.reason;
  if (fault.kind == ParseFault::kHeaderTooLarge) {
    status = 431;
    why = "the request's header is larger than " + format_bytes(options_.header_bytes_max);
  } else if (fault.kind == ParseFault::kUnknownCoding) {
    status = 501;
    why = fault.reason;
  } else if (fault.kind == ParseFault::kBodyTooLarge) {
    status = 413;
    why = "the request's body is larger than " + format_bytes(options_.body_bytes_max);
  }
  incoming.error_response = HttpResponse::failure(status, "invalid_argument", why);
  return incoming;
}

// Closing with unread bytes makes the kernel send a reset, which may overtake the error response.
// So this discards further bytes, within limits.
Task<> ConnectionImpl::linger() {
  constexpr size_t kBytesMax = 8 * kMiB;
  stream_->end_writing();
  std::vector<std::byte> sink(64 * kKiB);
  stream_->expires_after(std::min<Clock::duration>(idle_timeout_, std::chrono::seconds(2)));
  for (size_t taken = 0; taken < kBytesMax;) {
    const IoResult got = co_await stream_->read_some(sink);
    if (!got.done()) co_return;
    taken += got.bytes;
  }
}

}  // namespace

std::shared_ptr<Connection> Connection::create(boost::asio::generic::stream_protocol::socket socket,
                                               Deps deps, std::stop_token stopping) {
  return std::make_shared<ConnectionImpl>(std::move(socket), std::move(deps), std::move(stopping));
}

}  // namespace leat
