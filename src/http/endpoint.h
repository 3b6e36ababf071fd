// SPDX-License-Identifier: Apache-2.0
// HttpEndpoint: an address to listen on or to connect to: a Unix socket, or host and port.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace leat {

struct HttpEndpoint {
  std::string unix_path;  // if not empty, the rest is not used
  std::string host;       // IPv4 or IPv6 address or, for clients, a name
  uint16_t port = 0;      // 0 when listening: any free one

  static HttpEndpoint unix_socket(std::string path) { return {std::move(path), {}, 0}; }
  // "127.0.0.1:9464", "[::1]:9464", "localhost:80", "unix:/run/leat/control.sock".
  static Result<HttpEndpoint> parse(std::string_view text);
  // Returns the same form.
  std::string to_string() const;
  // Whether it is a Unix socket or an address that no other host can reach.
  bool local() const;
};

}  // namespace leat
