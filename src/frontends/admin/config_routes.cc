// SPDX-License-Identifier: Apache-2.0
#include "frontends/admin/config_routes.h"

#include "frontends/admin/codec.h"

namespace leat {

void ConfigRoutes::add_to(HttpRouter& router) {
  router.add("GET", "/v1/config", [this](Context context, HttpRequest request) {
    return list(std::move(context), std::move(request));
  });
  router.add("POST", "/v1/config/reload", [this](Context context, HttpRequest request) {
    return reload(std::move(context), std::move(request));
  });
}

Task<HttpResponse> ConfigRoutes::list(Context, HttpRequest) {
  Json options = Json::array();
  for (const OptionView& option : daemon_.options()) options.push_back(to_json(option));
  co_return HttpResponse::json(200, dump_json({{"options", options}}));
}

Task<HttpResponse> ConfigRoutes::reload(Context, HttpRequest) {
  Result<ReloadView> read = daemon_.reload_options();
  if (!read) co_return error_response(read.error());
  co_return HttpResponse::json(200, dump_json(to_json(*read)));
}

}  // namespace leat
