// SPDX-License-Identifier: Apache-2.0
#include "http/endpoint.h"

#include <fmt/format.h>

#include <charconv>

namespace leat {

Result<HttpEndpoint> HttpEndpoint::parse(std::string_view text) {
  constexpr std::string_view kUnix = "unix:";
  if (text.starts_with(kUnix)) {
    std::string_view path = text.substr(kUnix.size());
    if (!path.starts_with('/')) {
      return error(StatusCode::kInvalidArgument,
                   fmt::format("'{}' needs an absolute path: unix:/path", text));
    }
    return unix_socket(std::string(path));
  }
  size_t colon = text.rfind(':');
  HttpEndpoint endpoint;
  if (colon != std::string_view::npos && colon != 0) {
    std::string_view host = text.substr(0, colon), port = text.substr(colon + 1);
    bool bracketed = host.starts_with('[') && host.ends_with(']');
    if (bracketed) host = host.substr(1, host.size() - 2);
    auto [end, failed] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
    bool whole = failed == std::errc() && end == port.data() + port.size();
    if (whole && !host.empty() && (bracketed || !host.contains(':'))) {
      endpoint.host = std::string(host);
      return endpoint;
    }
  }
  return error(
      StatusCode::kInvalidArgument,
      fmt::format("'{}' is not an address; write host:port, [ipv6]:port or unix:/path", text));
}

std::string HttpEndpoint::to_string() const {
  if (!unix_path.empty()) return "unix:" + unix_path;
  if (host.contains(':')) return fmt::format("[{}]:{}", host, port);
  return fmt::format("{}:{}", host, port);
}

bool HttpEndpoint::local() const {
  return !unix_path.empty() || host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace leat
