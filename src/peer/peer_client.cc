// SPDX-License-Identifier: Apache-2.0
#include "peer/peer_client.h"

#include <fmt/format.h>

#include <algorithm>

#include "peer/job_orders.h"
#include "peer/name_pages.h"
#include "peer/peer_error.h"
#include "peer/read_request.h"
#include "peer/snapshots/peer_snapshots.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter requests_total("leat_peer_requests_total", "Requests to workers");
Counter unanswered_total("leat_peer_unanswered_total",
                         "Requests to workers that were not answered");
Counter found_dead_total("leat_peer_found_dead_total",
                         "Times that a worker did not answer a ping while a request waited");
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

template <class T>
PeerReply<T> refused(PeerReply<HttpResponse>& reply) {
  return {reply.reach, Error(reply.result.error()), reply.epoch};
}

// Decodes the body. An undecodable answer counts as "worker not reached".
template <class T>
PeerReply<T> decoded(PeerReply<HttpResponse>& reply, Result<T> (*decode)(std::string_view)) {
  if (!reply.result) return refused<T>(reply);
  Result<T> value = decode(reply.result->body);
  if (!value) return {PeerReach::kNotReached, std::move(value), 0};
  return {reply.reach, std::move(value), reply.epoch};
}

}  // namespace

Result<std::shared_ptr<PeerClient>> PeerClient::make(PeerClientOptions options,
                                                     std::shared_ptr<RequestSigner> signer,
                                                     Executor& executor) {
  LEAT_TRY(HttpEndpoint endpoint, HttpEndpoint::parse(options.address));
  std::shared_ptr<PeerClient> client(
      new PeerClient(options, std::move(endpoint), std::move(signer), executor));
  std::weak_ptr<PeerClient> weak = client;
  client->watch_ = PeerWatch::make(options.watch, [weak] { return ping_of(weak); }, executor);
  return client;
}

PeerClient::PeerClient(PeerClientOptions options, HttpEndpoint endpoint,
                       std::shared_ptr<RequestSigner> signer, Executor& executor)
    : options_(std::move(options)),
      signer_(std::move(signer)),
      client_(endpoint, {.tls = options_.tls,
                         .connections_max = options_.connections_max,
                         .connect_timeout = options_.connect_timeout}),
      pinging_(
          endpoint,
          {.tls = options_.tls, .connections_max = 1, .connect_timeout = options_.ping_timeout}),
      spawner_(executor),
      circuit_(options_.circuit),
      batches_(options_.batches ? ReadBatches::make(options_.small_reads, executor) : nullptr),
      snapshots_(make_peer_snapshots(*this)) {}

bool PeerClient::usable() const {
  const PeerCircuit::Leave leave = circuit_.leave();
  if (leave == PeerCircuit::Leave::kTry) spawner_.spawn(try_again(shared_from_this()));
  return leave == PeerCircuit::Leave::kAsk;
}

Task<> PeerClient::try_again(std::shared_ptr<const PeerClient> self) {
  Result<> lives = co_await self->ping();
  if (lives) {
    self->circuit_.answered();
  } else {
    self->circuit_.failed(true);
  }
}

PeerTerms PeerClient::terms_of(const PeerRoute& route, const Context& context) const {
  PeerTerms terms{.epoch = route.epoch, .instead = route.instead, .replicas = route.replicas};
  if (context.deadline != Clock::time_point::max()) {
    const auto left = in_ms(context.deadline - Clock::now());
    terms.timeout = std::clamp(left, std::chrono::milliseconds(1), kPeerTimeoutMax);
  }
  return terms;
}

void PeerClient::finish(HttpRequest& request) const {
  if (!options_.worker.is_zero()) request.headers.set(kToField, options_.worker.to_hex());
  request.target = make_target(request.path, request.query);
  if (!only_asks(request)) {
    std::lock_guard lock(mutex_);
    if (!instance_.empty()) request.headers.set(kInstanceField, instance_);
  }
  signer_->sign(request);
}

void PeerClient::learn_instance(const HttpResponse& response) {
  const auto told = response.headers.find(kInstanceField);
  if (!told) return;
  std::lock_guard lock(mutex_);
  instance_ = *told;
}

