// SPDX-License-Identifier: Apache-2.0
// Election: elects one of the candidates as leader, and another one when it ends. Thread-safe.
//
// The registry never has more than one leader. A leader that is cut off stops leading by its own
// clock before its lease ends in the registry. A change that must not be made twice carries
// condition(), which fails once another candidate has led.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cluster/registry.h"
#include "cluster/registry_session.h"

namespace leat {

struct ElectionOptions {
  std::string key = "leader";
  std::string name{};  // name of this candidate, as others see it
  // Called when this process starts or stops leading; must not block.
  std::function<void(bool leads)> changed{};
};

class Election {
 public:
  // Runs as a candidate until stop(), which must have ended before destruction. Both must outlive
  // it.
  static std::unique_ptr<Election> start(Registry& registry, RegistrySession& session,
                                         ElectionOptions options, Executor& executor);
  virtual ~Election() = default;

  // Returns the condition for a change that only the leader may make; nothing if not leading.
  virtual std::optional<RegistryChange::Condition> condition() const = 0;
  bool leads() const { return condition().has_value(); }
  // Returns the known leader's name; empty if there is none.
  virtual std::string leader() const = 0;

  // Resigns if the registry responds within `context`.
  virtual Task<> stop(Context context) = 0;
};

}  // namespace leat
