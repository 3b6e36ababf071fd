// SPDX-License-Identifier: Apache-2.0
#include "peer/client/peer_client.h"

#include <fmt/format.h>

#include <algorithm>

#include "peer/client/peer_snapshots.h"
#include "peer/client/peer_staging.h"
#include "peer/client/peer_writes.h"
#include "telemetry/metrics.h"
#include "wire/job_requests.h"
#include "wire/name_messages.h"
#include "wire/peer_error.h"
#include "wire/read_request.h"

namespace leat {
namespace {

Counter requests_total("leat_peer_requests_total", "Requests to workers");
Counter request_failures_total("leat_peer_request_failures_total",
                               "Requests to workers that failed without a response");
Counter failures_detected_total(
    "leat_peer_failures_detected_total",
    "Workers declared failed because they did not answer a ping during a request");
Counter received_bytes("leat_peer_received_bytes_total", "Bytes of files read from workers");

constexpr uint64_t kAnswerBytesMax = 64 * kMiB;
constexpr int kAttempts = 2;
// Grace of a long poll: the worker may delay its answer this long.
constexpr Clock::duration kPollTime = std::chrono::seconds(9);

std::chrono::milliseconds in_ms(Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time);
}

Task<Result<>> ping_of(std::weak_ptr<PeerClient> client) {
  const auto alive = client.lock();
  if (!alive) co_return Result<>();
  co_return co_await alive->ping();
}

bool is_cancelled(const PeerReply<HttpResponse>& reply) {
  return reply.result.error().code() == StatusCode::kCancelled;
}

template <class T>
PeerReply<T> failed(PeerReply<HttpResponse>& reply) {
  return {reply.outcome, Error(reply.result.error()), reply.epoch};
}

// Decodes the body. An undecodable answer counts as "worker not reached".
template <class T>
PeerReply<T> decoded(PeerReply<HttpResponse>& reply, Result<T> (*decode)(std::string_view)) {
  if (!reply.result) return failed<T>(reply);
  Result<T> value = decode(reply.result->body);
  if (!value) return {PeerOutcome::kUnreachable, std::move(value), 0};
  return {reply.outcome, std::move(value), reply.epoch};
}

}  // namespace

Result<std::shared_ptr<PeerClient>> PeerClient::make(PeerClientOptions options,
                                                     std::shared_ptr<RequestSigner> signer,
                                                     Executor& executor) {
  LEAT_TRY(HttpEndpoint endpoint, HttpEndpoint::parse(options.address));
  std::shared_ptr<PeerClient> client(
      new PeerClient(options, std::move(endpoint), std::move(signer), executor));
  std::weak_ptr<PeerClient> weak = client;
  client->failure_detector_ =
      FailureDetector::make(options.failure_detector, [weak] { return ping_of(weak); }, executor);
  return client;
}

PeerClient::PeerClient(PeerClientOptions options, HttpEndpoint endpoint,
                       std::shared_ptr<RequestSigner> signer, Executor& executor)
    : options_(std::move(options)),
      signer_(std::move(signer)),
      client_(endpoint, {.tls = options_.tls,
                         .connections_max = options_.connections_max,
                         .connect_timeout = options_.connect_timeout}),
      ping_client_(
          endpoint,
          {.tls = options_.tls, .connections_max = 1, .connect_timeout = options_.ping_timeout}),
      spawner_(executor),
      circuit_breaker_(options_.circuit_breaker),
      batched_reader_(options_.supports_batches
                          ? BatchedReader::make(options_.read_batcher, executor)
                          : nullptr),
      snapshots_(make_peer_snapshots(*this)),
      writes_(make_peer_writes(*this)),
      staging_(make_peer_staging(*this)) {}

bool PeerClient::usable() const {
  const PeerCircuitBreaker::Decision decision = circuit_breaker_.decide();
  if (decision == PeerCircuitBreaker::Decision::kTrial) spawner_.spawn(probe(shared_from_this()));
  return decision == PeerCircuitBreaker::Decision::kAllow;
}

Task<> PeerClient::probe(std::shared_ptr<const PeerClient> self) {
  Result<> ping = co_await self->ping();
  if (ping) {
    self->circuit_breaker_.succeeded();
  } else {
    self->circuit_breaker_.failed(true);
  }
}

