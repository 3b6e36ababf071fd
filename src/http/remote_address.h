// SPDX-License-Identifier: Apache-2.0
// RemoteAddress: the other end of a connection, as text and as a group for counting. Private to
// this module.
#pragma once

#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstdint>
#include <string>

namespace leat {

struct RemoteAddress {
  // IPv4 is mapped to IPv6. For IPv6 the first 64 bits, since one host has all addresses of a /64.
  // Zero for a Unix socket.
  std::array<uint8_t, 16> group{};
  bool is_ip = false;
  bool is_loopback = false;
  std::string text{};  // "10.0.0.7:40312", "[::1]:40312", "unix", or empty if it is unknown

  // Returns the other end of a connected socket.
  static RemoteAddress of(int fd);
  static RemoteAddress of(const sockaddr_storage& address);
};

}  // namespace leat
