// SPDX-License-Identifier: Apache-2.0
#include "http/remote_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

namespace leat {
namespace {

constexpr size_t kGroupBytes = 8;  // of an IPv6 address: a /64

RemoteAddress of_v4(const sockaddr_in& address) {
  RemoteAddress remote{.is_ip = true};
  remote.group[10] = remote.group[11] = 0xff;
  std::memcpy(&remote.group[12], &address.sin_addr, 4);
  remote.is_loopback = remote.group[12] == 127;
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
  remote.text = fmt::format("{}:{}", text.data(), ntohs(address.sin_port));
  return remote;
}

RemoteAddress of_v6(const sockaddr_in6& address) {
  RemoteAddress remote{.is_ip = true};
  const bool mapped = IN6_IS_ADDR_V4MAPPED(&address.sin6_addr);
  const bool loopback = IN6_IS_ADDR_LOOPBACK(&address.sin6_addr);
  std::memcpy(remote.group.data(), &address.sin6_addr, mapped || loopback ? 16 : kGroupBytes);
  remote.is_loopback = loopback || (mapped && remote.group[12] == 127);
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
  remote.text = fmt::format("[{}]:{}", text.data(), ntohs(address.sin6_port));
  return remote;
}

}  // namespace

RemoteAddress RemoteAddress::of(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  return of(storage);
}

RemoteAddress RemoteAddress::of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) return of_v4(reinterpret_cast<const sockaddr_in&>(address));
  if (address.ss_family == AF_INET6) return of_v6(reinterpret_cast<const sockaddr_in6&>(address));
  return {.text = "unix"};
}

}  // namespace leat
