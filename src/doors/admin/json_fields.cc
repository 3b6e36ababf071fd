// SPDX-License-Identifier: Apache-2.0
#include "doors/admin/json_fields.h"

#include <algorithm>

namespace leat {

void get_bytes(const Json& json, const std::string& name, std::string& out) {
  get(json, name.c_str(), out);
  std::string encoded;
  get(json, (name + "_encoded").c_str(), encoded);
  if (encoded.empty()) return;
  if (auto decoded = percent_decode(encoded, false)) out = *decoded;
}

void need_bytes(const Json& json, const std::string& name, std::string& out) {
  out = json.at(name).get<std::string>();
  get_bytes(json, name, out);
}

void put_bytes(Json& json, const std::string& name, const std::string& bytes) {
  json[name] = bytes;
  if (std::ranges::all_of(bytes, [](unsigned char c) { return c < 0x80; })) return;
  std::string dumped = Json(bytes).dump(-1, ' ', false, Json::error_handler_t::replace);
  if (Json::parse(dumped) != json[name]) json[name + "_encoded"] = percent_encode(bytes);
}

}  // namespace leat
