// SPDX-License-Identifier: Apache-2.0
// RegistryMirror: a copy of what a registry holds below a prefix, for those who cannot wait for it.
// It is read in place; it follows changes, and heals itself: whatever ends its watch, it lists
// again and goes on from there, until stop(). While the registry does not answer, it keeps what it
// had. A registry that was restored from a backup is followed back: revisions may fall.
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cluster/registry.h"
#include "runtime/executor.h"

namespace leat {

struct RegistryMirrorOptions {
  // Between attempts, doubled with each that fails, each shortened by chance by up to a half so
  // that many mirrors do not come at once.
  Clock::duration pause_min = std::chrono::milliseconds(100);
  Clock::duration pause_max = std::chrono::seconds(5);
  // Told of each new state, one after the other; must not wait.
  std::function<void(const RegistryView&)> changed{};
  // Told after that where it was no change but another listing that said so: what the registry held
  // in between is not known.
  std::function<void()> listed_anew{};
};

class RegistryMirror {
 public:
  // `registry` must outlive it, and stop() must have ended before it goes.
  static std::unique_ptr<RegistryMirror> start(Registry& registry, std::string prefix,
                                               RegistryMirrorOptions options, Executor& executor);
  virtual ~RegistryMirror() = default;

  // As far as is known; revision 0 before the first listing.
  virtual std::shared_ptr<const RegistryView> view() const = 0;
  // Why the last attempt failed; nothing while changes are followed.
  virtual std::optional<Status> trouble() const = 0;
  // Waits for the first listing; an error of the context says why there is none yet.
  virtual Task<Result<>> first_view(Context context) = 0;
  // Nothing is told or changed from its end on.
  virtual Task<> stop() = 0;
};

}  // namespace leat
