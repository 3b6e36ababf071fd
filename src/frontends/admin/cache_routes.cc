// SPDX-License-Identifier: Apache-2.0
#include "frontends/admin/cache_routes.h"

#include <algorithm>
#include <map>

#include "model/mount_entry.h"

namespace leat {
namespace {

// Keeps a page well below the client's limit for one answer, 64 MiB.
constexpr size_t kObjectsMax = 10'000;

}  // namespace

void CacheRoutes::add_to(HttpRouter& router) {
  router.add("GET", "/v1/cache/objects", [this](Context context, HttpRequest request) {
    return list(std::move(context), std::move(request));
  });
  router.add("POST", "/v1/cache/evict", [this](Context context, HttpRequest request) {
    return evict(std::move(context), std::move(request));
  });
}

Task<HttpResponse> CacheRoutes::list(Context context, HttpRequest request) {
  Result<ObjectPage> page =
      co_await daemon_.cached_objects(std::move(context), request.query["after"], kObjectsMax);
  if (!page) co_return error_response(page.error());
  std::map<PoolId, std::string> mounts;
  for (const PoolStats& pool : daemon_.status().cache.pools) mounts[pool.id] = pool.policy.name;
  CachedListView list{.next = std::move(page->next)};
  for (const CachedObject& object : page->objects) {
    list.objects.push_back(view_of(object, mounts[object.ref.pool]));
  }
  co_return HttpResponse::json(200, dump_json(to_json(list)));
}

Task<HttpResponse> CacheRoutes::evict(Context context, HttpRequest request) {
  Result<Json> json = parse_json(request.body, "the request's body");
  if (!json) co_return error_response(json.error());
  Result<EvictRequest> wanted = from_json<EvictRequest>(*json);
  if (!wanted) co_return error_response(wanted.error());
  if (!wanted->mount.empty()) {
    Result<std::string> path = normalise_path(wanted->mount);
    if (!path) co_return error_response(path.error());
    wanted->mount = std::move(*path);
  }
  Result<EvictView> evicted = co_await daemon_.evict(std::move(context), *std::move(wanted));
  if (!evicted) co_return error_response(evicted.error());
  co_return HttpResponse::json(200, dump_json(to_json(*evicted)));
}

}  // namespace leat