PeerRequestHeader PeerClient::header_of(const PeerRoute& route, const Context& context) const {
  PeerRequestHeader header{
      .epoch = route.epoch, .failover_for = route.failover_for, .replicas = route.replicas};
  if (context.deadline != Clock::time_point::max()) {
    const auto left = in_ms(context.deadline - Clock::now());
    header.timeout = std::clamp(left, std::chrono::milliseconds(1), kPeerTimeoutMax);
  }
  return header;
}

void PeerClient::complete_request(HttpRequest& request) const {
  if (!options_.worker.is_zero()) request.headers.set(kToField, options_.worker.to_hex());
  request.target = make_target(request.path, request.query);
  if (!is_read_only(request)) {
    std::lock_guard lock(mutex_);
    if (!instance_.empty()) request.headers.set(kInstanceField, instance_);
  }
  signer_->sign(request);
}

void PeerClient::learn_instance(const HttpResponse& response) {
  const auto instance = response.headers.find(kInstanceField);
  if (!instance) return;
  std::lock_guard lock(mutex_);
  instance_ = *instance;
}

// A caller that gave up does not count against the worker.
PeerReply<HttpResponse> PeerClient::classify(Result<HttpResponse> response,
                                             const Context& of_caller, bool peer_failed) const {
  if (!response) {
    if (peer_failed) {
      failures_detected_total.add();
      response = error(StatusCode::kUnavailable,
                       fmt::format("{} does not answer, a ping neither", options_.address));
    }
    request_failures_total.add();
    if (peer_failed || of_caller.check("")) circuit_breaker_.failed(peer_failed);
    return {PeerOutcome::kUnreachable, std::move(response), 0};
  }
  const std::optional<int64_t> epoch = epoch_of(*response);
  if (response->status / 100 == 2) {
    circuit_breaker_.succeeded();
    return {PeerOutcome::kAnswered, std::move(response), epoch.value_or(0)};
  }
  Status failure = decode_peer_error(response->status, response->body);
  // The worker is shutting down, does not accept our token, or is no worker; another worker may
  // still answer.
  if (!epoch || failure.code() == StatusCode::kCancelled || response->status == kHttpUnsigned) {
    request_failures_total.add();
    circuit_breaker_.failed(false);
    return {PeerOutcome::kRejected, Error(std::move(failure)), 0};
  }
  circuit_breaker_.succeeded();
  const bool not_owner = response->status == kHttpMisdirected;
  return {not_owner ? PeerOutcome::kNotOwner : PeerOutcome::kAnswered, Error(std::move(failure)),
          *epoch};
}

// Signs again after a rejection. A request that waited while thousands of others were signed looks
// like a replay (ReplayGuard). A mutating request is valid for one process of the worker only.
Task<PeerReply<HttpResponse>> PeerClient::send(Context context, HttpRequest request,
                                               Clock::duration grace) {
  requests_total.add();
  FailureDetector::Request tracked(failure_detector_, grace);
  const Context bounded = tracked.context(context);
  Result<HttpResponse> response = error(StatusCode::kUnavailable, "not sent");
  bool is_sent = false;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    HttpRequest sent = request;
    complete_request(sent);
    is_sent = false;
    const HttpRequestOptions options{.sent = &is_sent};
    response = co_await client_.request(bounded, std::move(sent), kAnswerBytesMax, options);
    if (!response || response->status != kHttpUnsigned) break;
    learn_instance(*response);
  }
  const bool is_answered = response.has_value();
  PeerReply<HttpResponse> reply = classify(std::move(response), context, tracked.peer_failed());
  // A worker that ends cancels what it does.
  reply.maybe_done = is_answered ? !reply.result && is_cancelled(reply) : is_sent;
  co_return reply;
}

// Checks the range, because a wrong range may have the right length.
Result<> PeerClient::check_range(const HttpResponse& response,
                                 const std::string& content_range) const {
  const auto range = response.headers.find("Content-Range");
  if (response.status == 206 && range && *range == content_range) return {};
  return error(StatusCode::kUnavailable,
               fmt::format("{} answered a read with {}, {}", options_.address, response.status,
                           range.value_or("without a range")));
}

