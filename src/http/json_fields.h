// SPDX-License-Identifier: Apache-2.0
// Single members of a JSON object. JSON is UTF-8 and names are bytes. A name or path that is not
// UTF-8 has a second member NAME_encoded, percent-encoded, which has priority.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace leat {

using Json = nlohmann::json;

// Leaves `out` unchanged if there is no such member.
template <class T>
void get(const Json& json, const char* name, T& out) {
  auto found = json.find(name);
  if (found != json.end() && !found->is_null()) out = found->get<T>();
}

// Names and paths: exact bytes, even if JSON cannot hold them.
void get_bytes(const Json& json, const std::string& name, std::string& out);
void put_bytes(Json& json, const std::string& name, const std::string& bytes);
// The same for arrays; an empty one is omitted.
void get_each(const Json& json, const std::string& name, std::vector<std::string>& out);
void put_each(Json& json, const std::string& name, const std::vector<std::string>& all);
// Throws if the member is missing.
void require_bytes(const Json& json, const std::string& name, std::string& out);

}  // namespace leat
