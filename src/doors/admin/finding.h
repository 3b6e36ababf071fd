// SPDX-License-Identifier: Apache-2.0
// Finding: one thing that `leat doctor` and the console have to say about a daemon or its host.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace leat {

// A note costs speed or a part of what Leat can do; a problem keeps a folder from being mounted or
// from working.
enum class Level : uint8_t { kOk, kNote, kProblem };
std::string_view to_string(Level level);  // "ok", "note", "problem"

struct Finding {
  Level level = Level::kOk;
  std::string name{};     // "fuse.device"; stays, scripts may go by it
  std::string subject{};  // directory or folder, where there may be several; else empty
  std::string what{};     // is so
  std::string cost{};     // of that; empty where it is ok
  std::string action{};   // what changes it: a command where there is one

  friend bool operator==(const Finding&, const Finding&) = default;
};
using Findings = std::vector<Finding>;

}  // namespace leat
