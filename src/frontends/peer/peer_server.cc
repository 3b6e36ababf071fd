// SPDX-License-Identifier: Apache-2.0
#include "frontends/peer/peer_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "frontends/peer/batch_answers.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "wire/name_messages.h"
#include "wire/peer_error.h"
#include "wire/read_request.h"

namespace leat {
namespace {

// From this size on the kernel sends from the file; below, copying is cheaper than a second call.
constexpr uint64_t kSendfileBytesMin = 32 * kKiB;

Counter auth_failures("leat_peer_auth_failures_total",
                      "Requests of clients and workers rejected as not signed or not allowed");

HttpResponse failure(const Status& why) {
  return peer_error_response(why, 0);
}
HttpResponse not_owner(const Status& why) {
  return peer_error_response(kHttpMisdirected, why, 0);
}

Context bounded_by(const PeerRequestHeader& terms, Context context) {
  return terms.timeout.count() > 0 ? context.with_timeout(terms.timeout) : context;
}

std::optional<uint64_t> number_in(const HttpRequest& request, const std::string& name) {
  auto found = request.query.find(name);
  if (found == request.query.end()) return std::nullopt;
  uint64_t value = 0;
  const char* end = found->second.data() + found->second.size();
  const auto [at, failed] = std::from_chars(found->second.data(), end, value);
  if (failed != std::errc() || at != end || value > INT64_MAX) return std::nullopt;
  return value;
}

HttpResponse no_number(std::string_view name) {
  return failure(
      {StatusCode::kInvalidArgument, fmt::format("the request's '{}' is no number", name)});
}

// Without an epoch, so that the client tries another worker.
HttpResponse no_memory(const Status& why) {
  return HttpResponse::json(503, encode_peer_error(why));
}

HttpResponse nothing_new() {
  return HttpResponse{.status = 204};
}

template <class T>
HttpResponse failed_answer(const PeerReply<T>& reply) {
  const Status& why = reply.result.error();
  return reply.outcome == PeerOutcome::kNotOwner ? not_owner(why) : failure(why);
}

HttpResponse names_of(ListPage page) {
  ListResponse names{.page = std::move(page)};
  names.age = std::chrono::duration_cast<std::chrono::milliseconds>(names.page.age);
  return HttpResponse::json(200, encode_list_response(names));
}

HttpResponse upkeep_answer(const PeerReply<uint64_t>& reply) {
  HttpResponse response = reply.result ? HttpResponse::json(200, encode_bytes_answer(*reply.result))
                                       : failed_answer(reply);
  put_epoch(reply.epoch, response);
  return response;
}

// An error after the first bytes cannot be reported: it breaks the connection, and the client sees
// a short response.
Task<Result<>> pass_on(Context context, PeerBytes bytes, std::shared_ptr<BodyWriter> writer) {
  Result<Bytes> part = std::move(bytes.first);
  while (part && !part->empty()) {
    LEAT_CO_CHECK_OK(co_await writer->write(*std::move(part)));
    part = co_await bytes.rest->next(context);
  }
  if (!part) co_return Error(part.error());
  co_return Result<>();
}

// Returns the error of a request that was signed but cannot be parsed.
template <class T>
std::optional<HttpResponse> wrong(const Result<T>& parsed) {
  if (parsed) return std::nullopt;
  return failure(parsed.error());
}

}  // namespace

PeerServer::PeerServer(PeerServerDeps deps)
    : deps_(std::move(deps)),
      response_memory_(deps_.response_memory),
      snapshots_({.snapshots = deps_.snapshots,
                  .views = deps_.views,
                  .rejection = [this](const HttpRequest& request,
                                      PrincipalPtr* who) { return rejection(request, "", who); },
                  .worker_only =
                      [this](const HttpRequest& request) {
                        return worker_only(request, "hold snapshots for others");
                      }}),
      writes_({.writes = deps_.service.writes(),
               .views = deps_.views,
               .rejection = [this](const HttpRequest& request,
                                   PrincipalPtr* who) { return rejection(request, "", who); },
               .missing_right =
                   [this](const HttpRequest& request, const Principal& who, const std::string& path,
                          Right right) { return missing_right(request, who, path, right); }}),
      staging_({.staging = deps_.service.staging(),
                .views = deps_.views,
                .worker_only = [this](const HttpRequest& request) {
                  return worker_only(request, "keep staged writes for others");
                }}) {}

HttpRouter PeerServer::router() {
  HttpRouter router;
  router.add("GET", kBytesPath, this, &PeerServer::bytes);
  router.add("POST", kBatchPath, this, &PeerServer::batch);
  router.add("GET", kStatPath, this, &PeerServer::stat);
  router.add("GET", kListPath, this, &PeerServer::list);
  router.add("GET", "/peer/v1/ping", this, &PeerServer::ping);
  router.add("GET", "/peer/v1/cluster", this, &PeerServer::cluster);
  router.add("GET", "/peer/v1/changes", this, &PeerServer::changes);
  router.add("POST", "/peer/v1/changes", this, &PeerServer::post_changes);
  router.add("POST", kCacheOpPath, this, &PeerServer::cache_op);
  router.add("POST", kDropPath, this, &PeerServer::drop);
  router.add("POST", kVerifyPath, this, &PeerServer::verify);
  router.add("POST", kCopyPath, this, &PeerServer::copy);
  snapshots_.add_to(router);
  writes_.add_to(router);
  staging_.add_to(router);
  return router;
}

Result<PrincipalPtr> PeerServer::verified(const HttpRequest& request) const {
  Result<PrincipalPtr> principal = deps_.verifier.verify(request);
  if (!principal) {
    auth_failures.add();
    const StatusCode code = principal.error().code();
    // The peer does not know of our restart yet; it signs again for this process.
    if (code == StatusCode::kBusy || code == StatusCode::kVersionChanged) {
      log::debug("request from {} is for an earlier process: {}", request.peer,
                 principal.error().to_string());
    } else {
      log::warning("audit: request from {} rejected: {}", request.peer,
                   principal.error().to_string());
    }
  }
  return principal;
}

std::optional<HttpResponse> PeerServer::rejection(const HttpRequest& request,
                                                  const std::string& mount,
                                                  PrincipalPtr* who) const {
  Result<PrincipalPtr> principal = verified(request);
  if (!principal && principal.error().code() == StatusCode::kBusy) {
    return not_owner(principal.error());
  }
  if (!principal) return unauthorised(principal.error());
  if (who != nullptr) *who = *principal;
  if (mount.empty()) return std::nullopt;
  return missing_right(request, **principal, mount, Right::kRead);
}

std::optional<HttpResponse> PeerServer::missing_right(const HttpRequest& request,
                                                      const Principal& who, const std::string& path,
                                                      Right right) const {
  if (who.rights.may(path, right)) return std::nullopt;
  auth_failures.add();
  log::warning("audit: {} ({}) may not {} {}", who.name, request.peer, to_string(right), path);
  return failure({StatusCode::kPermissionDenied,
                  fmt::format("{} may not {} {}; ask for a token that has that right", who.name,
                              to_string(right), path)});
}

HttpResponse PeerServer::unauthorised(const Status& why) const {
  const Status answer(StatusCode::kPermissionDenied, why.to_string());
  HttpResponse response = peer_error_response(kHttpUnsigned, answer, 0);
  if (!deps_.verifier.instance().empty()) {
    response.headers.set(kInstanceField, deps_.verifier.instance());
  }
  return response;
}

void PeerServer::set_epoch(HttpResponse& response) const {
  put_epoch(deps_.views.view()->ring.epoch(), response);
}

Task<HttpResponse> PeerServer::ping(Context, HttpRequest request) {
  if (auto rejected = rejection(request, "")) co_return *std::move(rejected);
  co_return nothing_new();
}

// --- bytes and names -----------------------------------------------------------------------------

Task<HttpResponse> PeerServer::bytes(Context context, HttpRequest request) {
  Result<PeerReadRequest> parsed = read_request_from(request);
  if (auto rejected = rejection(request, parsed ? parsed->mount : ""))
    co_return *std::move(rejected);
  if (auto broken = wrong(parsed)) co_return *std::move(broken);
  PeerRead read{.mount = std::move(parsed->mount),
                .file = std::make_shared<const FileRef>(std::move(parsed->file)),
                .range = parsed->range,
                .only_if_cached = parsed->header.only_if_cached,
                .route = route_of(parsed->header)};
  HttpResponse response{.status = 206};
  response.headers.reserve(3);
  response.headers.set("Content-Range", content_range_text({read.range, read.file->size}));
  if (read.range.size >= kSendfileBytesMin) {
    if (auto stored = deps_.service.stored(read)) {
      response.file = HttpFileBody{.owner = std::move(stored->owner),
                                   .fd = stored->fd,
                                   .offset = stored->offset,
                                   .size = read.range.size};
      put_replica_hint(deps_.service.advice(read), response);
      set_epoch(response);
      co_return response;
    }
  }
  const Context bounded = bounded_by(parsed->header, std::move(context));
  const uint64_t size = read.range.size;
  PeerReply<PeerBytes> reply = co_await deps_.service.read_bytes(bounded, read);
  if (auto permit = response_memory_.try_acquire(size)) {
    response.owner = *std::move(permit);
  } else {
    // Frees the bytes during the wait; they are most likely cached afterwards.
    reply = {};
    Result<ResponseMemoryLimiter::Permit> later = co_await response_memory_.acquire(bounded, size);
    if (!later) co_return no_memory(later.error());
    response.owner = *std::move(later);
    reply = co_await deps_.service.read_bytes(bounded, read);
  }
  if (reply.result) put_replica_hint(deps_.service.advice(read), response);
  if (reply.result && reply.result->missed_cache) put_cache_miss(response);
  if (!reply.result) {
    response = failed_answer(reply);
  } else if (reply.result->rest == nullptr) {
    response.bytes = std::move(reply.result->first);
  } else {
    response.stream_bytes = size;
    response.stream = [bounded,
                       bytes = *std::move(reply.result)](std::shared_ptr<BodyWriter> writer) {
      return pass_on(bounded, bytes, std::move(writer));
    };
  }
  set_epoch(response);
  co_return response;
}

Task<HttpResponse> PeerServer::batch(Context context, HttpRequest request) {
  PrincipalPtr who;
  if (auto rejected = rejection(request, "", &who)) co_return *std::move(rejected);
  Result<PeerRequestHeader> terms = request_header_of(request);
  if (auto broken = wrong(terms)) co_return *std::move(broken);
  Result<std::vector<PeerReadRequest>> records = decode_batch(request.body);
  if (auto broken = wrong(records)) co_return *std::move(broken);
  uint64_t bytes = 0;
  for (const PeerReadRequest& record : *records) bytes += record.range.size;
  const Context bounded = bounded_by(*terms, std::move(context));
  HttpResponse response{.status = 200};
  BatchAnswer answer = all_alone(records->size());
  // Sent alone, small records bypass slow readers, and the others wait for memory.
  if (auto permit = response_memory_.try_acquire(bytes)) {
    response.owner = *std::move(permit);
    answer = co_await answer_batch(
        deps_.service, bounded, *terms, *std::move(records),
        [who](const std::string& mount) { return who->rights.may(mount, Right::kRead); });
  }
  response.bytes = encode_batch_answer(answer, true);
  set_epoch(response);
  co_return response;
}

Task<Result<PassedFd>> PeerServer::descriptor(Context, HttpRequest request) {
  Result<PeerReadRequest> parsed = fd_request_from(request);
  if (rejection(request, parsed ? parsed->mount : "")) {
    co_return error(StatusCode::kPermissionDenied, "a request for a descriptor was denied");
  }
  if (!parsed) co_return Error(parsed.error());
  Result<std::shared_ptr<BackingFile>> whole =
      deps_.service.whole_file(parsed->mount, parsed->file);
  if (!whole) co_return Error(whole.error());
  const int fd = (*whole)->fd();
  co_return PassedFd{*std::move(whole), fd};
}

Task<HttpResponse> PeerServer::list(Context context, HttpRequest request) {
  Result<PeerListRequest> parsed = list_request_from(request);
  if (auto rejected = rejection(request, parsed ? parsed->mount : ""))
    co_return *std::move(rejected);
  if (auto broken = wrong(parsed)) co_return *std::move(broken);
  PeerList list{.mount = std::move(parsed->mount),
                .store = parsed->store,
                .prefix = std::move(parsed->prefix),
                .token = std::move(parsed->token),
                .age_max = parsed->age_max,
                .route = route_of(parsed->header)};
  const Context bounded = bounded_by(parsed->header, std::move(context));
  PeerReply<ListPage> reply = co_await deps_.service.list(bounded, std::move(list));
  HttpResponse response = reply.result ? names_of(*std::move(reply.result)) : failed_answer(reply);
  set_epoch(response);
  co_return response;
}

Task<HttpResponse> PeerServer::stat(Context context, HttpRequest request) {
  Result<PeerStatRequest> parsed = stat_request_from(request);
  if (auto rejected = rejection(request, parsed ? parsed->mount : ""))
    co_return *std::move(rejected);
  if (auto broken = wrong(parsed)) co_return *std::move(broken);
  PeerStat stat{.mount = std::move(parsed->mount),
                .store = parsed->store,
                .key = std::move(parsed->key),
                .age_max = parsed->age_max,
                .route = route_of(parsed->header)};
  const Context bounded = bounded_by(parsed->header, std::move(context));
  PeerReply<SourceObject> reply = co_await deps_.service.stat(bounded, std::move(stat));
  HttpResponse response =
      reply.result
          ? HttpResponse::json(200, encode_stat_response({.object = *std::move(reply.result)}))
          : failed_answer(reply);
  set_epoch(response);
  co_return response;
}

// --- views and invalidations -------------------------------------------------------------

Task<HttpResponse> PeerServer::cluster(Context context, HttpRequest request) {
  PrincipalPtr who;
  if (auto rejected = rejection(request, "", &who)) co_return *std::move(rejected);
  const auto after = number_in(request, "after");
  if (!after) co_return no_number("after");
  Result<ClusterViewPtr> view = co_await deps_.views.newer(context.with_timeout(deps_.poll_timeout),
                                                           static_cast<int64_t>(*after));
  // A client that has seen a later revision accepts an earlier one that it receives repeatedly.
  if (!view && deps_.views.view()->revision < static_cast<int64_t>(*after) &&
      deps_.view_is_current()) {
    view = deps_.views.view();
  }
  if (!view) co_return nothing_new();
  const auto may_see = [&](const auto& mount) {
    return who->worker || who->rights.may(mount.first, Right::kRead);
  };
  if (std::ranges::all_of((*view)->mounts, may_see)) {
    co_return HttpResponse::json(200, *document_of(*view));
  }
  // Hides mounts that the client may not read.
  ClusterView seen = **view;
  std::erase_if(seen.mounts, [&](const auto& mount) { return !may_see(mount); });
  co_return HttpResponse::json(200, encode_view(seen));
}

std::shared_ptr<const std::string> PeerServer::document_of(const ClusterViewPtr& view) {
  {
    std::lock_guard lock(mutex_);
    if (view == written_) return document_;
  }
  auto document = std::make_shared<const std::string>(encode_view(*view));
  std::lock_guard lock(mutex_);
  written_ = view;
  document_ = document;
  return document;
}

Task<HttpResponse> PeerServer::changes(Context context, HttpRequest request) {
  PrincipalPtr who;
  if (auto rejected = rejection(request, "", &who)) co_return *std::move(rejected);
  Result<InvalidationsQuery> query = invalidations_query_from(request);
  if (auto broken = wrong(query)) co_return *std::move(broken);
  Result<std::optional<Invalidations>> invalidations =
      co_await deps_.changes.wait_after(std::move(context), query->after, query->wait);
  if (!invalidations) co_return failure(invalidations.error());
  if (!*invalidations) co_return nothing_new();
  std::erase_if((*invalidations)->items, [&](const Invalidation& change) {
    const bool of_a_mount = change.kind != Invalidation::Kind::kAll;
    return of_a_mount && !who->worker && !who->rights.may(change.mount, Right::kRead);
  });
  co_return HttpResponse::json(200, encode_invalidations(**invalidations));
}

std::optional<HttpResponse> PeerServer::worker_only(const HttpRequest& request,
                                                    std::string_view what) const {
  PrincipalPtr who;
  if (auto rejected = rejection(request, "", &who)) return rejected;
  if (who->worker) return std::nullopt;
  auth_failures.add();
  log::warning("audit: {} ({}) is no worker and may not {}", who->name, request.peer, what);
  return failure({StatusCode::kPermissionDenied, fmt::format("only workers {}", what)});
}

Task<HttpResponse> PeerServer::post_changes(Context, HttpRequest request) {
  if (auto rejected = worker_only(request, "publish invalidations")) {
    co_return *std::move(rejected);
  }
  Result<Invalidations> invalidations = decode_invalidations(request.body);
  if (auto broken = wrong(invalidations)) co_return *std::move(broken);
  deps_.on_invalidations(*std::move(invalidations));
  co_return nothing_new();
}

// --- for jobs ------------------------------------------------------------------------------------

Task<HttpResponse> PeerServer::cache_op(Context context, HttpRequest request) {
  if (auto rejected = worker_only(request, "operate on caches")) co_return *std::move(rejected);
  Result<CacheOpRequest> parsed = cache_op_request_from(request);
  if (auto broken = wrong(parsed)) co_return *std::move(broken);
  PeerReadRequest& part = parsed->part;
  PeerCacheOp upkeep{.op = parsed->op,
                     .mount = std::move(part.mount),
                     .file = std::make_shared<const FileRef>(std::move(part.file)),
                     .range = part.range,
                     .route = route_of(part.header)};
  const Context bounded = bounded_by(part.header, std::move(context));
  co_return upkeep_answer(co_await deps_.service.cache_op(bounded, std::move(upkeep)));
}

Task<HttpResponse> PeerServer::drop(Context context, HttpRequest request) {
  if (auto rejected = worker_only(request, "operate on caches")) co_return *std::move(rejected);
  Result<std::vector<FileId>> files = decode_drop(request.body);
  if (auto broken = wrong(files)) co_return *std::move(broken);
  co_return upkeep_answer(co_await deps_.service.drop(std::move(context), *std::move(files)));
}

Task<HttpResponse> PeerServer::verify(Context context, HttpRequest request) {
  if (auto rejected = worker_only(request, "operate on caches")) co_return *std::move(rejected);
  const auto job = number_in(request, "job");
  if (!job) co_return no_number("job");
  PeerReply<VerifyProgress> reply = co_await deps_.service.verify(std::move(context), *job);
  HttpResponse response =
      reply.result ? HttpResponse::json(200, encode_verify(*reply.result)) : failed_answer(reply);
  put_epoch(reply.epoch, response);
  co_return response;
}

Task<HttpResponse> PeerServer::copy(Context context, HttpRequest request) {
  if (auto rejected = worker_only(request, "have files copied")) co_return *std::move(rejected);
  Result<CopyStepRequest> parsed = copy_request_from(request);
  if (auto broken = wrong(parsed)) co_return *std::move(broken);
  PeerCopy copy{.mount = std::move(parsed->mount),
                .file = std::make_shared<const FileRef>(std::move(parsed->file)),
                .range = parsed->range,
                .spec = std::move(parsed->spec)};
  PeerReply<CopyStep> reply = co_await deps_.service.copy(std::move(context), std::move(copy));
  HttpResponse response = reply.result ? HttpResponse::json(200, encode_copy_step(*reply.result))
                                       : failed_answer(reply);
  put_epoch(reply.epoch, response);
  co_return response;
}

}  // namespace leat
