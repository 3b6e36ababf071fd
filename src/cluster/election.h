// SPDX-License-Identifier: Apache-2.0
// Election: one of those who want it leads, another one when it ends. Thread-safe.
//
// There is never more than one leader by the registry; by its own belief a leader that was cut off
// stops being one before its lease ends elsewhere. What must not be done twice carries condition(),
// which holds only as long as nobody else has led since.
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
  std::string name{};  // what others see who leads
  // Told when it begins and when it ends; must not wait.
  std::function<void(bool leads)> changed{};
};

class Election {
 public:
  // Stands for election until stop(), which must have ended before it goes. Both must outlive it.
  static std::unique_ptr<Election> start(Registry& registry, RegistrySession& session,
                                         ElectionOptions options, Executor& executor);
  virtual ~Election() = default;

  // For a change that only the leader may make; nothing where we are not.
  virtual std::optional<RegistryChange::Condition> condition() const = 0;
  bool leads() const { return condition().has_value(); }
  // Who leads, as far as we know; empty where nobody does.
  virtual std::string leader() const = 0;

  // Gives the lead up where the registry answers within `context`.
  virtual Task<> stop(Context context) = 0;
};

}  // namespace leat
