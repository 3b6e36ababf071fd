// SPDX-License-Identifier: Apache-2.0
#include "doors/peer/peer_door.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "doors/peer/batch_answers.h"
#include "peer/name_pages.h"
#include "peer/peer_error.h"
#include "peer/read_request.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// From this size on the kernel sends from the file; below, copying is cheaper than a second call.
constexpr uint64_t kSendfileBytesMin = 32 * kKiB;

Counter refused_requests("leat_peer_refused_requests_total",
                         "Requests of clients and workers that were refused, as not signed or "
                         "not allowed");

HttpResponse failure(const Status& why) {
  return peer_error_response(why, 0);
}
HttpResponse misdirected(const Status& why) {
  return peer_error_response(kHttpMisdirected, why, 0);
}

Context bounded_by(const PeerTerms& terms, Context context) {
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
HttpResponse no_room(const Status& why) {
  return HttpResponse::json(503, encode_peer_error(why));
}

HttpResponse nothing_new() {
  return HttpResponse{.status = 204};
}

template <class T>
HttpResponse failed_answer(const PeerReply<T>& reply) {
  const Status& why = reply.result.error();
  return reply.reach == PeerReach::kMisdirected ? misdirected(why) : failure(why);
}

HttpResponse names_of(ListPage page) {
  NamePage names{.page = std::move(page)};
  names.age = std::chrono::duration_cast<std::chrono::milliseconds>(names.page.age);
  return HttpResponse::json(200, encode_name_page(names));
}

HttpResponse upkeep_answer(const PeerReply<uint64_t>& reply) {
  HttpResponse response = reply.result ? HttpResponse::json(200, encode_upkeep_bytes(*reply.result))
                                       : failed_answer(reply);
  put_epoch(reply.epoch, response);
  return response;
}

// An error after the first bytes cannot be reported: it breaks the connection, and the client sees
// a short answer.
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

PeerDoor::PeerDoor(PeerDoorParts parts)
    : parts_(std::move(parts)),
      answers_(parts_.answers),
      snapshots_({.keeper = parts_.snapshots,
                  .map = parts_.map,
                  .refusal = [this](const HttpRequest& request,
                                    PrincipalPtr* who) { return refusal(request, "", who); },
                  .worker_only =
                      [this](const HttpRequest& request) {
                        return worker_only(request, "hold snapshots for others");
                      }}) {}

HttpRouter PeerDoor::router() {
  HttpRouter router;
  router.add("GET", kBytesPath, this, &PeerDoor::bytes);
  router.add("POST", kBatchPath, this, &PeerDoor::batch);
  router.add("GET", kStatPath, this, &PeerDoor::stat);
  router.add("GET", kListPath, this, &PeerDoor::list);
  router.add("GET", "/peer/v1/ping", this, &PeerDoor::ping);
  router.add("GET", "/peer/v1/cluster", this, &PeerDoor::cluster);
  router.add("GET", "/peer/v1/changes", this, &PeerDoor::changes);
  router.add("POST", "/peer/v1/changes", this, &PeerDoor::take_changes);
  router.add("POST", kUpkeepPath, this, &PeerDoor::upkeep);
  router.add("POST", kDropPath, this, &PeerDoor::drop);
  router.add("POST", kVerifyPath, this, &PeerDoor::verify);
  router.add("POST", kCopyPath, this, &PeerDoor::copy);
  snapshots_.add_to(router);
  return router;
}

Result<PrincipalPtr> PeerDoor::verified(const HttpRequest& request) const {
  Result<PrincipalPtr> principal = parts_.verifier.verify(request);
  if (!principal) {
    refused_requests.add();
    const StatusCode code = principal.error().code();
    // The peer does not know of our restart yet; it signs again for this process.
    if (code == StatusCode::kBusy || code == StatusCode::kChanged) {
      log::debug("request from {} is for an earlier process: {}", request.peer,
                 principal.error().to_string());
    } else {
      log::warning("audit: a request of {} is refused: {}", request.peer,
                   principal.error().to_string());
    }
  }
  return principal;
}

std::optional<HttpResponse> PeerDoor::refusal(const HttpRequest& request, const std::string& mount,
                                              PrincipalPtr* who) const {
  Result<PrincipalPtr> principal = verified(request);
  if (!principal && principal.error().code() == StatusCode::kBusy) {
    return misdirected(principal.error());
  }
  if (!principal) return unauthorised(principal.error());
  if (who != nullptr) *who = *principal;
  if (mount.empty() || (*principal)->rights.may(mount, Right::kRead)) return std::nullopt;
  refused_requests.add();
  log::warning("audit: {} ({}) may not read {}", (*principal)->name, request.peer, mount);
  return failure({StatusCode::kPermissionDenied,
                  fmt::format("{} may not read {}; ask for a token that has that right",
                              (*principal)->name, mount)});
}

HttpResponse PeerDoor::unauthorised(const Status& why) const {
  const Status answer(StatusCode::kPermissionDenied, why.to_string());
  HttpResponse response = peer_error_response(kHttpUnsigned, answer, 0);
  if (!parts_.verifier.instance().empty()) {
    response.headers.set(kInstanceField, parts_.verifier.instance());
  }
  return response;
}

void PeerDoor::set_epoch(HttpResponse& response) const {
  put_epoch(parts_.map.view()->ring.epoch(), response);
}

Task<HttpResponse> PeerDoor::ping(Context, HttpRequest request) {
  if (auto refused = refusal(request, "")) co_return *std::move(refused);
  co_return nothing_new();
}

// --- bytes and names -----------------------------------------------------------------------------

Task<HttpResponse> PeerDoor::bytes(Context context, HttpRequest request) {
  Result<PeerReadRequest> parsed = read_request_from(request);
  if (auto refused = refusal(request, parsed ? parsed->mount : "")) co_return *std::move(refused);
  if (auto broken = wrong(parsed)) co_return *std::move(broken);
  PeerRead read{.mount = std::move(parsed->mount),
                .file = std::make_shared<const FileRef>(std::move(parsed->file)),
                .range = parsed->range,
                .only_if_cached = parsed->terms.only_if_cached,
                .route = route_of(parsed->terms)};
  HttpResponse response{.status = 206};
  response.headers.reserve(3);
  response.headers.set("Content-Range", content_range_text({read.range, read.file->size}));
  if (read.range.size >= kSendfileBytesMin) {
    if (auto stored = parts_.own.stored(read)) {
      response.file = HttpFileBody{.owner = std::move(stored->owner),
                                   .fd = stored->fd,
                                   .offset = stored->offset,
                                   .size = read.range.size};
      put_advice(parts_.own.advice(read), response);
      set_epoch(response);
      co_return response;
    }
  }
  const Context bounded = bounded_by(parsed->terms, std::move(context));
  const uint64_t size = read.range.size;
  PeerReply<PeerBytes> reply = co_await parts_.own.read_bytes(bounded, read);
  if (auto room = answers_.try_enter(size)) {
    response.held = *std::move(room);
  } else {
    // Frees the bytes during the wait; they are most likely cached afterwards.
    reply = {};
    Result<AnswerRoom::Share> later = co_await answers_.enter(bounded, size);
    if (!later) co_return no_room(later.error());
    response.held = *std::move(later);
    reply = co_await parts_.own.read_bytes(bounded, read);
  }
  if (reply.result) put_advice(parts_.own.advice(read), response);
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

Task<HttpResponse> PeerDoor::batch(Context context, HttpRequest request) {
  PrincipalPtr who;
  if (auto refused = refusal(request, "", &who)) co_return *std::move(refused);
  Result<PeerTerms> terms = terms_of(request);
  if (auto broken = wrong(terms)) co_return *std::move(broken);
  Result<std::vector<PeerReadRequest>> records = decode_batch(request.body);
  if (auto broken = wrong(records)) co_return *std::move(broken);
  uint64_t bytes = 0;
  for (const PeerReadRequest& record : *records) bytes += record.range.size;
  const Context bounded = bounded_by(*terms, std::move(context));
  HttpResponse response{.status = 200};
  BatchAnswer answer = all_alone(records->size());
  // Sent alone, small records bypass slow readers, and the others wait for room.
  if (auto room = answers_.try_enter(bytes)) {
    response.held = *std::move(room);
    answer = co_await answer_batch(
        parts_.own, bounded, *terms, *std::move(records),
        [who](const std::string& mount) { return who->rights.may(mount, Right::kRead); });
  }
  response.bytes = encode_batch_answer(answer, true);
  set_epoch(response);
  co_return response;
}

Task<Result<HandedFile>> PeerDoor::descriptor(Context, HttpRequest request) {
  Result<PeerReadRequest> parsed = descriptor_request_from(request);
  if (refusal(request, parsed ? parsed->mount : "")) {
    co_return error(StatusCode::kPermissionDenied, "a request for a descriptor was refused");
  }
  if (!parsed) co_return Error(parsed.error());
  Result<std::shared_ptr<BackingFile>> whole = parts_.own.whole_file(parsed->mount, parsed->file);
  if (!whole) co_return Error(whole.error());
  const int fd = (*whole)->fd();
  co_return HandedFile{*std::move(whole), fd};
}

Task<HttpResponse> PeerDoor::list(Context context, HttpRequest request) {
  Result<PeerListRequest> parsed = list_request_from(request);
  if (auto refused = refusal(request, parsed ? parsed->mount : "")) co_return *std::move(refused);
  if (auto broken = wrong(parsed)) co_return *std::move(broken);
  PeerList list{.mount = std::move(parsed->mount),
                .store = parsed->store,
                .prefix = std::move(parsed->prefix),
                .token = std::move(parsed->token),
                .age_max = parsed->age_max,
                .route = route_of(parsed->terms)};
  const Context bounded = bounded_by(parsed->terms, std::move(context));
  PeerReply<ListPage> reply = co_await parts_.own.list(bounded, std::move(list));
  HttpResponse response = reply.result ? names_of(*std::move(reply.result)) : failed_answer(reply);
  set_epoch(response);
  co_return response;
}

Task<HttpResponse> PeerDoor::stat(Context context, HttpRequest request) {
  Result<PeerStatRequest> parsed = stat_request_from(request);
  if (auto refused = refusal(request, parsed ? parsed->mount : "")) co_return *std::move(refused);
  if (auto broken = wrong(parsed)) co_return *std::move(broken);
  PeerStat stat{.mount = std::move(parsed->mount),
                .store = parsed->store,
                .key = std::move(parsed->key),
                .age_max = parsed->age_max,
                .route = route_of(parsed->terms)};
  const Context bounded = bounded_by(parsed->terms, std::move(context));
  PeerReply<SourceObject> reply = co_await parts_.own.stat(bounded, std::move(stat));
  HttpResponse response =
      reply.result ? HttpResponse::json(200, encode_name_stat({.object = *std::move(reply.result)}))
                   : failed_answer(reply);
  set_epoch(response);
  co_return response;
}

// --- what there is, and what changes -------------------------------------------------------------

Task<HttpResponse> PeerDoor::cluster(Context context, HttpRequest request) {
  PrincipalPtr who;
  if (auto refused = refusal(request, "", &who)) co_return *std::move(refused);
  const auto after = number_in(request, "after");
  if (!after) co_return no_number("after");
  Result<ClusterViewPtr> view = co_await parts_.map.newer(context.with_timeout(parts_.poll_time),
                                                          static_cast<int64_t>(*after));
  // A client that has seen a later revision accepts an earlier one that it receives repeatedly.
  if (!view && parts_.map.view()->revision < static_cast<int64_t>(*after) && parts_.follows()) {
    view = parts_.map.view();
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

std::shared_ptr<const std::string> PeerDoor::document_of(const ClusterViewPtr& view) {
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

Task<HttpResponse> PeerDoor::changes(Context context, HttpRequest request) {
  PrincipalPtr who;
  if (auto refused = refusal(request, "", &who)) co_return *std::move(refused);
  Result<ChangesQuery> query = changes_query_from(request);
  if (auto broken = wrong(query)) co_return *std::move(broken);
  Result<std::optional<PeerChanges>> news =
      co_await parts_.changes.wait_after(std::move(context), query->after, query->wait);
  if (!news) co_return failure(news.error());
  if (!*news) co_return nothing_new();
  std::erase_if((*news)->changes, [&](const PeerChange& change) {
    const bool of_a_mount = change.kind != PeerChange::Kind::kAll;
    return of_a_mount && !who->worker && !who->rights.may(change.mount, Right::kRead);
  });
  co_return HttpResponse::json(200, encode_changes(**news));
}

std::optional<HttpResponse> PeerDoor::worker_only(const HttpRequest& request,
                                                  std::string_view what) const {
  PrincipalPtr who;
  if (auto refused = refusal(request, "", &who)) return refused;
  if (who->worker) return std::nullopt;
  refused_requests.add();
  log::warning("audit: {} ({}) is no worker and may not {}", who->name, request.peer, what);
  return failure({StatusCode::kPermissionDenied, fmt::format("only workers {}", what)});
}

Task<HttpResponse> PeerDoor::take_changes(Context, HttpRequest request) {
  if (auto refused = worker_only(request, "tell of what has changed")) {
    co_return *std::move(refused);
  }
  Result<PeerChanges> news = decode_changes(request.body);
  if (auto broken = wrong(news)) co_return *std::move(broken);
  parts_.told(*std::move(news));
  co_return nothing_new();
}

// --- for jobs ------------------------------------------------------------------------------------

Task<HttpResponse> PeerDoor::upkeep(Context context, HttpRequest request) {
  if (auto refused = worker_only(request, "look after caches")) co_return *std::move(refused);
  Result<UpkeepRequest> parsed = upkeep_request_from(request);
  if (auto broken = wrong(parsed)) co_return *std::move(broken);
  PeerReadRequest& part = parsed->part;
  PeerUpkeep upkeep{.action = parsed->action,
                    .mount = std::move(part.mount),
                    .file = std::make_shared<const FileRef>(std::move(part.file)),
                    .range = part.range,
                    .route = route_of(part.terms)};
  const Context bounded = bounded_by(part.terms, std::move(context));
  co_return upkeep_answer(co_await parts_.own.upkeep(bounded, std::move(upkeep)));
}

Task<HttpResponse> PeerDoor::drop(Context context, HttpRequest request) {
  if (auto refused = worker_only(request, "look after caches")) co_return *std::move(refused);
  Result<std::vector<FileId>> files = decode_drop(request.body);
  if (auto broken = wrong(files)) co_return *std::move(broken);
  co_return upkeep_answer(co_await parts_.own.drop(std::move(context), *std::move(files)));
}

Task<HttpResponse> PeerDoor::verify(Context context, HttpRequest request) {
  if (auto refused = worker_only(request, "look after caches")) co_return *std::move(refused);
  const auto job = number_in(request, "job");
  if (!job) co_return no_number("job");
  PeerReply<UpkeepVerify> reply = co_await parts_.own.verify(std::move(context), *job);
  HttpResponse response =
      reply.result ? HttpResponse::json(200, encode_verify(*reply.result)) : failed_answer(reply);
  put_epoch(reply.epoch, response);
  co_return response;
}

Task<HttpResponse> PeerDoor::copy(Context context, HttpRequest request) {
  if (auto refused = worker_only(request, "have files copied")) co_return *std::move(refused);
  Result<CopyStepRequest> parsed = copy_request_from(request);
  if (auto broken = wrong(parsed)) co_return *std::move(broken);
  PeerCopy copy{.mount = std::move(parsed->mount),
                .file = std::make_shared<const FileRef>(std::move(parsed->file)),
                .range = parsed->range,
                .goal = std::move(parsed->goal)};
  PeerReply<CopyStep> reply = co_await parts_.own.copy(std::move(context), std::move(copy));
  HttpResponse response = reply.result ? HttpResponse::json(200, encode_copy_step(*reply.result))
                                       : failed_answer(reply);
  put_epoch(reply.epoch, response);
  co_return response;
}

}  // namespace leat