Task<PeerReply<HttpResponse>> PeerClient::call(Context context, HttpRequest request,
                                               PeerRoute route, Clock::duration grace) {
  put_request_header(header_of(route, context), request);
  co_return co_await send(std::move(context), std::move(request), grace);
}

Task<PeerReply<void>> PeerClient::read(Context context, PeerRead request,
                                       std::span<std::byte> into) {
  if (batched_reader_ != nullptr && batched_reader_->is_batchable(request)) {
    return batched_reader_->read(shared_from_this(), std::move(context), std::move(request), into);
  }
  return read_alone(std::move(context), std::move(request), into);
}

void PeerClient::received(uint64_t bytes) {
  received_bytes.add(bytes);
}

Task<PeerReply<void>> PeerClient::read_alone(Context context, PeerRead request,
                                             std::span<std::byte> into) {
  requests_total.add();
  PeerReadRequest message{.mount = std::move(request.mount),
                          .file = *request.file,
                          .range = request.range,
                          .header = header_of(request.route, context)};
  message.header.only_if_cached = request.only_if_cached;
  const HttpRequest http = to_http(message);
  HttpResponseSink sink{.pieces = {into}};
  sink.accept = [this, range = content_range_text({message.range, message.file.size})](
                    const HttpResponse& response) { return check_range(response, range); };
  if (request.progress.has_listener()) {
    sink.on_bytes = [progress = request.progress](uint64_t bytes) { progress.report(bytes); };
  }
  FailureDetector::Request tracked(failure_detector_, Clock::duration(0));
  const Context bounded = tracked.context(context);
  Result<HttpResponse> response = error(StatusCode::kUnavailable, "not sent");
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    HttpRequest sent = http;
    complete_request(sent);
    response = co_await client_.request_into(bounded, std::move(sent), sink);
    if (!response || response->status != kHttpUnsigned) break;
  }
  PeerReply<HttpResponse> reply = classify(std::move(response), context, tracked.peer_failed());
  if (!reply.result) co_return failed<void>(reply);
  received(into.size());
  co_return PeerReply<void>{.outcome = PeerOutcome::kAnswered,
                            .result = {},
                            .epoch = reply.epoch,
                            .hint = replica_hint_of(*reply.result),
                            .missed_cache = is_cache_miss(*reply.result)};
}

Task<PeerReply<ListPage>> PeerClient::list(Context context, PeerList request) {
  PeerListRequest message{.mount = std::move(request.mount),
                          .store = request.store,
                          .prefix = request.prefix,
                          .token = std::move(request.token),
                          .age_max = in_ms(request.age_max),
                          .header = header_of(request.route, context)};
  PeerReply<HttpResponse> reply =
      co_await send(std::move(context), to_http(message), Clock::duration(0));
  if (!reply.result) co_return failed<ListPage>(reply);
  Result<ListResponse> page = decode_list_response(reply.result->body, message.prefix);
  if (!page) co_return PeerReply<ListPage>{PeerOutcome::kUnreachable, Error(page.error()), 0};
  page->page.age = page->age;
  co_return PeerReply<ListPage>{reply.outcome, std::move(page->page), reply.epoch};
}

Task<PeerReply<SourceObject>> PeerClient::stat(Context context, PeerStat request) {
  PeerStatRequest message{.mount = std::move(request.mount),
                          .store = request.store,
                          .key = std::move(request.key),
                          .age_max = in_ms(request.age_max),
                          .header = header_of(request.route, context)};
  PeerReply<HttpResponse> reply =
      co_await send(std::move(context), to_http(message), Clock::duration(0));
  if (!reply.result) co_return failed<SourceObject>(reply);
  Result<StatResponse> stat = decode_stat_response(reply.result->body);
  if (!stat) co_return PeerReply<SourceObject>{PeerOutcome::kUnreachable, Error(stat.error()), 0};
  co_return PeerReply<SourceObject>{reply.outcome, std::move(stat->object), reply.epoch};
}

Task<PeerReply<uint64_t>> PeerClient::cache_op(Context context, PeerCacheOp request) {
  CacheOpRequest message{.op = request.op,
                         .part = {.mount = std::move(request.mount),
                                  .file = *request.file,
                                  .range = request.range,
                                  .header = header_of(request.route, context)}};
  PeerReply<HttpResponse> reply =
      co_await send(std::move(context), to_http(message), Clock::duration(0));
  co_return decoded(reply, &decode_bytes_answer);
}

