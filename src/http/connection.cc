// SPDX-License-Identifier: Apache-2.0
// Invariant: one coroutine, serve(), does everything; wake() and cut() only shut the socket down.
#include "http/connection.h"

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
Counter refused_total("leat_http_refused_total",
                      "Requests refused as broken, too large, too slow, or for too many "
                      "connections");
Counter slow_total("leat_http_slow_total",
                   "Requests whose head or body came too slowly, so that they were cut off");

// Time for a rejected client to send its request.
constexpr Clock::duration kTurnedAwayPatience = std::chrono::seconds(1);
// Progress of a request.
struct Arrival {
  enum Stage : uint8_t { kNothing, kHead, kBody } stage = kNothing;
  Clock::time_point body_begun{};
};

// The result of waiting for a request.
struct Incoming {
  std::optional<HttpRequest> request;
  std::optional<HttpResponse> refusal;  // neither: the client is gone or sent nothing
  ResponseSender::Terms terms;
};

class ConnectionImpl : public Connection, public std::enable_shared_from_this<ConnectionImpl> {
 public:
  ConnectionImpl(Stream::Socket socket, Surroundings around, std::stop_token stopping)
      : stream_(std::make_shared<Stream>(std::move(socket))),
        router_(around.router),
        options_(around.options),
        turned_away_because_(std::move(around.turned_away_because)),
        idle_timeout_(turned_away() ? std::min(options_.idle_timeout, kTurnedAwayPatience)
                                    : options_.idle_timeout),
        head_timeout_(std::min(idle_timeout_, options_.head_timeout)),
        sender_(stream_, options_.write_timeout, around.executor),
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
  enum Phase : uint8_t { kAnswering, kWaiting, kReceiving, kWoken };

  Task<bool> begin();
  Task<> refuse_clear_text();
  Task<> answer_all();
  Task<Incoming> receive();
  bool note_arrival(Arrival& arrival, const RequestParser& parser, const HttpRequest& request);
  static void note_timeout(const Arrival& arrival);
  Incoming accepted(HttpRequest request, const RequestParser& parser) const;
  Incoming refuse(const ParseFault& fault) const;
  Task<> linger();

  bool turned_away() const { return !turned_away_because_.empty(); }
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
  const std::string turned_away_because_;
  const Clock::duration idle_timeout_;
  const Clock::duration head_timeout_;
  ResponseSender sender_;
  const Context context_;
  const std::stop_token stopping_;
  const RemoteAddress address_;
  std::string certificate_;
  std::atomic<Clock::rep> waits_since_ = 0;  // valid while kWaiting or kReceiving
  std::atomic<Phase> phase_ = kAnswering;
};

Task<> ConnectionImpl::serve() {
  auto self = shared_from_this();
  const bool begun = co_await begin();
  if (begun) co_await answer_all();
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
    log::warning("cannot answer {}: {}", address_.text, session.error().to_string());
    co_return false;
  }
  stream_->begin_tls(std::move(*session));
  stream_->expires_after(head_timeout_);
  wait_for_client();
  IoResult shaken{.state = IoResult::kEnd};
  if (!stopping_.stop_requested()) shaken = co_await stream_->shake_hands();
  if (!move_on(kWaiting, kAnswering)) co_return false;
  if (shaken.done()) {
    certificate_ = stream_->tls()->peer_name();
    co_return true;
  }
  refused_total.add();
  log::info("no TLS with {}: {}", address_.text, stream_->reason(shaken));
  const bool in_clear = stream_->tls()->spoken_to_in_clear();
  stream_->end_tls();
  if (in_clear) co_await refuse_clear_text();
  co_await linger();
  co_return false;
}

// A client that used http instead of https gets a readable error.
Task<> ConnectionImpl::refuse_clear_text() {
  HttpResponse refusal = HttpResponse::failure(
      400, "invalid_argument", "this port speaks TLS and the request came in clear; use https");
  co_await sender_.send(std::move(refusal), {.keep_alive = false});
}

Task<> ConnectionImpl::answer_all() {
  while (!stopping_.stop_requested()) {
    Incoming incoming = co_await receive();
    stream_->expires_never();
    if (turned_away() && incoming.request) {
      incoming.refusal = HttpResponse::failure(503, "unavailable", turned_away_because_);
    }
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
  Arrival arrival;
  for (;;) {
    if (!input.empty()) {
      input.consume(parser.put(input.filled()));
      if (parser.fault()) co_return refuse(*parser.fault());
      if (!note_arrival(arrival, parser, request)) co_return Incoming();
    }
    if (parser.done()) co_return accepted(std::move(request), parser);
    const std::span<std::byte> room = input.room(options_.header_bytes_max + kReadAhead);
    if (room.empty()) co_return refuse({ParseFault::kHeaderTooLarge, {}});
    const IoResult got = co_await stream_->read_some(room);
    if (!got.done()) {
      if (stream_->cut_reason() == Stream::Cut::kTimedOut) note_timeout(arrival);
      co_return Incoming();
    }
    input.commit(got.bytes);
  }
}

// Moves the deadline, and the time since when the client is behind the pace. Returns false if the
// connection was woken or evicted meanwhile.
bool ConnectionImpl::note_arrival(Arrival& arrival, const RequestParser& parser,
                                  const HttpRequest& request) {
  if (arrival.stage == Arrival::kNothing) {
    arrival.stage = Arrival::kHead;
    stream_->expires_after(head_timeout_);
  }
  if (!parser.header_done()) return true;
  if (arrival.stage == Arrival::kHead) {
    if (parser.done()) return move_on(kWaiting, kAnswering);
    arrival = {.stage = Arrival::kBody, .body_begun = Clock::now()};
    waits_from(arrival.body_begun);
    if (!move_on(kWaiting, kReceiving)) return false;
  }
  if (parser.done()) return move_on(kReceiving, kAnswering);
  const auto earned = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
      static_cast<double>(request.body.size()) / static_cast<double>(options_.body_bytes_s_min)));
  waits_from(arrival.body_begun + earned);
  stream_->expires_at(arrival.body_begun + head_timeout_ + earned);
  return true;
}

void ConnectionImpl::note_timeout(const Arrival& arrival) {
  refused_total.add();
  if (arrival.stage != Arrival::kNothing) slow_total.add();
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
  request.peer = address_.text;
  request.certificate = certificate_;
  incoming.request = std::move(request);
  return incoming;
}

Incoming ConnectionImpl::refuse(const ParseFault& fault) const {
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
  incoming.refusal = HttpResponse::failure(status, "invalid_argument", why);
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
                                               Surroundings around, std::stop_token stopping) {
  return std::make_shared<ConnectionImpl>(std::move(socket), std::move(around),
                                          std::move(stopping));
}

}  // namespace leat
