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

// Removes the first component from `path`. Returns false after the last one.
bool next_component(std::optional<std::string_view>& path, std::string_view& component) {
  if (!path) return false;
  component = path->substr(0, path->find('/'));
  if (component.size() == path->size()) {
    path.reset();
  } else {
    path->remove_prefix(component.size() + 1);
  }
  return true;
}

// Allocates nothing, so that routes that do not match are cheap.
bool matches(const std::vector<std::string>& pattern, std::string_view path) {
  path.remove_prefix(std::min<size_t>(path.size(), 1));
  std::optional<std::string_view> left = path;
  std::string_view component;
  for (const std::string& wanted : pattern) {
    if (!next_component(left, component)) return false;
    if (component != wanted && (component.empty() || !is_param(wanted))) return false;
  }
  return !left;
}

void fill_params(const std::vector<std::string>& pattern, HttpRequest& request) {
  std::string_view path = request.path;
  path.remove_prefix(std::min<size_t>(path.size(), 1));
  std::optional<std::string_view> left = path;
  std::string_view component;
  for (const std::string& name : pattern) {
    next_component(left, component);
    if (is_param(name)) request.params[name.substr(1, name.size() - 2)] = component;
  }
}

}  // namespace

void HttpRouter::add(std::string method, std::string pattern, HttpHandler handler) {
  routes_.push_back({std::move(method), split(pattern), std::move(handler)});
}

Task<HttpResponse> HttpRouter::handle(Context context, HttpRequest request) const {
  std::string_view method = request.method;
  if (method == "HEAD") method = "GET";
  std::string allowed;
  for (const Route& route : routes_) {
    if (!matches(route.components, request.path)) continue;
    if (route.method == method) {  // dangles after the move of the request
      fill_params(route.components, request);
      HttpResponse response = co_await route.handler(std::move(context), std::move(request));
      co_return response;
    }
    allowed += (allowed.empty() ? "" : ", ") + route.method;
  }
  if (fallback_) {
    HttpResponse response = co_await fallback_(std::move(context), std::move(request));
    co_return response;
  }
  if (allowed.empty()) {
    co_return HttpResponse::failure(404, "not_found",
                                    fmt::format("there is nothing at {}", request.path));
  }
  HttpResponse rejected = HttpResponse::failure(
      405, "unsupported",
      fmt::format("{} does not take {}; it takes {}", request.path, request.method, allowed));
  rejected.headers.set("Allow", allowed);
  co_return rejected;
}

}  // namespace leat
