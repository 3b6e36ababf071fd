// SPDX-License-Identifier: Apache-2.0
#include "http/client.h"

#include <sys/socket.h>

#include <optional>
#include <stop_token>

#include "http/client_pool.h"
#include "http/exchange.h"
#include "http/message_head.h"

namespace leat {
namespace {

namespace asio = boost::asio;

struct Attempt {
  Result<HttpResponse> response;
  // The request probably was not received, or is idempotent: retry it on another connection.
  bool retry = false;
};

// The other end has closed an idle connection, or has sent unsolicited bytes.
bool has_unexpected_input(Stream& stream) {
  char byte;
  return ::recv(stream.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

// An idle connection is open already.
Task<Attempt> attempt(std::shared_ptr<ClientPool> pool, std::shared_ptr<Stream> stream,
                      std::shared_ptr<const ExchangeRequest> outgoing, Context context) {
  bool reusable = false;
  Attempt result{HttpResponse()};
  {
    std::stop_callback stop(context.cancel, [stream] { stream->cut(Stream::Cut::kCancelled); });
    const bool reused = stream->fd() >= 0;
    if (!reused) {
      Result<> dialled = co_await pool->dial(stream, context);
      if (!dialled) co_return Attempt{Error(dialled.error())};
    } else if (!outgoing->idempotent && has_unexpected_input(*stream)) {
      result.retry = true;
      co_return result;
    }
    if (outgoing->options.sent != nullptr) *outgoing->options.sent = true;
    Exchange exchange(*stream, *outgoing, context, pool->name());
    result.response = co_await exchange.run();
    result.retry = !result.response && reused && outgoing->idempotent && exchange.found_closed();
    reusable = result.response && exchange.reusable();
  }
  if (reusable) {
    pool->give(std::move(stream));
  } else if (stream->is_secure()) {
    stream->end_writing();
  }
  co_return result;
}

Task<Result<HttpResponse>> send_request(std::shared_ptr<ClientPool> pool, Context context,
                                        std::shared_ptr<const ExchangeRequest> outgoing) {
  if (auto alive = context.check("a request"); !alive) co_return Error(alive.error());
  std::optional<Semaphore::Permit> slot = pool->slots().try_acquire(1);
  if (!slot) {
    LEAT_CO_TRY(Semaphore::Permit waited,
                co_await pool->slots().acquire(context, 1, "waiting for a connection"));
    slot.emplace(std::move(waited));
  }
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  std::shared_ptr<Stream> stream = pool->take(executor);
  if (stream == nullptr) stream = std::make_shared<Stream>(Stream::Socket(executor));
  Attempt first = co_await attempt(pool, std::move(stream), outgoing, context);
  if (!first.retry) co_return std::move(first.response);
  stream = std::make_shared<Stream>(Stream::Socket(executor));
  Attempt second = co_await attempt(pool, std::move(stream), outgoing, context);
  co_return std::move(second.response);
}

std::shared_ptr<ExchangeRequest> make_exchange_request(const ClientPool& pool, HttpRequest request,
                                                       HttpRequestOptions options) {
  auto outgoing = std::make_shared<ExchangeRequest>();
  outgoing->head = make_head(request, pool.host(), pool.keeps_alive());
  outgoing->body = std::move(request.body);
  outgoing->is_head = request.method == "HEAD";
  outgoing->idempotent = request.idempotent || outgoing->is_head || request.method == "GET";
  outgoing->options = options;
  return outgoing;
}

}  // namespace

HttpClient::HttpClient(HttpEndpoint endpoint, HttpClientOptions options)
    : pool_(std::make_shared<ClientPool>(std::move(endpoint), std::move(options))) {}

const HttpEndpoint& HttpClient::endpoint() const {
  return pool_->endpoint();
}

Task<Result<HttpResponse>> HttpClient::request(Context context, HttpRequest request,
                                               uint64_t body_bytes_max,
                                               HttpRequestOptions options) const {
  auto outgoing = make_exchange_request(*pool_, std::move(request), options);
  outgoing->body_bytes_max = body_bytes_max;
  return send_request(pool_, std::move(context), std::move(outgoing));
}

Task<Result<HttpResponse>> HttpClient::request_streamed(Context context, HttpRequest request,
                                                        BodySink sink,
                                                        HttpRequestOptions options) const {
  auto outgoing = make_exchange_request(*pool_, std::move(request), options);
  outgoing->sink = std::move(sink);
  return send_request(pool_, std::move(context), std::move(outgoing));
}

Task<Result<HttpResponse>> HttpClient::request_into(Context context, HttpRequest request,
                                                    HttpResponseSink response_sink,
                                                    HttpRequestOptions options) const {
  auto outgoing = make_exchange_request(*pool_, std::move(request), options);
  outgoing->response_sink = std::move(response_sink);
  outgoing->into_pieces = true;
  return send_request(pool_, std::move(context), std::move(outgoing));
}

}  // namespace leat
