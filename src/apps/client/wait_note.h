// SPDX-License-Identifier: Apache-2.0
// WaitNote: says once on standard error which store a command waits for, if it waits longer than
// two seconds for one that does not answer.
#pragma once

#include <functional>
#include <optional>
#include <thread>

#include "http/json_fields.h"

namespace leat {

class WaitNote {
 public:
  // `status`: the daemon's; called on a thread of its own, which ends with this.
  explicit WaitNote(std::function<std::optional<Json>()> status);
  ~WaitNote() = default;
  WaitNote(const WaitNote&) = delete;

 private:
  std::jthread thread_;
};

// Returns the words about a status; nothing if all stores answer.
std::optional<std::string> wait_text(const Json& status);

}  // namespace leat
