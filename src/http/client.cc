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
  // The request probably was not received, or is repeatable: retry it on another connection.
  bool again = false;
};

// The other end has closed a kept connection, or has sent unsolicited bytes.
bool has_news(Stream& stream) {
  char byte;
  return ::recv(stream.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

// A kept connection is open already.
Task<Attempt> attempt(std::shared_ptr<ClientPool> pool, std::shared_ptr<Stream> stream,
                      std::shared_ptr<const Question> question, Context context) {
  bool reusable = false;
  Attempt result{HttpResponse()};
  {
    std::stop_callback stop(context.cancel, [stream] { stream->cut(Stream::Cut::kCancelled); });
    const bool kept = stream->fd() >= 0;
    if (!kept) {
      Result<> dialled = co_await pool->dial(stream, context);
      if (!dialled) co_return Attempt{Error(dialled.error())};
    } else if (!question->repeatable && has_news(*stream)) {
      result.again = true;
      co_return result;
    }
    Exchange exchange(*stream, *question, context, pool->name());
    result.response = co_await exchange.run();
    result.again = !result.response && kept && question->repeatable && exchange.found_closed();
    reusable = result.response && exchange.reusable();
  }
  if (reusable) {
    pool->give(std::move(stream));
  } else if (stream->is_secure()) {
    stream->end_writing();
  }
  co_return result;
}

Task<Result<HttpResponse>> ask(std::shared_ptr<ClientPool> pool, Context context,
                               std::shared_ptr<const Question> question) {
  if (auto alive = context.check("a request"); !alive) co_return Error(alive.error());
  std::optional<Semaphore::Permit> place = pool->places().try_acquire(1);
  if (!place) {
    LEAT_CO_TRY(Semaphore::Permit waited,
                co_await pool->places().acquire(context, 1, "waiting for a connection"));
    place.emplace(std::move(waited));
  }
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  std::shared_ptr<Stream> stream = pool->take(executor);
  if (stream == nullptr) stream = std::make_shared<Stream>(Stream::Socket(executor));
  Attempt first = co_await attempt(pool, std::move(stream), question, context);
  if (!first.again) co_return std::move(first.response);
  stream = std::make_shared<Stream>(Stream::Socket(executor));
  Attempt second = co_await attempt(pool, std::move(stream), question, context);
  co_return std::move(second.response);
}

std::shared_ptr<Question> make_question(const ClientPool& pool, HttpRequest request,
                                        HttpTerms terms) {
  auto question = std::make_shared<Question>();
  question->head = make_head(request, pool.host(), pool.keeps());
  question->body = std::move(request.body);
  question->is_head = request.method == "HEAD";
  question->repeatable = request.repeatable || question->is_head || request.method == "GET";
  question->terms = terms;
  return question;
}

}  // namespace

HttpClient::HttpClient(HttpEndpoint endpoint, HttpClientOptions options)
    : pool_(std::make_shared<ClientPool>(std::move(endpoint), std::move(options))) {}

const HttpEndpoint& HttpClient::endpoint() const {
  return pool_->endpoint();
}

Task<Result<HttpResponse>> HttpClient::request(Context context, HttpRequest request,
                                               uint64_t body_bytes_max, HttpTerms terms) const {
  auto question = make_question(*pool_, std::move(request), terms);
  question->gathered_bytes_max = body_bytes_max;
  return ask(pool_, std::move(context), std::move(question));
}

Task<Result<HttpResponse>> HttpClient::request_streamed(Context context, HttpRequest request,
                                                        BodySink sink, HttpTerms terms) const {
  auto question = make_question(*pool_, std::move(request), terms);
  question->sink = std::move(sink);
  return ask(pool_, std::move(context), std::move(question));
}

Task<Result<HttpResponse>> HttpClient::request_into(Context context, HttpRequest request,
                                                    HttpIntake intake, HttpTerms terms) const {
  auto question = make_question(*pool_, std::move(request), terms);
  question->intake = std::move(intake);
  question->into_pieces = true;
  return ask(pool_, std::move(context), std::move(question));
}

}  // namespace leat
