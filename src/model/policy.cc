// SPDX-License-Identifier: Apache-2.0
#include "model/policy.h"

#include <fmt/format.h>

#include "base/units.h"

namespace leat {

Result<Freshness> Freshness::parse(std::string_view text) {
  Freshness freshness;
  if (text == "immutable") {
    freshness.mode = Mode::kImmutable;
    return freshness;
  }
  if (text == "validate") {
    freshness.mode = Mode::kValidate;
    return freshness;
  }
  if (text == "snapshot") {
    freshness.mode = Mode::kSnapshot;
    return freshness;
  }
  constexpr std::string_view kPrefix = "max-age=";
  if (!text.starts_with(kPrefix)) {
    return error(
        StatusCode::kInvalidArgument,
        fmt::format("'{}' is not a freshness; write max-age=60s, immutable, validate or snapshot",
                    text));
  }
  LEAT_TRY(freshness.max_age, parse_duration(text.substr(kPrefix.size())));
  return freshness;
}

std::string Freshness::to_string() const {
  switch (mode) {
    case Mode::kImmutable:
      return "immutable";
    case Mode::kValidate:
      return "validate";
    case Mode::kSnapshot:
      return "snapshot";
    case Mode::kMaxAge:
      break;
  }
  return "max-age=" + format_duration(max_age);
}

}  // namespace leat