Task<PeerReply<uint64_t>> PeerClient::drop(Context context, std::vector<FileId> files) {
  HttpRequest request{.method = "POST", .path = kDropPath};
  request.body = encode_drop(files);
  PeerReply<HttpResponse> reply =
      co_await send(std::move(context), std::move(request), Clock::duration(0));
  co_return decoded(reply, &decode_bytes_answer);
}

Task<PeerReply<VerifyProgress>> PeerClient::verify(Context context, uint64_t job) {
  HttpRequest request{.method = "POST", .path = kVerifyPath};
  request.query["job"] = std::to_string(job);
  PeerReply<HttpResponse> reply = co_await send(std::move(context), std::move(request), kPollTime);
  co_return decoded(reply, &decode_verify);
}

Task<PeerReply<CopyStep>> PeerClient::copy(Context context, PeerCopy request) {
  const CopyStepRequest message{.mount = std::move(request.mount),
                                .file = *request.file,
                                .range = request.range,
                                .spec = std::move(request.spec)};
  PeerReply<HttpResponse> reply =
      co_await send(std::move(context), to_http(message), Clock::duration(0));
  co_return decoded(reply, &decode_copy_step);
}

Task<Result<HttpResponse>> PeerClient::ping_response() const {
  const Context context = Context::background().with_timeout(options_.ping_timeout);
  HttpRequest request{.path = "/peer/v1/ping"};
  complete_request(request);
  co_return co_await ping_client_.request(context, std::move(request));
}

Task<Result<>> PeerClient::ping() const {
  Result<HttpResponse> response = co_await ping_response();
  if (!response) co_return Error(response.error());
  co_return Result<>();  // any status proves that the worker lives
}

Task<Result<>> PeerClient::check() const {
  Result<HttpResponse> response = co_await ping_response();
  if (!response) co_return Error(response.error());
  if (response->status / 100 == 2) co_return Result<>();
  co_return error(decode_peer_error(response->status, response->body));
}

Task<Result<ClusterViewPtr>> PeerClient::view(Context context, RegistryRevision after) {
  HttpRequest request{.path = "/peer/v1/cluster"};
  request.query["after"] = std::to_string(after);
  PeerReply<HttpResponse> reply = co_await send(std::move(context), std::move(request), kPollTime);
  if (!reply.result) co_return Error(reply.result.error());
  if (reply.result->status == 204) co_return ClusterViewPtr();
  Result<ClusterView> view = decode_view(reply.result->body);
  if (!view) co_return Error(view.error());
  co_return std::make_shared<const ClusterView>(*std::move(view));
}

Task<Result<Invalidations>> PeerClient::invalidations(Context context, uint64_t after) {
  PeerReply<HttpResponse> reply =
      co_await send(std::move(context), to_http(InvalidationsQuery{.after = after}), kPollTime);
  if (!reply.result) co_return Error(reply.result.error());
  if (reply.result->status == 204) co_return Invalidations{.number = after, .items = {}};
  co_return decode_invalidations(reply.result->body);
}

Task<PeerReply<std::string>> PeerClient::jobs(Context context, std::string method,
                                              std::string below, std::string idempotency_key,
                                              std::string body) {
  HttpRequest request{.method = std::move(method), .path = kJobsPath + below};
  if (!idempotency_key.empty()) request.query[kIdempotencyKeyMember] = std::move(idempotency_key);
  request.body = std::move(body);
  PeerReply<HttpResponse> reply =
      co_await send(std::move(context), std::move(request), Clock::duration(0));
  if (!reply.result) co_return failed<std::string>(reply);
  co_return PeerReply<std::string>{reply.outcome, std::move(reply.result->body), reply.epoch};
}

Task<Result<>> PeerClient::send_invalidations(Context context, Invalidations invalidations) {
  HttpRequest request{.method = "POST", .path = kInvalidationsPath};
  request.body = encode_invalidations(invalidations);
  PeerReply<HttpResponse> reply =
      co_await send(std::move(context), std::move(request), Clock::duration(0));
  if (!reply.result) co_return Error(reply.result.error());
  co_return Result<>();
}

}  // namespace leat
