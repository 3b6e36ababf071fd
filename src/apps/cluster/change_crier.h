// SPDX-License-Identifier: Apache-2.0
// ChangeCrier: tells all other workers, and so the clients of all, what this one has found changed.
// What comes within a moment is told together; who cannot be reached is not waited for: its clients
// believe what they have for as long as its lease, and their own, let them. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "peer/change_log.h"
#include "peer/gathered_changes.h"
#include "peer/peer_client.h"
#include "runtime/activity.h"
#include "runtime/executor.h"

namespace leat {

class ChangeCrier {
 public:
  // The other workers, as they are now.
  using Others = std::function<std::vector<std::shared_ptr<PeerClient>>()>;
  // `log`: of this worker's own clients; all outlive it.
  ChangeCrier(ChangeLog& log, Others others, Executor& executor)
      : log_(log), others_(std::move(others)), executor_(executor) {}

  // Returns at once.
  void cry(PeerChange change);
  // Ends what is under way.
  Task<> stop();

 private:
  Task<> tell_all(Activity::Token token);
  static Task<> tell_one(Activity::Token token, std::shared_ptr<PeerClient> other,
                         PeerChanges changes, Context context);

  ChangeLog& log_;
  const Others others_;
  Executor& executor_;
  Activity activity_;
  std::stop_source stopping_;
  std::mutex mutex_;                // leaf
  GatheredChanges waiting_{1'000};  // keys have a kilobyte or two at most
  bool telling_ = false;
};

}  // namespace leat
