// SPDX-License-Identifier: Apache-2.0
// Single members of a JSON object. JSON is UTF-8 and names are bytes: a name or path that would not
// survive has a member NAME_encoded beside it, percent-encoded, which wins.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace leat {

using Json = nlohmann::json;

// Leaves `out` alone where there is no such member.
template <class T>
void get(const Json& json, const char* name, T& out) {
  auto found = json.find(name);
  if (found != json.end() && !found->is_null()) out = found->get<T>();
}

// Names and paths: the bytes themselves, where JSON cannot hold them.
void get_bytes(const Json& json, const std::string& name, std::string& out);
void put_bytes(Json& json, const std::string& name, const std::string& bytes);
// The same for arrays; one that is empty is left out.
void get_each(const Json& json, const std::string& name, std::vector<std::string>& out);
void put_each(Json& json, const std::string& name, const std::vector<std::string>& all);
// Throws where there is none.
void need_bytes(const Json& json, const std::string& name, std::string& out);

}  // namespace leat
