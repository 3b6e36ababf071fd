// SPDX-License-Identifier: Apache-2.0
#include "http/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace leat {
namespace {

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> components;
  path.remove_prefix(std::min<size_t>(path.size(), 1));
  while (true) {
    std::string_view component = path.substr(0, path.find('/'));
    components.emplace_back(component);
    if (component.size() == path.size()) return components;
    path.remove_prefix(component.size() + 1);
  }
}

bool is_param(std::string_view component) {
  return component.starts_with('{') && component.ends_with('}');
}

using Params = std::map<std::string, std::string>;

std::optional<Params> match(const std::vector<std::string>& pattern,
                            const std::vector<std::string>& path) {
  if (pattern.size() != path.size()) return std::nullopt;
  Params params;
  for (size_t i = 0; i < path.size(); ++i) {
    if (is_param(pattern[i]) && !path[i].empty()) {
      params[pattern[i].substr(1, pattern[i].size() - 2)] = path[i];
    } else if (pattern[i] != path[i]) {
      return std::nullopt;
    }
  }
  return params;
}

}  // namespace

void HttpRouter::add(std::string method, std::string pattern, HttpHandler handler) {
  routes_.push_back({std::move(method), split(pattern), std::move(handler)});
}

Task<HttpResponse> HttpRouter::handle(Context context, HttpRequest request) const {
  std::vector<std::string> path = split(request.path);
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  std::string allowed;
  for (const Route& route : routes_) {
    auto params = match(route.components, path);
    if (!params) continue;
    if (route.method == method) {
      request.params = std::move(*params);
      HttpResponse response = co_await route.handler(std::move(context), std::move(request));
      co_return response;
    }
    allowed += (allowed.empty() ? "" : ", ") + route.method;
  }
  if (rest_) {
    HttpResponse response = co_await rest_(std::move(context), std::move(request));
    co_return response;
  }
  if (allowed.empty()) {
    co_return HttpResponse::failure(404, "not_found",
                                    fmt::format("there is nothing at {}", request.path));
  }
  HttpResponse refused = HttpResponse::failure(
      405, "unsupported",
      fmt::format("{} does not take {}; it takes {}", request.path, request.method, allowed));
  refused.headers.set("Allow", allowed);
  co_return refused;
}

}  // namespace leat
