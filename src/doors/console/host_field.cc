// SPDX-License-Identifier: Apache-2.0
#include "doors/console/host_field.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>

namespace leat {
namespace {

bool is_port(std::string_view text) {
  uint16_t port = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), port);
  return failed == std::errc() && end == text.data() + text.size() && port != 0;
}

bool is_localhost(std::string_view name) {
  auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  return std::ranges::equal(name, std::string_view("localhost"), same);
}

// inet_pton takes four decimal numbers and nothing else: not "127.1", which a browser has made
// whole before it sends it.
bool is_loopback_address(const std::string& text) {
  if (text.find('\0') != std::string::npos) return false;
  in_addr address{};
  return inet_pton(AF_INET, text.c_str(), &address) == 1 && (ntohl(address.s_addr) >> 24) == 127;
}

}  // namespace

bool names_loopback(std::string_view host) {
  const size_t bracket = host.rfind(']');
  const size_t colon = host.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    if (!is_port(host.substr(colon + 1))) return false;
    host = host.substr(0, colon);
  }
  return is_localhost(host) || host == "[::1]" || is_loopback_address(std::string(host));
}

}  // namespace leat
