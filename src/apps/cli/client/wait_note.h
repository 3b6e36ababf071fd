// SPDX-License-Identifier: Apache-2.0
// WaitNote: prints once to standard error which store a command waits for. It does so if a store
// has not responded for two seconds.
#pragma once

#include <functional>
#include <optional>
#include <thread>

#include "http/json_fields.h"

namespace leat {

class WaitNote {
 public:
  // `status` queries the daemon; called on a separate thread, which ends with this object.
  explicit WaitNote(std::function<std::optional<Json>()> status);
  ~WaitNote() = default;
  WaitNote(const WaitNote&) = delete;

 private:
  std::jthread thread_;
};

// Returns a text about a status; nothing if all stores respond.
std::optional<std::string> wait_text(const Json& status);

}  // namespace leat