// A caller that gave up does not count against the worker.
PeerReply<HttpResponse> PeerClient::judge(Result<HttpResponse> response, const Context& of_caller,
                                          bool found_dead) const {
  if (!response) {
    if (found_dead) {
      found_dead_total.add();
      response = error(StatusCode::kUnavailable,
                       fmt::format("{} does not answer, a ping neither", options_.address));
    }
    unanswered_total.add();
    if (found_dead || of_caller.check("")) circuit_.failed(found_dead);
    return {PeerReach::kNotReached, std::move(response), 0};
  }
  const std::optional<int64_t> epoch = epoch_of(*response);
  if (response->status / 100 == 2) {
    circuit_.answered();
    return {PeerReach::kAnswered, std::move(response), epoch.value_or(0)};
  }
  Status refusal = decode_peer_error(response->status, response->body);
  // The worker is shutting down, does not accept our token, or is no worker; another worker may
  // still answer.
  if (!epoch || refusal.code() == StatusCode::kCancelled || response->status == kHttpUnsigned) {
    unanswered_total.add();
    circuit_.failed(false);
    return {PeerReach::kTurnedAway, Error(std::move(refusal)), 0};
  }
  circuit_.answered();
  const bool misdirected = response->status == kHttpMisdirected;
  return {misdirected ? PeerReach::kMisdirected : PeerReach::kAnswered, Error(std::move(refusal)),
          *epoch};
}

// Signs again after a refusal. A request that waited while thousands of others were signed looks
// like a replay (ReplayGuard). A mutating request is valid for one process of the worker only.
Task<PeerReply<HttpResponse>> PeerClient::ask(Context context, HttpRequest request,
                                              Clock::duration grace) {
  requests_total.add();
  PeerWatch::Request watched(watch_, grace);
  const Context bounded = watched.context(context);
  Result<HttpResponse> response = error(StatusCode::kUnavailable, "not asked");
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    HttpRequest sent = request;
    finish(sent);
    response = co_await client_.request(bounded, std::move(sent), kAnswerBytesMax);
    if (!response || response->status != kHttpUnsigned) break;
    learn_instance(*response);
  }
  co_return judge(std::move(response), context, watched.found_dead());
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
  put_terms(terms_of(route, context), request);
  co_return co_await ask(std::move(context), std::move(request), grace);
}

Task<PeerReply<void>> PeerClient::read(Context context, PeerRead request,
                                       std::span<std::byte> into) {
  if (batches_ != nullptr && batches_->takes(request)) {
    return batches_->read(shared_from_this(), std::move(context), std::move(request), into);
  }
  return read_alone(std::move(context), std::move(request), into);
}

void PeerClient::received(uint64_t bytes) {
  received_bytes.add(bytes);
}

Task<PeerReply<void>> PeerClient::read_alone(Context context, PeerRead request,
                                             std::span<std::byte> into) {
  requests_total.add();
  PeerReadRequest asked{.mount = std::move(request.mount),
                        .file = *request.file,
                        .range = request.range,
                        .terms = terms_of(request.route, context)};
  asked.terms.only_if_cached = request.only_if_cached;
  const HttpRequest http = to_http(asked);
  HttpIntake intake{.pieces = {into}};
  intake.accept = [this, range = content_range_text({asked.range, asked.file.size})](
                      const HttpResponse& response) { return check_range(response, range); };
  if (request.progress.wanted()) {
    intake.arrived = [progress = request.progress](uint64_t bytes) { progress.arrived(bytes); };
  }
  PeerWatch::Request watched(watch_, Clock::duration(0));
  const Context bounded = watched.context(context);
  Result<HttpResponse> response = error(StatusCode::kUnavailable, "not asked");
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    HttpRequest sent = http;
    finish(sent);
    response = co_await client_.request_into(bounded, std::move(sent), intake);
    if (!response || response->status != kHttpUnsigned) break;
  }
  PeerReply<HttpResponse> reply = judge(std::move(response), context, watched.found_dead());
  if (!reply.result) co_return refused<void>(reply);
  received(into.size());
  co_return PeerReply<void>{PeerReach::kAnswered, {}, reply.epoch, advice_of(*reply.result)};
}

Task<PeerReply<ListPage>> PeerClient::list(Context context, PeerList request) {
  PeerListRequest asked{.mount = std::move(request.mount),
                        .store = request.store,
                        .prefix = request.prefix,
                        .token = std::move(request.token),
                        .age_max = in_ms(request.age_max),
                        .terms = terms_of(request.route, context)};
  PeerReply<HttpResponse> reply =
      co_await ask(std::move(context), to_http(asked), Clock::duration(0));
  if (!reply.result) co_return refused<ListPage>(reply);
  Result<NamePage> page = decode_name_page(reply.result->body, asked.prefix);
  if (!page) co_return PeerReply<ListPage>{PeerReach::kNotReached, Error(page.error()), 0};
  page->page.age = page->age;
  co_return PeerReply<ListPage>{reply.reach, std::move(page->page), reply.epoch};
}

Task<PeerReply<SourceObject>> PeerClient::stat(Context context, PeerStat request) {
  PeerStatRequest asked{.mount = std::move(request.mount),
                        .store = request.store,
                        .key = std::move(request.key),
                        .age_max = in_ms(request.age_max),
                        .terms = terms_of(request.route, context)};
  PeerReply<HttpResponse> reply =
      co_await ask(std::move(context), to_http(asked), Clock::duration(0));
  if (!reply.result) co_return refused<SourceObject>(reply);
  Result<NameStat> stat = decode_name_stat(reply.result->body);
  if (!stat) co_return PeerReply<SourceObject>{PeerReach::kNotReached, Error(stat.error()), 0};
  co_return PeerReply<SourceObject>{reply.reach, std::move(stat->object), reply.epoch};
}

