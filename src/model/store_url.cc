// SPDX-License-Identifier: Apache-2.0
#include "model/store_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

namespace leat {
namespace {

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

// Decodes '%' and two hexadecimal digits to a byte; keeps any other '%'.
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
                   "an option in the source's query is not of the form option=value; a '?' of the "
                   "path is written %3F");
    }
    options[std::string(pair.substr(0, equals))] = percent_decode(pair.substr(equals + 1));
  }
  return {};
}

// Encodes `key` so that parsing the result gives `key` again.
std::string percent_encode(std::string_view key) {
  std::string out;
  for (size_t i = 0; i < key.size(); ++i) {
    const bool is_escape =
        key[i] == '%' && i + 2 < key.size() && hex_digit(key[i + 1]) && hex_digit(key[i + 2]);
    if (key[i] == '?') {
      out += "%3F";
    } else if (is_escape) {
      out += "%25";
    } else {
      out += key[i];
    }
  }
  return out;
}

bool is_scheme(std::string_view text) {
  auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !text.empty() && is_letter(text[0]) && std::ranges::all_of(text, [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  });
}

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return small;
}

// Returns the URL meant by "s3:/bucket" or "s3:bucket", which lack slashes. Empty for anything
// else.
std::string meant_by(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || !is_scheme(text.substr(0, colon))) return "";
  std::string_view rest = text.substr(colon + 1);
  rest.remove_prefix(std::min(rest.find_first_not_of('/'), rest.size()));
  // Do not quote a possible password.
  if (rest.empty() || rest.contains('@')) return "";
  const std::string scheme = in_small_letters(text.substr(0, colon));
  return fmt::format("{}://{}{}", scheme, scheme == "file" ? "/" : "", rest);
}

// abfs://container@account… and sftp://user@host have a name before the '@', not credentials.
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
  // A path is taken literally, including '?' and '%'.
  const bool is_path = text.starts_with('/') || scheme_end == std::string_view::npos;
  if (is_path) {
    if (!text.starts_with('/')) {
      const std::string meant = meant_by(text);
      return error(StatusCode::kInvalidArgument,
                   meant.empty()
                       ? fmt::format("'{}' is not a source; write a URL such as "
                                     "s3://bucket/prefix, or an absolute path",
                                     text)
                       : fmt::format("'{}' is not a source; did you mean '{}'?", text, meant));
    }
    url.scheme = "file";
  } else {
    url.scheme = std::string(text.substr(0, scheme_end));
    rest = text.substr(scheme_end + 3);
    // Check this before any text is quoted: messages are logged.
    if (holds_credentials(url.scheme, rest.substr(0, rest.find('/')))) {
      return error(StatusCode::kInvalidArgument,
                   "a source URL may not hold credentials; give them in the environment or a "
                   "credentials file");
    }
    if (std::string small = in_small_letters(url.scheme); small != url.scheme) {
      return error(StatusCode::kInvalidArgument,
                   fmt::format("scheme '{0}' of a source is written in small letters; did you mean "
                               "'{1}://{2}'?",
                               url.scheme, small, rest));
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
  url.prefix = is_path ? std::string(rest) : percent_decode(rest);
  if (url.prefix.contains('\0')) {
    return error(StatusCode::kInvalidArgument, "a source's path may not hold a zero byte (%00)");
  }
  if (!url.prefix.empty() && !url.prefix.ends_with('/')) url.prefix += '/';
  return url;
}

std::string StoreUrl::to_string() const {
  return fmt::format("{}://{}/{}", scheme, bucket, percent_encode(prefix));
}

}  // namespace leat
