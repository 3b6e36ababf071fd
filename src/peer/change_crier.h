// SPDX-License-Identifier: Apache-2.0
// ChangeCrier: tells all other workers, and so the clients of all, what this one has found changed.
// What comes within a moment is told together. Who does not answer keeps nobody else waiting, and
// is told later what it has missed, for as long as it is one of the others; of much that was missed
// only the directories, or that anything may be another (GatheredChanges). Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "model/worker_id.h"
#include "peer/change_log.h"
#include "peer/gathered_changes.h"
#include "runtime/activity.h"
#include "runtime/executor.h"

namespace leat {

struct ChangeCrierOptions {
  // The other workers as they are now, those without a lease included: their clients may hear them.
  std::function<std::vector<WorkerId>()> others{};
  std::function<Task<Result<>>(Context, WorkerId, PeerChanges)> tell{};
  Clock::duration gather = std::chrono::milliseconds(50);
  Clock::duration patience = std::chrono::seconds(2);  // of one telling
  // Before one who did not answer is told again, doubled each time up to the second.
  Clock::duration pause_min = std::chrono::milliseconds(100);
  Clock::duration pause_max = std::chrono::seconds(2);
};

class ChangeCrier {
 public:
  // `log`: of this worker's own clients; all outlive it.
  ChangeCrier(ChangeLog& log, ChangeCrierOptions options, Executor& executor)
      : log_(log), options_(std::move(options)), executor_(executor) {}

  // Returns at once.
  void cry(PeerChange change);
  // Ends what is under way.
  Task<> stop();

 private:
  // What one worker has not been told, and who is about to.
  struct Letter {
    GatheredChanges changes{kGatheredMax};
    bool telling = false;
  };
  static constexpr size_t kGatheredMax = 1'000;  // keys have a kilobyte or two at most

  Task<> tell_all(Activity::Token token);
  Task<> tell_one(Activity::Token token, WorkerId other);
  std::vector<PeerChange> take(const WorkerId& other);
  // They were not told, and are dropped where `other` is none of the others any more; false where
  // nothing else is there for it.
  bool put_back(const WorkerId& other, std::vector<PeerChange> changes);

  ChangeLog& log_;
  const ChangeCrierOptions options_;
  Executor& executor_;
  Activity activity_;
  std::stop_source stopping_;
  std::mutex mutex_;  // leaf
  GatheredChanges waiting_{kGatheredMax};
  bool gathering_ = false;
  std::map<WorkerId, Letter> letters_;
};

}  // namespace leat