Task<PeerReply<uint64_t>> PeerClient::upkeep(Context context, PeerUpkeep request) {
  UpkeepRequest asked{.action = request.action,
                      .part = {.mount = std::move(request.mount),
                               .file = *request.file,
                               .range = request.range,
                               .terms = terms_of(request.route, context)}};
  PeerReply<HttpResponse> reply =
      co_await ask(std::move(context), to_http(asked), Clock::duration(0));
  co_return decoded(reply, &decode_upkeep_bytes);
}

Task<PeerReply<uint64_t>> PeerClient::drop(Context context, std::vector<FileId> files) {
  HttpRequest request{.method = "POST", .path = kDropPath};
  request.body = encode_drop(files);
  PeerReply<HttpResponse> reply =
      co_await ask(std::move(context), std::move(request), Clock::duration(0));
  co_return decoded(reply, &decode_upkeep_bytes);
}

Task<PeerReply<UpkeepVerify>> PeerClient::verify(Context context, uint64_t job) {
  HttpRequest request{.method = "POST", .path = kVerifyPath};
  request.query["job"] = std::to_string(job);
  PeerReply<HttpResponse> reply = co_await ask(std::move(context), std::move(request), kPollTime);
  co_return decoded(reply, &decode_verify);
}

Task<PeerReply<CopyStep>> PeerClient::copy(Context context, PeerCopy request) {
  const CopyStepRequest asked{.mount = std::move(request.mount),
                              .file = *request.file,
                              .range = request.range,
                              .goal = std::move(request.goal)};
  PeerReply<HttpResponse> reply =
      co_await ask(std::move(context), to_http(asked), Clock::duration(0));
  co_return decoded(reply, &decode_copy_step);
}

Task<Result<HttpResponse>> PeerClient::answer_to_ping() const {
  const Context context = Context::background().with_timeout(options_.ping_timeout);
  HttpRequest request{.path = "/peer/v1/ping"};
  finish(request);
  co_return co_await pinging_.request(context, std::move(request));
}

Task<Result<>> PeerClient::ping() const {
  Result<HttpResponse> response = co_await answer_to_ping();
  if (!response) co_return Error(response.error());
  co_return Result<>();  // any status proves that the worker lives
}

Task<Result<>> PeerClient::check() const {
  Result<HttpResponse> response = co_await answer_to_ping();
  if (!response) co_return Error(response.error());
  if (response->status / 100 == 2) co_return Result<>();
  co_return error(decode_peer_error(response->status, response->body));
}

Task<Result<ClusterViewPtr>> PeerClient::view(Context context, RegistryRevision after) {
  HttpRequest request{.path = "/peer/v1/cluster"};
  request.query["after"] = std::to_string(after);
  PeerReply<HttpResponse> reply = co_await ask(std::move(context), std::move(request), kPollTime);
  if (!reply.result) co_return Error(reply.result.error());
  if (reply.result->status == 204) co_return ClusterViewPtr();
  Result<ClusterView> view = decode_view(reply.result->body);
  if (!view) co_return Error(view.error());
  co_return std::make_shared<const ClusterView>(*std::move(view));
}

Task<Result<PeerChanges>> PeerClient::changes(Context context, uint64_t after) {
  PeerReply<HttpResponse> reply =
      co_await ask(std::move(context), to_http(ChangesQuery{.after = after}), kPollTime);
  if (!reply.result) co_return Error(reply.result.error());
  if (reply.result->status == 204) co_return PeerChanges{.number = after, .changes = {}};
  co_return decode_changes(reply.result->body);
}

Task<PeerReply<std::string>> PeerClient::jobs(Context context, std::string method,
                                              std::string below, std::string ticket,
                                              std::string body) {
  HttpRequest request{.method = std::move(method), .path = kJobsPath + below};
  if (!ticket.empty()) request.query[kTicketMember] = std::move(ticket);
  request.body = std::move(body);
  PeerReply<HttpResponse> reply =
      co_await ask(std::move(context), std::move(request), Clock::duration(0));
  if (!reply.result) co_return refused<std::string>(reply);
  co_return PeerReply<std::string>{reply.reach, std::move(reply.result->body), reply.epoch};
}

Task<Result<>> PeerClient::tell(Context context, PeerChanges changes) {
  HttpRequest request{.method = "POST", .path = kChangesPath};
  request.body = encode_changes(changes);
  PeerReply<HttpResponse> reply =
      co_await ask(std::move(context), std::move(request), Clock::duration(0));
  if (!reply.result) co_return Error(reply.result.error());
  co_return Result<>();
}

}  // namespace leat
