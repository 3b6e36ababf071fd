// SPDX-License-Identifier: Apache-2.0
#include "doors/peer/snapshots/snapshot_door.h"

#include <fmt/format.h>

#include <algorithm>

#include "peer/mounts/mount_lookup.h"
#include "peer/peer_error.h"
#include "peer/peer_terms.h"
#include "peer/read_request.h"
#include "peer/upkeep.h"

namespace leat {
namespace {

bool may(const PrincipalPtr& who, const std::string& mount, Right right) {
  return who->worker || who->rights.may(mount, right);
}

}  // namespace

void SnapshotDoor::add_to(HttpRouter& router) {
  router.add("GET", kSnapshotsPath, this, &SnapshotDoor::list);
  router.add("POST", kSnapshotsPath, this, &SnapshotDoor::build);
  router.add("DELETE", kSnapshotsPath, this, &SnapshotDoor::remove);
  router.add("POST", kHoldSnapshotPath, this, &SnapshotDoor::hold);
  router.add("GET", kSnapshotFilePath, this, &SnapshotDoor::file);
}

HttpResponse SnapshotDoor::failure(const Status& why) const {
  return peer_error_response(why, parts_.map.view()->ring.epoch());
}

std::optional<HttpResponse> SnapshotDoor::missing() const {
  if (parts_.keeper != nullptr) return std::nullopt;
  return failure({StatusCode::kUnsupported, "this worker keeps no snapshots"});
}

Task<HttpResponse> SnapshotDoor::list(Context context, HttpRequest request) {
  PrincipalPtr who;
  if (auto refused = parts_.refusal(request, &who)) co_return *std::move(refused);
  if (auto none = missing()) co_return *std::move(none);
  PeerReply<std::vector<SharedSnapshot>> reply = co_await parts_.keeper->list(std::move(context));
  if (!reply.result) co_return failure(reply.result.error());
  std::erase_if(*reply.result,
                [&](const SharedSnapshot& one) { return !may(who, one.mount, Right::kRead); });
  HttpResponse response = HttpResponse::json(200, encode_snapshots(*reply.result));
  put_epoch(reply.epoch, response);
  co_return response;
}

Task<HttpResponse> SnapshotDoor::build(Context context, HttpRequest request) {
  PrincipalPtr who;
  if (auto refused = parts_.refusal(request, &who)) co_return *std::move(refused);
  if (auto none = missing()) co_return *std::move(none);
  Result<SnapshotOrder> order = snapshot_order_from(request);
  if (!order) co_return failure(order.error());
  Result<PeerTerms> terms = terms_of(request);
  if (!terms) co_return failure(terms.error());
  const ClusterViewPtr view = parts_.map.view();
  const MountedKey at = find_mounted(*view, order->folder);
  if (at.mount == nullptr || !may(who, at.mount->path, Right::kRead)) {
    co_return failure({StatusCode::kPermissionDenied,
                       fmt::format("{} may not read /{}, or nothing is mounted there", who->name,
                                   order->folder)});
  }
  order->may_replace = may(who, at.mount->path, Right::kWrite);
  PeerReply<SnapshotBuild> reply = co_await parts_.keeper->build(
      std::move(context), *std::move(order), {.epoch = terms->epoch, .instead = terms->instead});
  if (!reply.result) {
    const Status& why = reply.result.error();
    co_return reply.reach == PeerReach::kMisdirected
        ? peer_error_response(kHttpMisdirected, why, reply.epoch)
        : failure(why);
  }
  HttpResponse response = HttpResponse::json(200, encode_snapshot_build(*reply.result));
  put_epoch(reply.epoch, response);
  co_return response;
}

Task<HttpResponse> SnapshotDoor::remove(Context context, HttpRequest request) {
  PrincipalPtr who;
  if (auto refused = parts_.refusal(request, &who)) co_return *std::move(refused);
  if (auto none = missing()) co_return *std::move(none);
  const std::string name = request.query["name"];
  PeerReply<std::vector<SharedSnapshot>> all = co_await parts_.keeper->list(context);
  if (!all.result) co_return failure(all.result.error());
  const auto found = std::ranges::find(*all.result, name, &SharedSnapshot::name);
  if (found != all.result->end() && !may(who, found->mount, Right::kWrite)) {
    co_return failure({StatusCode::kPermissionDenied,
                       fmt::format("{} may not remove snapshots of {}: that takes the right to "
                                   "write there",
                                   who->name, found->mount)});
  }
  PeerReply<uint64_t> reply = co_await parts_.keeper->remove(std::move(context), name);
  if (!reply.result) co_return failure(reply.result.error());
  HttpResponse response = HttpResponse::json(200, encode_upkeep_bytes(*reply.result));
  put_epoch(reply.epoch, response);
  co_return response;
}

Task<HttpResponse> SnapshotDoor::hold(Context context, HttpRequest request) {
  if (auto refused = parts_.worker_only(request)) co_return *std::move(refused);
  if (auto none = missing()) co_return *std::move(none);
  Result<SharedSnapshot> snapshot = decode_snapshot(request.body);
  if (!snapshot) co_return failure(snapshot.error());
  PeerReply<uint64_t> reply =
      co_await parts_.keeper->hold(std::move(context), *std::move(snapshot));
  if (!reply.result) co_return failure(reply.result.error());
  HttpResponse response = HttpResponse::json(200, encode_upkeep_bytes(*reply.result));
  put_epoch(reply.epoch, response);
  co_return response;
}

Task<HttpResponse> SnapshotDoor::file(Context, HttpRequest request) {
  PrincipalPtr who;
  if (auto refused = parts_.refusal(request, &who)) co_return *std::move(refused);
  if (auto none = missing()) co_return *std::move(none);
  const auto id = Id128::from_hex(request.query["id"]);
  if (!id) co_return failure({StatusCode::kInvalidArgument, "the request's 'id' is none"});
  Result<ByteRange> range = parse_range(request.headers.find("range").value_or(""));
  if (!range) co_return failure(range.error());
  const auto held = parts_.keeper->held(*id);
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
  put_epoch(parts_.map.view()->ring.epoch(), response);
  co_return response;
}

}  // namespace leat
