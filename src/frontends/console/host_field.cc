// SPDX-License-Identifier: Apache-2.0
#include "frontends/console/host_field.h"

#include <arpa/inet.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>

namespace leat {
namespace {

bool is_port(std::string_view text) {
  uint16_t port = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), port);
  return failed == std::errc() && end == text.data() + text.size() && port != 0;
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_name(std::string_view one, std::string_view other) {
  return std::ranges::equal(one, other, {}, &lower, &lower);
}

// Returns the host without its port; nothing if the port is invalid.
std::optional<std::string_view> without_port(std::string_view host) {
  const size_t bracket = host.rfind(']');
  const size_t colon = host.rfind(':');
  if (colon == std::string_view::npos || (bracket != std::string_view::npos && colon < bracket)) {
    return host;
  }
  if (!is_port(host.substr(colon + 1))) return std::nullopt;
  return host.substr(0, colon);
}

bool is_host_name(std::string_view name) {
  constexpr std::string_view kMarks = "-._[]:";
  auto allowed = [&](char c) {
    const char small = lower(c);
    return (small >= 'a' && small <= 'z') || (c >= '0' && c <= '9') || kMarks.contains(c);
  };
  if (name.empty() || !std::ranges::all_of(name, allowed)) return false;
  // An IPv6 address is in brackets; any other colon begins a port.
  return name.contains(':') == (name.starts_with('[') && name.ends_with(']'));
}

// inet_pton accepts only four decimal numbers. Browsers expand short forms such as "127.1" before
// they send them.
bool is_loopback_address(const std::string& text) {
  if (text.find('\0') != std::string::npos) return false;
  in_addr address{};
  return inet_pton(AF_INET, text.c_str(), &address) == 1 && (ntohl(address.s_addr) >> 24) == 127;
}

}  // namespace

bool is_loopback_host(std::string_view host) {
  const std::optional<std::string_view> name = without_port(host);
  if (!name) return false;
  return same_name(*name, "localhost") || *name == "[::1]" ||
         is_loopback_address(std::string(*name));
}

bool is_accepted_host(std::string_view host, std::span<const std::string> names) {
  const std::optional<std::string_view> name = without_port(host);
  if (!name) return false;
  return std::ranges::any_of(names, [&](const auto& one) { return same_name(*name, one); });
}

Result<std::vector<std::string>> parse_host_names(std::string_view text) {
  std::vector<std::string> names;
  for (auto part : std::views::split(text, ',')) {
    std::string_view name(part.begin(), part.end());
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (name.empty() && text.find_first_not_of(' ') == std::string_view::npos) break;
    if (!is_host_name(name)) {
      return error(StatusCode::kInvalidArgument,
                   fmt::format("'{}' is not the name of a host, without a port", name));
    }
    names.emplace_back(name);
  }
  return names;
}

}  // namespace leat
