// SPDX-License-Identifier: Apache-2.0
// From the URL of a mount to a source: which schemes there are, what their options mean.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <numeric>

#include "source/file_source.h"
#include "source/opendal_source.h"
#include "source/source.h"

namespace leat {
namespace {

constexpr std::array<std::string_view, 5> kS3Options = {"addressing", "anonymous", "endpoint",
                                                        "profile", "region"};
// OpenDAL puts the region into this one.
constexpr char kAwsEndpoint[] = "https://s3.amazonaws.com";

// Levenshtein's distance.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row.back();
}

Result<> check_options(const StoreUrl& url, std::span<const std::string_view> known) {
  for (const auto& [name, value] : url.options) {
    if (std::ranges::find(known, name) != known.end()) continue;
    if (known.empty()) {
      return error(StatusCode::kInvalidArgument,
                   fmt::format("source {} has option '{}', but {} takes none", url.to_string(),
                               name, url.scheme));
    }
    if (name.contains("key") || name.contains("secret") || name.contains("token")) {
      return error(
          StatusCode::kInvalidArgument,
          fmt::format("source {} has option '{}': credentials are not taken from URLs or "
                      "options; put them into the environment (AWS_ACCESS_KEY_ID …) or into "
                      "~/.aws/credentials and name its profile with profile=",
                      url.to_string(), name));
    }
    auto nearest = std::ranges::min(
        known, {}, [&](std::string_view option) { return edit_distance(name, option); });
    return error(StatusCode::kInvalidArgument,
                 fmt::format("source {} has unknown option '{}'; did you mean '{}'? There are {}",
                             url.to_string(), name, nearest, fmt::join(known, ", ")));
  }
  return {};
}

// The option, or the first of the variables that is set, or `otherwise`.
std::string option_or_environment(const StoreUrl& url, const std::string& option,
                                  std::initializer_list<const char*> variables,
                                  std::string otherwise) {
  if (auto given = url.options.find(option); given != url.options.end()) return given->second;
  for (const char* variable : variables) {
    const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nobody sets it
    if (value != nullptr && *value != '\0') return value;
  }
  return otherwise;
}

// The form in which an endpoint is part of a store's identity: lower case, no default port, no
// slash at the end.
Result<std::string> canonical_endpoint(std::string endpoint) {
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
  return endpoint;
}

// One of two words.
Result<bool> either(const std::string& option, const std::string& value, std::string_view yes,
                    std::string_view no) {
  if (value == yes) return true;
  if (value == no) return false;
  return error(StatusCode::kInvalidArgument,
               fmt::format("option {}={} must be '{}' or '{}'", option, value, yes, no));
}

Result<SourcePtr> open_s3(const StoreUrl& url, std::string_view salt) {
  LEAT_CHECK_OK(check_options(url, kS3Options));
  auto option = [&](const std::string& name, const std::string& otherwise) {
    return option_or_environment(url, name, {}, otherwise);
  };
  OpendalConfig config;
  config.scheme = "s3";
  config.bucket = url.bucket;
  std::string endpoint = option_or_environment(
      url, "endpoint", {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, kAwsEndpoint);
  LEAT_TRY(config.endpoint, canonical_endpoint(std::move(endpoint)));
  config.region =
      option_or_environment(url, "region", {"AWS_REGION", "AWS_DEFAULT_REGION"}, "us-east-1");
  config.profile = option("profile", "");
  LEAT_TRY(config.anonymous, either("anonymous", option("anonymous", "false"), "true", "false"));
  // A bucket with a dot does not fit into the certificate of a virtual host.
  bool path = config.endpoint != kAwsEndpoint || config.bucket.contains('.');
  std::string addressing = option("addressing", path ? "path" : "virtual");
  LEAT_TRY(config.virtual_host, either("addressing", addressing, "virtual", "path"));
  return OpendalSource::open(std::move(config), salt);
}

}  // namespace

Result<SourcePtr> open_source(const StoreUrl& url, std::string_view salt) {
  if (url.scheme == "s3") return open_s3(url, salt);
  if (url.scheme == "file") {
    LEAT_CHECK_OK(check_options(url, {}));
    return std::make_shared<FileSource>(salt);
  }
  return error(StatusCode::kInvalidArgument,
               fmt::format("source {}: '{}' is not a known scheme; there are file and s3",
                           url.to_string(), url.scheme));
}

}  // namespace leat
