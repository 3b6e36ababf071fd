// SPDX-License-Identifier: Apache-2.0
// RegistrySession: a lease that is kept for as long as the session goes on, and the entries that
// hang on it: a worker's record, a leader's claim. When the lease is lost, since the registry could
// not be reached for too long or has forgotten it, a new one is taken and the entries are put
// again. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cluster/registry.h"
#include "runtime/executor.h"

namespace leat {

struct RegistrySessionOptions {
  // How long the others go on with us after our end. Renewed at a third of it.
  std::chrono::seconds ttl{10};
  // Told when lease() becomes another one, 0 included; must not wait.
  std::function<void(RegistryLease)> changed{};
};

class RegistrySession {
 public:
  // `registry` must outlive it, and stop() must have ended before it goes.
  static std::unique_ptr<RegistrySession> start(Registry& registry, RegistrySessionOptions options,
                                                Executor& executor);
  virtual ~RegistrySession() = default;

  // There as soon as the registry answers and for as long as the session goes on, in place of
  // whatever stood there.
  virtual void put(std::string key, std::string value) = 0;
  virtual void remove(std::string key) = 0;
  // For who has seen that the registry does not hold what was put.
  virtual void put_again() = 0;

  // Ours beyond doubt: 0 when a renewal has not been heard of for the time to live, counted by our
  // clock from when it was asked for, so we know before anybody else acts on it.
  virtual RegistryLease lease() const = 0;
  // Why the last attempt failed; nothing while all is well.
  virtual std::optional<Status> trouble() const = 0;

  // Gives the lease back where the registry answers within `context`: others learn at once.
  virtual Task<> stop(Context context) = 0;
};

}  // namespace leat
