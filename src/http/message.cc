// SPDX-License-Identifier: Apache-2.0
#include "http/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace leat {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::optional<int> hex_digit(char c) {
  c = lower(c);
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return std::nullopt;
}

bool unreserved(char c) {
  return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

}  // namespace

bool same_field_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::ranges::equal(a, b, {}, lower, lower);
}

void HttpHeaders::set(std::string name, std::string value) {
  for (auto& field : fields_) {
    if (same_field_name(field.first, name)) {
      field.second = std::move(value);
      return;
    }
  }
  fields_.emplace_back(std::move(name), std::move(value));
}

std::optional<std::string_view> HttpHeaders::find(std::string_view name) const {
  for (const auto& field : fields_) {
    if (same_field_name(field.first, name)) return field.second;
  }
  return std::nullopt;
}

HttpResponse HttpResponse::text(int status, std::string body) {
  HttpResponse response;
  response.status = status;
  response.headers.set("Content-Type", "text/plain; charset=utf-8");
  response.body = std::move(body);
  return response;
}

HttpResponse HttpResponse::json(int status, std::string body) {
  HttpResponse response;
  response.status = status;
  response.headers.set("Content-Type", "application/json");
  response.body = std::move(body);
  return response;
}

HttpResponse HttpResponse::failure(int status, std::string_view code, std::string_view message) {
  nlohmann::json body = {{"error", {{"code", code}, {"message", message}}}};
  // Names in a store need not be UTF-8; an error about one must still be a valid response.
  return json(status, body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

Result<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '+' && plus_is_space) c = ' ';
    if (c == '%') {
      auto high = i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
      auto low = i + 2 < text.size() ? hex_digit(text[i + 2]) : std::nullopt;
      if (!high || !low) {
        return error(StatusCode::kInvalidArgument,
                     fmt::format("'{}' holds a broken percent escape", text));
      }
      c = static_cast<char>(*high * 16 + *low);
      i += 2;
    }
    if (c == '\0') {
      return error(StatusCode::kInvalidArgument, "the request's target holds a NUL character");
    }
    out += c;
  }
  return out;
}

std::string percent_encode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char c : text) {
    if (unreserved(c) || c == '/') {
      out += c;
    } else {
      constexpr std::string_view kHex = "0123456789ABCDEF";
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', kHex[byte / 16], kHex[byte % 16]};
    }
  }
  return out;
}

std::string make_target(std::string_view path, const std::map<std::string, std::string>& query) {
  std::string target = percent_encode(path);
  char separator = '?';
  for (const auto& [name, value] : query) {
    target += separator;
    target += percent_encode(name);
    target += '=';
    target += percent_encode(value);
    separator = '&';
  }
  return target;
}

Result<> parse_target(std::string_view target, HttpRequest& request) {
  if (!target.starts_with('/')) {
    return error(StatusCode::kInvalidArgument, fmt::format("target '{}' is not a path", target));
  }
  std::string_view path = target.substr(0, target.find('?'));
  std::string_view query = target.substr(std::min(target.size(), path.size() + 1));
  LEAT_TRY(request.path, percent_decode(path, false));
  while (!query.empty()) {
    std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    if (pair.empty()) continue;
    std::string_view name = pair.substr(0, pair.find('='));
    std::string_view value = pair.substr(std::min(pair.size(), name.size() + 1));
    LEAT_TRY(std::string decoded_name, percent_decode(name, true));
    LEAT_TRY(request.query[std::move(decoded_name)], percent_decode(value, true));
  }
  return {};
}

}  // namespace leat
