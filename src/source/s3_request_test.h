// SPDX-License-Identifier: Apache-2.0
// S3Request: a client's request to BadStore, parsed as strictly as the standards allow (RFC 9110,
// 9112; the API reference of S3), and its violations.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace leat::testing {

struct S3Request {
  // `head` with its empty line; `authority` is the host.
  static S3Request parse(std::string_view head, const std::string& authority, bool is_signed);

  bool is_listing() const { return method == "GET" && key.empty(); }
  bool is_head() const { return method == "HEAD"; }
  bool is_read() const { return method == "GET" && !key.empty(); }
  std::string header(const std::string& name) const {
    auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
  std::string parameter(const std::string& name) const {
    auto found = query.find(name);
    return found == query.end() ? "" : found->second;
  }
  // Equal for identical requests.
  std::string identity() const { return fmt::format("{} {} {}", method, target, header("range")); }

  std::string method, target, bucket, key;
  std::map<std::string, std::string> query, headers;
  uint64_t first = 0, last = 0;  // of a read's range
  std::string complaint;         // the first violation; empty if there is none

 private:
  void complain(std::string text) {
    if (complaint.empty()) complaint = std::move(text);
  }
  std::optional<std::string> decoded(std::string_view text);
  void take_target();
  void take_headers(std::string_view lines);
  void check_host(const std::string& authority);
  void check_read();
  void check_listing();
  void check_signature(bool is_signed);
};

inline S3Request S3Request::parse(std::string_view head, const std::string& authority,
                                  bool is_signed) {
  S3Request request;
  const size_t end = head.find("\r\n");
  const std::string_view line = head.substr(0, end);
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || !line.ends_with(" HTTP/1.1")) {
    request.complain("no request line of HTTP/1.1");
    return request;
  }
  request.method = line.substr(0, space);
  request.target = line.substr(space + 1, line.size() - space - 10);
  if (request.method != "GET" && request.method != "HEAD") request.complain("another method");
  request.take_target();
  request.take_headers(head.substr(end + 2));
  request.check_host(authority);
  if (request.is_read()) request.check_read();
  if (request.is_listing()) request.check_listing();
  if (request.headers.contains("content-length") || request.headers.contains("transfer-encoding")) {
    request.complain("a body where none belongs");
  }
  request.check_signature(is_signed);
  return request;
}

inline std::optional<std::string> S3Request::decoded(std::string_view text) {
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '%') {
      unsigned code = 0;
      const char* digits = text.data() + at + 1;
      if (at + 2 >= text.size() ||
          std::from_chars(digits, digits + 2, code, 16).ptr != digits + 2) {
        return std::nullopt;
      }
      plain += static_cast<char>(code);
      at += 2;
    } else if (c <= ' ' || c > '~' || c == '"' || c == '<' || c == '>' || c == '#') {
      return std::nullopt;
    } else {
      plain += c;
    }
  }
  return plain;
}

inline void S3Request::take_target() {
  const size_t question = target.find('?');
  const auto path = decoded(std::string_view(target).substr(0, question));
  if (!path || !path->starts_with('/')) return complain("a path that is none");
  const size_t slash = path->find('/', 1);
  bucket = path->substr(1, slash - 1);
  if (slash != std::string::npos) key = path->substr(slash + 1);
  if (question == std::string::npos) return;
  std::string_view rest = std::string_view(target).substr(question + 1);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    const size_t equals = pair.find('=');
    const auto name = decoded(pair.substr(0, equals));
    const auto value = equals == std::string_view::npos ? "" : decoded(pair.substr(equals + 1));
    if (!name || !value) return complain("a query that is none");
    if (!query.emplace(*name, *value).second) complain("the parameter " + *name + " twice");
  }
}

inline void S3Request::take_headers(std::string_view lines) {
  static const std::set<std::string> kOnce = {"host",     "range",      "if-match",
                                              "accept",   "user-agent", "authorization",
                                              "if-range", "x-amz-date", "x-amz-content-sha256"};
  while (!lines.starts_with("\r\n")) {
    const std::string_view line = lines.substr(0, lines.find("\r\n"));
    lines.remove_prefix(line.size() + 2);
    const size_t colon = line.find(':');
    if (colon == 0 || colon == std::string_view::npos) return complain("a header that is none");
    std::string name;
    for (char c : line.substr(0, colon)) {
      if (c <= ' ' || c > '~') complain("a header's name that is none");
      name += static_cast<char>(std::tolower(c));
    }
    std::string_view value = line.substr(colon + 1);
    while (value.starts_with(' ')) value.remove_prefix(1);
    for (char c : value) {
      if (c >= 0 && c < ' ') complain("a control character in " + name);
    }
    if (!headers.emplace(name, value).second && kOnce.contains(name)) {
      complain("the header " + name + " twice");
    }
  }
}

inline void S3Request::check_host(const std::string& authority) {
  if (header("host") != authority) complain("the host '" + header("host") + "'");
}

inline void S3Request::check_read() {
  const std::string range = header("range");
  unsigned long long from = 0, to = 0;
  int used = 0;
  if (std::sscanf(range.c_str(), "bytes=%llu-%llu%n", &from, &to, &used) != 2 ||
      static_cast<size_t>(used) != range.size() || from > to) {
    return complain("the range '" + range + "'");
  }
  first = from;
  last = to;
  if (!query.empty()) complain("a read with a query");
}

inline void S3Request::check_listing() {
  static const std::set<std::string> kKnown = {"list-type", "prefix",      "delimiter",
                                               "max-keys",  "start-after", "continuation-token"};
  for (const auto& [name, value] : query) {
    if (!kKnown.contains(name)) complain("a listing with " + name);
  }
  if (parameter("list-type") != "2") complain("a listing of another type");
  if (const std::string most = parameter("max-keys"); !most.empty()) {
    if (most.find_first_not_of("0123456789") != std::string::npos || most.size() > 4) {
      complain("max-keys=" + most);
    }
  }
}

inline void S3Request::check_signature(bool is_signed) {
  const std::string authorization = header("authorization");
  if (!is_signed) {
    if (!authorization.empty()) complain("a signature that nobody asked for");
    return;
  }
  if (!authorization.starts_with("AWS4-HMAC-SHA256 Credential=")) return complain("no signature");
  const size_t names_at = authorization.find("SignedHeaders=");
  const size_t signature_at = authorization.find("Signature=");
  if (names_at == std::string::npos || signature_at == std::string::npos ||
      authorization.size() - signature_at != 10 + 64) {
    return complain("a signature with parts missing");
  }
  std::string_view names = std::string_view(authorization).substr(names_at + 14);
  names = names.substr(0, names.find(','));
  std::set<std::string, std::less<>> given;
  for (size_t at = 0; at <= names.size();) {
    const size_t end = std::min(names.find(';', at), names.size());
    given.emplace(names.substr(at, end - at));
    at = end + 1;
  }
  for (const std::string& name : given) {
    if (!headers.contains(name)) complain("a signature of " + name + ", which is not there");
  }
  for (const char* name : {"host", "x-amz-date", "x-amz-content-sha256"}) {
    if (!given.contains(name)) complain(std::string("a signature that leaves out ") + name);
  }
}

}  // namespace leat::testing
