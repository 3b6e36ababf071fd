// SPDX-License-Identifier: Apache-2.0
#include "frontends/peer/peer_staging_routes.h"

#include "http/status_codes.h"
#include "wire/cache_op.h"
#include "wire/peer_error.h"
#include "wire/peer_request_header.h"
#include "wire/read_request.h"
#include "wire/write_request.h"

namespace leat {
namespace {

std::string bytes_text(const uint64_t& bytes) {
  return encode_bytes_answer(bytes);
}

Context bounded_by(const HttpRequest& request, Context context) {
  const Result<PeerRequestHeader> header = request_header_of(request);
  const bool is_bounded = header && header->timeout.count() > 0;
  return is_bounded ? context.with_timeout(header->timeout) : context;
}

}  // namespace

void PeerStagingRoutes::add_to(HttpRouter& router) {
  router.add("POST", kStagedAppendPath, this, &PeerStagingRoutes::append);
  router.add("GET", kStagedEventsPath, this, &PeerStagingRoutes::events);
  router.add("POST", kStagedWaitPath, this, &PeerStagingRoutes::wait);
  router.add("POST", kStagedReplicatePath, this, &PeerStagingRoutes::replicate);
  router.add("POST", kStagedContentPath, this, &PeerStagingRoutes::put_content);
  router.add("DELETE", kStagedContentPath, this, &PeerStagingRoutes::drop_content);
  router.add("GET", kStagedContentPath, this, &PeerStagingRoutes::read_content);
  router.add("POST", kStagedSendPath, this, &PeerStagingRoutes::send);
}

HttpResponse PeerStagingRoutes::failure(const Status& why) const {
  return peer_error_response(why, deps_.views.view()->ring.epoch());
}

std::optional<HttpResponse> PeerStagingRoutes::rejection(const HttpRequest& request) const {
  if (auto rejected = deps_.worker_only(request)) return rejected;
  if (deps_.staging != nullptr) return std::nullopt;
  return failure({StatusCode::kUnsupported, "this worker keeps no staged writes"});
}

template <class T>
HttpResponse PeerStagingRoutes::answer(const PeerReply<T>& reply,
                                       std::string (*encode)(const T&)) const {
  if (!reply.result) {
    const Status& why = reply.result.error();
    if (reply.outcome != PeerOutcome::kNotOwner) return failure(why);
    return peer_error_response(kHttpMisdirected, why, deps_.views.view()->ring.epoch());
  }
  HttpResponse response = HttpResponse::json(200, encode(*reply.result));
  put_epoch(deps_.views.view()->ring.epoch(), response);
  return response;
}

Task<HttpResponse> PeerStagingRoutes::append(Context context, HttpRequest request) {
  if (auto rejected = rejection(request)) co_return *std::move(rejected);
  Result<StagedAppend> append = staged_append_from(request);
  if (!append) co_return failure(append.error());
  const Context bounded = bounded_by(request, std::move(context));
  PeerReply<SourceObject> reply = co_await deps_.staging->append(bounded, *std::move(append));
  co_return answer(reply, &encode_change_answer);
}

Task<HttpResponse> PeerStagingRoutes::events(Context context, HttpRequest request) {
  if (auto rejected = rejection(request)) co_return *std::move(rejected);
  Result<StagedEventsRequest> wanted = staged_events_request_from(request);
  if (!wanted) co_return failure(wanted.error());
  PeerReply<StagedEvents> reply =
      co_await deps_.staging->events(std::move(context), *std::move(wanted));
  co_return answer(reply, &encode_staged_events);
}

Task<HttpResponse> PeerStagingRoutes::wait(Context context, HttpRequest request) {
  if (auto rejected = rejection(request)) co_return *std::move(rejected);
  Result<StagedWait> wanted = staged_wait_from(request);
  if (!wanted) co_return failure(wanted.error());
  const Context bounded = bounded_by(request, std::move(context));
  PeerReply<uint64_t> reply = co_await deps_.staging->wait_sent(bounded, *std::move(wanted));
  co_return answer(reply, &bytes_text);
}

Task<HttpResponse> PeerStagingRoutes::replicate(Context context, HttpRequest request) {
  if (auto rejected = rejection(request)) co_return *std::move(rejected);
  Result<StagedReplicate> events = staged_replicate_from(request);
  if (!events) co_return failure(events.error());
  PeerReply<uint64_t> reply =
      co_await deps_.staging->replicate(std::move(context), *std::move(events));
  co_return answer(reply, &bytes_text);
}

Task<HttpResponse> PeerStagingRoutes::put_content(Context context, HttpRequest request) {
  if (auto rejected = rejection(request)) co_return *std::move(rejected);
  const Result<StagedPiece> piece = staged_piece_from(request);
  if (!piece) co_return failure(piece.error());
  PeerReply<uint64_t> reply = co_await deps_.staging->put_content(
      std::move(context), *piece, std::as_bytes(std::span(request.body)));
  co_return answer(reply, &bytes_text);
}

Task<HttpResponse> PeerStagingRoutes::drop_content(Context context, HttpRequest request) {
  if (auto rejected = rejection(request)) co_return *std::move(rejected);
  const auto id = Id128::from_hex(request.query["id"]);
  if (!id) co_return failure({StatusCode::kInvalidArgument, "the request's 'id' is none"});
  PeerReply<uint64_t> reply = co_await deps_.staging->drop_content(std::move(context), *id);
  co_return answer(reply, &bytes_text);
}

Task<HttpResponse> PeerStagingRoutes::read_content(Context context, HttpRequest request) {
  if (auto rejected = rejection(request)) co_return *std::move(rejected);
  const auto id = Id128::from_hex(request.query["id"]);
  if (!id) co_return failure({StatusCode::kInvalidArgument, "the request's 'id' is none"});
  const Result<ByteRange> range = parse_range(request.headers.find("range").value_or(""));
  if (!range) co_return failure(range.error());
  if (range->empty() || range->size > kStagedPieceBytesMax) {
    co_return failure({StatusCode::kOutOfRange, "the range is too large for one request"});
  }
  PeerReply<std::string> reply =
      co_await deps_.staging->read_content(std::move(context), *id, *range);
  if (!reply.result) co_return failure(reply.result.error());
  HttpResponse response{.status = 206};
  response.body = *std::move(reply.result);
  put_epoch(deps_.views.view()->ring.epoch(), response);
  co_return response;
}

Task<HttpResponse> PeerStagingRoutes::send(Context context, HttpRequest request) {
  if (auto rejected = rejection(request)) co_return *std::move(rejected);
  Result<StagedSend> wanted = staged_send_from(request);
  if (!wanted) co_return failure(wanted.error());
  const Context bounded = bounded_by(request, std::move(context));
  PeerReply<SourceObject> reply = co_await deps_.staging->send_content(bounded, *std::move(wanted));
  co_return answer(reply, &encode_change_answer);
}

}  // namespace leat
