// SPDX-License-Identifier: Apache-2.0
#include "http/json_fields.h"

#include <algorithm>

#include "http/message.h"

namespace leat {
namespace {

bool survives(const std::string& bytes) {
  if (std::ranges::all_of(bytes, [](unsigned char c) { return c < 0x80; })) return true;
  const Json json = bytes;
  return Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace)) == json;
}

}  // namespace

void get_bytes(const Json& json, const std::string& name, std::string& out) {
  get(json, name.c_str(), out);
  std::string encoded;
  get(json, (name + "_encoded").c_str(), encoded);
  if (encoded.empty()) return;
  if (auto decoded = percent_decode(encoded, false)) out = *decoded;
}

void require_bytes(const Json& json, const std::string& name, std::string& out) {
  out = json.at(name).get<std::string>();
  get_bytes(json, name, out);
}

void get_each(const Json& json, const std::string& name, std::vector<std::string>& out) {
  get(json, name.c_str(), out);
  std::vector<std::string> encoded;
  get(json, (name + "_encoded").c_str(), encoded);
  if (encoded.empty()) return;
  out.clear();
  for (const std::string& one : encoded) {
    auto decoded = percent_decode(one, false);
    if (decoded) out.push_back(*std::move(decoded));
  }
}

void put_bytes(Json& json, const std::string& name, const std::string& bytes) {
  json[name] = bytes;
  if (!survives(bytes)) json[name + "_encoded"] = percent_encode(bytes);
}

void put_each(Json& json, const std::string& name, const std::vector<std::string>& all) {
  if (all.empty()) return;
  json[name] = all;
  if (std::ranges::all_of(all, survives)) return;
  Json& encoded = json[name + "_encoded"];
  for (const std::string& one : all) encoded.push_back(percent_encode(one));
}

}  // namespace leat
