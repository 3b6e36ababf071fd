// SPDX-License-Identifier: Apache-2.0
#include "wire/peer_error.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/base64.h"
#include "http/status_codes.h"
#include "wire/flat_json.h"
#include "wire/peer_request_header.h"

namespace leat {
namespace {

using Json = nlohmann::json;

std::optional<std::string> text_of(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<std::string> message_of(const Json& json) {
  if (auto message = text_of(json, "message")) return message;
  const auto encoded = text_of(json, "message_base64");
  return encoded ? from_base64(*encoded) : std::nullopt;
}

}  // namespace

int peer_error_http(StatusCode code) {
  return code == StatusCode::kBusy ? kHttpMisdirected : http_status_of(code);
}

std::string encode_peer_error(const Status& status) {
  FlatJsonWriter json;
  json.text("code", to_string(status.code()));
  json.bytes("message", status.to_string());
  return "{\"error\":" + json.take() + "}";
}

Status decode_peer_error(int http, std::string_view body) {
  const Json json = Json::parse(body.begin(), body.end(), nullptr, false);
  const auto reason = json.is_object() ? json.find("error") : json.end();
  if (reason != json.end() && reason->is_object()) {
    const auto code = text_of(*reason, "code");
    auto message = message_of(*reason);
    if (code && message) {
      return {status_code_named(*code).value_or(StatusCode::kInternal), *std::move(message)};
    }
  }
  return {StatusCode::kUnavailable,
          fmt::format("it answered {} without saying why, as no worker does", http)};
}

HttpResponse peer_error_response(int http, const Status& status, int64_t epoch) {
  HttpResponse response = HttpResponse::json(http, encode_peer_error(status));
  put_epoch(epoch, response);
  return response;
}

}  // namespace leat
