// SPDX-License-Identifier: Apache-2.0
// RemoteAddress: the other end of a connection, as it is named and as it is counted. Private to
// this room.
#pragma once

#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstdint>
#include <string>

namespace leat {

struct RemoteAddress {
  // IPv4 as mapped to IPv6. The first 64 bits of an IPv6 address, since one host has all that
  // begin with them. Zero for a Unix socket.
  std::array<uint8_t, 16> group{};
  bool is_ip = false;
  bool is_loopback = false;
  std::string text{};  // "10.0.0.7:40312", "[::1]:40312", "unix", or empty if it is not known

  // The other end of a connected socket.
  static RemoteAddress of(int fd);
  static RemoteAddress of(const sockaddr_storage& address);
};

}  // namespace leat
