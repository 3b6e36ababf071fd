// SPDX-License-Identifier: Apache-2.0
#include "source/stores/url_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "config/nearest.h"

namespace leat {

Result<> check_options(const StoreUrl& url, std::span<const std::string_view> known,
                       std::string_view credentials) {
  for (const auto& [name, value] : url.options) {
    if (std::ranges::find(known, name) != known.end()) continue;
    if (name.contains("key") || name.contains("secret") || name.contains("token")) {
      return error(StatusCode::kInvalidArgument,
                   fmt::format("source {} has option '{}': credentials are not taken from URLs or "
                               "options; they come from {}",
                               url.to_string(), name, credentials));
    }
    auto nearest = std::ranges::min(
        known, {}, [&](std::string_view option) { return edit_distance(name, option); });
    return error(StatusCode::kInvalidArgument,
                 fmt::format("source {} has unknown option '{}'; did you mean '{}'? There are {}",
                             url.to_string(), name, nearest, fmt::join(known, ", ")));
  }
  return {};
}

std::string option_or_environment(const StoreUrl& url, const std::string& option,
                                  std::initializer_list<const char*> variables,
                                  std::string otherwise) {
  if (auto given = url.options.find(option); given != url.options.end()) return given->second;
  for (const char* variable : variables) {
    const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): it is never set
    if (value != nullptr && *value != '\0') return value;
  }
  return otherwise;
}

Result<std::string> canonical_endpoint(std::string endpoint, bool path) {
  const size_t authority = endpoint.find("://");
  const size_t path_at = path && authority != std::string::npos ? endpoint.find('/', authority + 3)
                                                                : std::string::npos;
  const std::string path_part = path_at == std::string::npos ? "" : endpoint.substr(path_at);
  endpoint.resize(std::min(path_at, endpoint.size()));
  std::ranges::transform(endpoint, endpoint.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  while (endpoint.ends_with('/')) endpoint.pop_back();
  std::string_view rest = endpoint;
  std::string_view default_port = ":443";
  if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
    default_port = ":80";
  } else if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
  } else {
    rest = {};
  }
  if (rest.contains('@')) {
    return error(StatusCode::kInvalidArgument,
                 "an endpoint may not hold credentials; give them in the environment or a "
                 "credentials file");
  }
  if (rest.empty() || rest.find_first_of("/?# ") != std::string_view::npos) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("endpoint '{}' is not of the form http[s]://host[:port]", endpoint));
  }
  if (rest.ends_with(default_port)) endpoint.resize(endpoint.size() - default_port.size());
  endpoint += path_part;
  while (endpoint.ends_with('/')) endpoint.pop_back();
  return endpoint;
}

Result<bool> either(const std::string& option, const std::string& value, std::string_view yes,
                    std::string_view no) {
  if (value == yes) return true;
  if (value == no) return false;
  return error(StatusCode::kInvalidArgument,
               fmt::format("option {}={} must be '{}' or '{}'", option, value, yes, no));
}

}  // namespace leat
