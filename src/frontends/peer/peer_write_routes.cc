// SPDX-License-Identifier: Apache-2.0
#include "frontends/peer/peer_write_routes.h"

#include "http/status_codes.h"
#include "model/mount_entry.h"
#include "wire/peer_error.h"
#include "wire/peer_request_header.h"
#include "wire/write_request.h"

namespace leat {
namespace {

Context bounded_by(const PeerRequestHeader& header, Context context) {
  return header.timeout.count() > 0 ? context.with_timeout(header.timeout) : context;
}

}  // namespace

void PeerWriteRoutes::add_to(HttpRouter& router) {
  router.add("POST", kWritePath, this, &PeerWriteRoutes::write);
  router.add("POST", kChangePath, this, &PeerWriteRoutes::change);
}

HttpResponse PeerWriteRoutes::failure(const Status& why) const {
  return peer_error_response(why, deps_.views.view()->ring.epoch());
}

HttpResponse PeerWriteRoutes::answer(const PeerReply<SourceObject>& reply) const {
  if (!reply.result) {
    const Status& why = reply.result.error();
    // A store that is busy is no reason to ask another worker.
    const bool is_elsewhere = reply.outcome == PeerOutcome::kNotOwner;
    const int status = is_elsewhere ? kHttpMisdirected : http_status_of(why.code());
    return peer_error_response(status, why, reply.epoch);
  }
  HttpResponse response = HttpResponse::json(200, encode_change_answer(*reply.result));
  put_epoch(reply.epoch, response);
  return response;
}

std::string PeerWriteRoutes::path_of(const std::string& mount, std::string_view key) const {
  const ClusterViewPtr view = deps_.views.view();
  const auto found = view->mounts.find(mount);
  if (found == view->mounts.end() || !key.starts_with(found->second.prefix)) return mount;
  key.remove_prefix(found->second.prefix.size());
  if (key.ends_with('/')) key.remove_suffix(1);
  return join_path(mount, key);
}

Task<HttpResponse> PeerWriteRoutes::write(Context context, HttpRequest request) {
  PrincipalPtr who;
  if (auto rejected = deps_.rejection(request, &who)) co_return *std::move(rejected);
  Result<PeerWrite> write = write_from(request);
  if (!write) co_return failure(write.error());
  Result<PeerRequestHeader> header = request_header_of(request);
  if (!header) co_return failure(header.error());
  const std::string path = path_of(write->mount, write->key);
  if (auto missing = deps_.missing_right(request, *who, path, Right::kWrite)) {
    co_return *std::move(missing);
  }
  if (deps_.writes == nullptr) {
    co_return failure({StatusCode::kUnsupported, "this worker takes no writes"});
  }
  const Context bounded = bounded_by(*header, std::move(context));
  PeerReply<SourceObject> reply = co_await deps_.writes->write(
      bounded, *std::move(write), route_of(*header), std::as_bytes(std::span(request.body)));
  co_return answer(reply);
}

Task<HttpResponse> PeerWriteRoutes::change(Context context, HttpRequest request) {
  PrincipalPtr who;
  if (auto rejected = deps_.rejection(request, &who)) co_return *std::move(rejected);
  Result<PeerChange> change = change_from(request);
  if (!change) co_return failure(change.error());
  Result<PeerRequestHeader> header = request_header_of(request);
  if (!header) co_return failure(header.error());
  for (size_t i = 0; i < change->keys.size(); ++i) {
    const bool is_read = change->op == ChangeOp::kCopy && i == 0;
    const std::string path = path_of(change->mount, change->keys[i]);
    auto missing = deps_.missing_right(request, *who, path, is_read ? Right::kRead : Right::kWrite);
    if (missing) co_return *std::move(missing);
  }
  if (change->keys.empty()) {
    auto missing = deps_.missing_right(request, *who, change->mount, Right::kWrite);
    if (missing) co_return *std::move(missing);
  }
  if (deps_.writes == nullptr) {
    co_return failure({StatusCode::kUnsupported, "this worker takes no writes"});
  }
  const Context bounded = bounded_by(*header, std::move(context));
  PeerReply<SourceObject> reply =
      co_await deps_.writes->change(bounded, *std::move(change), route_of(*header));
  co_return answer(reply);
}

}  // namespace leat
