// SPDX-License-Identifier: Apache-2.0
// Hedges: reads that a second worker is asked for as well, where the first takes longer than others
// do. Costs a read that is answered in time two short locks; one task looks after all of them.
// Thread-safe.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>

#include "peer/peer.h"
#include "peer/replicas/hedge_plan.h"

namespace leat {

// Null where there is nobody.
using FindPeer = std::function<PeerPtr()>;

struct HedgedReply {
  PeerReply<void> reply{};
  bool of_second = false;
};

class Hedges : public std::enable_shared_from_this<Hedges> {
 public:
  static std::shared_ptr<Hedges> make(HedgePlanOptions options = {}) {
    return std::shared_ptr<Hedges>(new Hedges(options));
  }

  // Who is found is asked once at most, for what has not come yet, and only for what it has cached.
  // The first good answer counts. Both requests have ended when the task has; only that of the
  // first ever writes to `into`, and what `request.progress` was told of is not written again.
  Task<HedgedReply> read(Context context, PeerPtr first, FindPeer second, PeerRead request,
                         std::span<std::byte> into);

  HedgePlan& plan() { return plan_; }

 private:
  struct Race;
  using RacePtr = std::shared_ptr<Race>;

  explicit Hedges(HedgePlanOptions options) : plan_(options) {}

  void add(RacePtr race, const boost::asio::any_io_executor& executor);
  // False: a second request has begun, and ends the race.
  bool remove(const RacePtr& race);
  // Those that have waited for too long, and when to look again; no time: nobody has waited since
  // the last look.
  std::vector<RacePtr> late(std::optional<Clock::duration>* again);
  static Task<> look_after(std::shared_ptr<Hedges> self);
  static Task<> ask_second(std::shared_ptr<Hedges> self, RacePtr race);

  HedgePlan plan_;
  std::mutex mutex_;  // leaf
  std::list<RacePtr> waiting_;
  bool looking_ = false;
  bool used_ = false;  // since the last look
};

}  // namespace leat
