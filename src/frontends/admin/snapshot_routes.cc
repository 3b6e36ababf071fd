// SPDX-License-Identifier: Apache-2.0
#include "frontends/admin/snapshot_routes.h"

#include "frontends/admin/request_body.h"

namespace leat {

void SnapshotRoutes::add_to(HttpRouter& router) {
  router.add("GET", "/v1/snapshots", [this](Context context, HttpRequest request) {
    return list(std::move(context), std::move(request));
  });
  router.add("DELETE", "/v1/snapshots", [this](Context context, HttpRequest request) {
    return remove(std::move(context), std::move(request));
  });
  router.add("POST", "/v1/snapshots/use", [this](Context context, HttpRequest request) {
    return use(std::move(context), std::move(request));
  });
}

Task<HttpResponse> SnapshotRoutes::list(Context context, HttpRequest) {
  Result<std::vector<SnapshotView>> all = co_await daemon_.snapshots(std::move(context));
  if (!all) co_return error_response(all.error());
  Json list = Json::array();
  for (const SnapshotView& snapshot : *all) list.push_back(to_json(snapshot));
  co_return HttpResponse::json(200, dump_json({{"snapshots", list}}));
}

Task<HttpResponse> SnapshotRoutes::use(Context context, HttpRequest request) {
  Result<SnapshotUse> wanted = body_of(request, &SnapshotUse::path);
  if (!wanted) co_return error_response(wanted.error());
  Result<> used = co_await daemon_.use_snapshot(std::move(context), *std::move(wanted));
  if (!used) co_return error_response(used.error());
  co_return HttpResponse::json(200, "{}");
}

Task<HttpResponse> SnapshotRoutes::remove(Context context, HttpRequest request) {
  Result<> removed = co_await daemon_.remove_snapshot(std::move(context), request.query["name"]);
  if (!removed) co_return error_response(removed.error());
  co_return HttpResponse::json(200, "{}");
}

}  // namespace leat
