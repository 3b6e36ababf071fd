// SPDX-License-Identifier: Apache-2.0
// RegistrySession: keeps a lease alive, and the entries bound to it: a worker's record, a leader's
// claim. A lease is lost if the registry is unreachable for too long or has dropped it. Then the
// session takes a new lease and puts the entries again. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cluster/registry.h"
#include "runtime/executor.h"

namespace leat {

struct RegistrySessionOptions {
  // Time after which our entries end without renewal. Renewed at a third of it.
  std::chrono::seconds ttl{10};
  // Called when lease() changes, also to 0; must not block.
  std::function<void(RegistryLease)> changed{};
};

class RegistrySession {
 public:
  // `registry` must outlive the session; stop() must have ended before destruction.
  static std::unique_ptr<RegistrySession> start(Registry& registry, RegistrySessionOptions options,
                                                Executor& executor);
  virtual ~RegistrySession() = default;

  // Puts the entry as soon as the registry responds, and keeps it during the session. Replaces any
  // present entry.
  virtual void put(std::string key, std::string value) = 0;
  virtual void remove(std::string key) = 0;
  // Called if the registry turns out not to hold the entries.
  virtual void republish() = 0;

  // Returns the lease while it is certainly valid. Returns 0 if no renewal was confirmed for the
  // time to live, counted by this host's clock from the request. So the session knows the end
  // before the registry acts on it.
  virtual RegistryLease lease() const = 0;
  // Returns why the last attempt failed; nothing while all is well.
  virtual std::optional<Status> trouble() const = 0;

  // Revokes the lease if the registry responds within `context`, so that others notice at once.
  virtual Task<> stop(Context context) = 0;
};

}  // namespace leat
