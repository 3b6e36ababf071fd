// SPDX-License-Identifier: Apache-2.0
#include "frontends/peer/peer_snapshot_routes.h"

#include <fmt/format.h>

#include <algorithm>

#include "peer/mounts/mount_lookup.h"
#include "wire/cache_op.h"
#include "wire/peer_error.h"
#include "wire/peer_request_header.h"
#include "wire/read_request.h"

namespace leat {
namespace {

bool may(const PrincipalPtr& who, const std::string& mount, Right right) {
  return who->worker || who->rights.may(mount, right);
}

}  // namespace

void PeerSnapshotRoutes::add_to(HttpRouter& router) {
  router.add("GET", kSnapshotsPath, this, &PeerSnapshotRoutes::list);
  router.add("POST", kSnapshotsPath, this, &PeerSnapshotRoutes::build);
  router.add("DELETE", kSnapshotsPath, this, &PeerSnapshotRoutes::remove);
  router.add("POST", kHoldSnapshotPath, this, &PeerSnapshotRoutes::hold);
  router.add("GET", kSnapshotFilePath, this, &PeerSnapshotRoutes::file);
}

HttpResponse PeerSnapshotRoutes::failure(const Status& why) const {
  return peer_error_response(why, deps_.views.view()->ring.epoch());
}

std::optional<HttpResponse> PeerSnapshotRoutes::missing() const {
  if (deps_.snapshots != nullptr) return std::nullopt;
  return failure({StatusCode::kUnsupported, "this worker keeps no snapshots"});
}

Task<HttpResponse> PeerSnapshotRoutes::list(Context context, HttpRequest request) {
  PrincipalPtr who;
  if (auto rejected = deps_.rejection(request, &who)) co_return *std::move(rejected);
  if (auto none = missing()) co_return *std::move(none);
  PeerReply<std::vector<SharedSnapshot>> reply = co_await deps_.snapshots->list(std::move(context));
  if (!reply.result) co_return failure(reply.result.error());
  std::erase_if(*reply.result,
                [&](const SharedSnapshot& one) { return !may(who, one.mount, Right::kRead); });
  HttpResponse response = HttpResponse::json(200, encode_snapshots(*reply.result));
  put_epoch(reply.epoch, response);
  co_return response;
}

Task<HttpResponse> PeerSnapshotRoutes::build(Context context, HttpRequest request) {
  PrincipalPtr who;
  if (auto rejected = deps_.rejection(request, &who)) co_return *std::move(rejected);
  if (auto none = missing()) co_return *std::move(none);
  Result<SnapshotRequest> build_request = snapshot_request_from(request);
  if (!build_request) co_return failure(build_request.error());
  Result<PeerRequestHeader> terms = request_header_of(request);
  if (!terms) co_return failure(terms.error());
  const ClusterViewPtr view = deps_.views.view();
  const ResolvedKey at = resolve_key(*view, build_request->folder);
  if (at.mount == nullptr || !may(who, at.mount->path, Right::kRead)) {
    co_return failure({StatusCode::kPermissionDenied,
                       fmt::format("{} may not read /{}, or nothing is mounted there", who->name,
                                   build_request->folder)});
  }
  build_request->may_replace = may(who, at.mount->path, Right::kWrite);
  PeerReply<SnapshotBuild> reply =
      co_await deps_.snapshots->build(std::move(context), *std::move(build_request),
                                      {.epoch = terms->epoch, .failover_for = terms->failover_for});
  if (!reply.result) {
    const Status& why = reply.result.error();
    co_return reply.outcome == PeerOutcome::kNotOwner
        ? peer_error_response(kHttpMisdirected, why, reply.epoch)
        : failure(why);
  }
  HttpResponse response = HttpResponse::json(200, encode_snapshot_build(*reply.result));
  put_epoch(reply.epoch, response);
  co_return response;
}

Task<HttpResponse> PeerSnapshotRoutes::remove(Context context, HttpRequest request) {
  PrincipalPtr who;
  if (auto rejected = deps_.rejection(request, &who)) co_return *std::move(rejected);
  if (auto none = missing()) co_return *std::move(none);
  const std::string name = request.query["name"];
  PeerReply<std::vector<SharedSnapshot>> all = co_await deps_.snapshots->list(context);
  if (!all.result) co_return failure(all.result.error());
  const auto found = std::ranges::find(*all.result, name, &SharedSnapshot::name);
  if (found != all.result->end() && !may(who, found->mount, Right::kWrite)) {
    co_return failure({StatusCode::kPermissionDenied,
                       fmt::format("{} may not remove snapshots of {}: that takes the right to "
                                   "write there",
                                   who->name, found->mount)});
  }
  PeerReply<uint64_t> reply = co_await deps_.snapshots->remove(std::move(context), name);
  if (!reply.result) co_return failure(reply.result.error());
  HttpResponse response = HttpResponse::json(200, encode_bytes_answer(*reply.result));
  put_epoch(reply.epoch, response);
  co_return response;
}

Task<HttpResponse> PeerSnapshotRoutes::hold(Context context, HttpRequest request) {
  if (auto rejected = deps_.worker_only(request)) co_return *std::move(rejected);
  if (auto none = missing()) co_return *std::move(none);
  Result<SharedSnapshot> snapshot = decode_snapshot(request.body);
  if (!snapshot) co_return failure(snapshot.error());
  PeerReply<uint64_t> reply =
      co_await deps_.snapshots->hold(std::move(context), *std::move(snapshot));
  if (!reply.result) co_return failure(reply.result.error());
  HttpResponse response = HttpResponse::json(200, encode_bytes_answer(*reply.result));
  put_epoch(reply.epoch, response);
  co_return response;
}

Task<HttpResponse> PeerSnapshotRoutes::file(Context, HttpRequest request) {
  PrincipalPtr who;
  if (auto rejected = deps_.rejection(request, &who)) co_return *std::move(rejected);
  if (auto none = missing()) co_return *std::move(none);
  const auto id = Id128::from_hex(request.query["id"]);
  if (!id) co_return failure({StatusCode::kInvalidArgument, "the request's 'id' is none"});
  Result<ByteRange> range = parse_range(request.headers.find("range").value_or(""));
  if (!range) co_return failure(range.error());
  const auto held = deps_.snapshots->find_stored(*id);
  if (!held || !may(who, held->record.mount, Right::kRead)) {
    co_return failure({StatusCode::kNotFound, "this worker does not hold that snapshot"});
  }
  const uint64_t size = held->record.file_bytes;
  if (range->empty() || range->size > kSnapshotPieceBytes || range->offset > size ||
      range->size > size - range->offset) {
    co_return failure({StatusCode::kOutOfRange, "the range is not within the snapshot's file"});
  }
  HttpResponse response{.status = 206};
  response.headers.set("Content-Range", content_range_text({*range, size}));
  response.file = HttpFileBody{
      .owner = held->file, .fd = held->file->fd(), .offset = range->offset, .size = range->size};
  put_epoch(deps_.views.view()->ring.epoch(), response);
  co_return response;
}

}  // namespace leat
