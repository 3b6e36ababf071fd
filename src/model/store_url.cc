// SPDX-License-Identifier: Apache-2.0
#include "model/store_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace leat {
namespace {

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

// Query values, and paths of web servers: bucket and prefix are taken literally, as every S3 tool
// does.
std::string percent_decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      auto high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
      if (high && low) {
        out += static_cast<char>(*high * 16 + *low);
        i += 2;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

Result<> parse_query(std::string_view query, std::map<std::string, std::string>& options) {
  while (!query.empty()) {
    std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    if (pair.empty()) continue;
    size_t equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return error(StatusCode::kInvalidArgument,
                   "an option in the source's query is not of the form option=value");
    }
    options[std::string(pair.substr(0, equals))] = percent_decode(pair.substr(equals + 1));
  }
  return {};
}

// abfs://container@account… and sftp://user@host name things with what stands before the '@'.
bool holds_credentials(std::string_view scheme, std::string_view authority) {
  const size_t at = authority.find('@');
  if (scheme == "file" || at == std::string_view::npos) return false;
  const bool names = scheme == "abfs" || scheme == "sftp";
  return !names || authority.substr(0, at).contains(':');
}

}  // namespace

Result<StoreUrl> StoreUrl::parse(std::string_view text) {
  StoreUrl url;
  std::string_view rest = text;
  size_t scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos) {
    if (!text.starts_with('/')) {
      return error(
          StatusCode::kInvalidArgument,
          fmt::format("'{}' is not a source; write a URL such as s3://bucket/prefix, or an "
                      "absolute path",
                      text));
    }
    url.scheme = "file";  // a plain path is taken literally, '?' and all
  } else {
    url.scheme = std::string(text.substr(0, scheme_end));
    rest = text.substr(scheme_end + 3);
    // Before anything is quoted: messages are logged.
    if (holds_credentials(url.scheme, rest.substr(0, rest.find('/')))) {
      return error(StatusCode::kInvalidArgument,
                   "a source URL may not hold credentials; give them in the environment or a "
                   "credentials file");
    }
    size_t query = rest.find('?');
    if (query != std::string_view::npos) {
      LEAT_CHECK_OK(parse_query(rest.substr(query + 1), url.options));
      rest = rest.substr(0, query);
    }
  }
  if (url.scheme != "file") {
    size_t slash = std::min(rest.find('/'), rest.size());
    url.bucket = std::string(rest.substr(0, slash));
    rest = rest.substr(std::min(rest.size(), slash + 1));
    if (url.bucket.empty()) {
      return error(StatusCode::kInvalidArgument,
                   fmt::format("the source names no bucket; write {}://bucket/prefix", url.scheme));
    }
  } else if (!rest.starts_with('/')) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("source 'file://{}' needs an absolute path: file:///path", rest));
  } else {
    rest.remove_prefix(1);
  }
  // Other URLs name keys as they are; these are what a browser shows.
  const bool is_web = url.scheme == "http" || url.scheme == "https";
  url.prefix = is_web ? percent_decode(rest) : std::string(rest);
  if (!url.prefix.empty() && !url.prefix.ends_with('/')) url.prefix += '/';
  return url;
}

std::string StoreUrl::to_string() const {
  return fmt::format("{}://{}/{}", scheme, bucket, prefix);
}

}  // namespace leat
