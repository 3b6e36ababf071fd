// SPDX-License-Identifier: Apache-2.0
// Finding: one result of `leat doctor` and the console about a daemon or its host.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace leat {

// A note costs speed or a feature; a problem prevents a mount from being created or from working.
enum class Level : uint8_t { kOk, kNote, kProblem };
std::string_view to_string(Level level);  // "ok", "note", "problem"

struct Finding {
  Level level = Level::kOk;
  std::string name{};     // "fuse.device"; stable, for scripts.
  std::string subject{};  // Directory or mount point, if there may be several; otherwise empty.
  std::string what{};     // The condition.
  std::string cost{};     // Its effect; empty if kOk.
  std::string action{};   // The remedy: a command if there is one.

  friend bool operator==(const Finding&, const Finding&) = default;
};
using Findings = std::vector<Finding>;

}  // namespace leat
