// SPDX-License-Identifier: Apache-2.0
#include "frontends/admin/mount_routes.h"

#include "frontends/admin/request_body.h"

namespace leat {
namespace {

HttpResponse answer(int status, const Result<MountView>& view) {
  if (!view) return error_response(view.error());
  return HttpResponse::json(status, dump_json(to_json(*view)));
}

}  // namespace

void MountRoutes::add_to(HttpRouter& router) {
  auto add = [&](const char* method, const char* path,
                 Task<HttpResponse> (MountRoutes::*does)(Context, HttpRequest)) {
    router.add(method, path, [this, does](Context context, HttpRequest request) {
      return (this->*does)(std::move(context), std::move(request));
    });
  };
  add("GET", "/v1/mounts", &MountRoutes::list);
  add("POST", "/v1/mounts", &MountRoutes::mount);
  add("DELETE", "/v1/mounts", &MountRoutes::unmount);
  add("POST", "/v1/mounts/change", &MountRoutes::change);
  add("POST", "/v1/mounts/move", &MountRoutes::move);
  add("POST", "/v1/mounts/flush", &MountRoutes::flush);
}

Task<HttpResponse> MountRoutes::list(Context, HttpRequest) {
  Json list = Json::array();
  for (const MountView& mount : daemon_.mounts()) list.push_back(to_json(mount));
  co_return HttpResponse::json(200, dump_json({{"mounts", list}}));
}

Task<HttpResponse> MountRoutes::mount(Context context, HttpRequest request) {
  Result<MountRequest> wanted = body_of(request, &MountRequest::path);
  if (!wanted) co_return error_response(wanted.error());
  Result<MountView> mounted = co_await daemon_.mount(std::move(context), *std::move(wanted));
  co_return answer(201, mounted);
}

Task<HttpResponse> MountRoutes::unmount(Context context, HttpRequest request) {
  Result<std::string> path = normalise_path(request.query["path"]);
  if (!path) co_return error_response(path.error());
  bool lazy = request.query["lazy"] == "1";
  Result<> gone = co_await daemon_.unmount(std::move(context), std::move(*path), lazy);
  if (!gone) co_return error_response(gone.error());
  co_return HttpResponse::json(200, "{}");
}

Task<HttpResponse> MountRoutes::change(Context context, HttpRequest request) {
  Result<MountChange> wanted = body_of(request, &MountChange::path);
  if (!wanted) co_return error_response(wanted.error());
  Result<MountView> changed = co_await daemon_.change_mount(std::move(context), *std::move(wanted));
  co_return answer(200, changed);
}

Task<HttpResponse> MountRoutes::move(Context context, HttpRequest request) {
  Result<MountMove> wanted = body_of(request, &MountMove::from, &MountMove::to);
  if (!wanted) co_return error_response(wanted.error());
  Result<MountView> moved = co_await daemon_.move_mount(std::move(context), *std::move(wanted));
  co_return answer(200, moved);
}

Task<HttpResponse> MountRoutes::flush(Context context, HttpRequest request) {
  Result<FlushRequest> wanted = body_of(request, &FlushRequest::path);
  if (!wanted) co_return error_response(wanted.error());
  const Result<FlushView> flushed = co_await daemon_.flush(std::move(context), *std::move(wanted));
  if (!flushed) co_return error_response(flushed.error());
  co_return HttpResponse::json(200, dump_json(to_json(*flushed)));
}

}  // namespace leat
