// SPDX-License-Identifier: Apache-2.0
#include "frontends/admin/codec_finding.h"

#include <algorithm>
#include <array>

#include "http/json_fields.h"

namespace leat {
namespace {

constexpr std::array kLevels = {Level::kOk, Level::kNote, Level::kProblem};

}  // namespace

std::string_view to_string(Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kNote:
      return "note";
    case Level::kProblem:
      return "problem";
  }
  return "problem";
}

void decode(const Json& json, Finding& finding) {
  const auto level = json.at("level").get<std::string>();
  const auto* known =
      std::ranges::find_if(kLevels, [&](Level one) { return to_string(one) == level; });
  // An unknown level of a later version is at least not kOk.
  finding.level = known == kLevels.end() ? Level::kNote : *known;
  finding.name = json.at("name").get<std::string>();
  get_bytes(json, "subject", finding.subject);
  get(json, "what", finding.what);
  get(json, "cost", finding.cost);
  get(json, "action", finding.action);
}

Json to_json(const Finding& finding) {
  Json json = {{"level", to_string(finding.level)},
               {"name", finding.name},
               {"what", finding.what},
               {"cost", finding.cost},
               {"action", finding.action}};
  put_bytes(json, "subject", finding.subject);
  return json;
}

}  // namespace leat
