// SPDX-License-Identifier: Apache-2.0
// HedgedReader: sends a late read to a second worker as well. Costs a read that is answered in time
// two short locks; one task scans all of them. Thread-safe.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>

#include "peer/peer.h"
#include "peer/replication/hedge_plan.h"

namespace leat {

// Returns null if no second worker is available.
using SecondPeer = std::function<PeerPtr()>;

struct HedgedReply {
  PeerReply<void> reply{};
  bool from_second = false;
};

class HedgedReader : public std::enable_shared_from_this<HedgedReader> {
 public:
  static std::shared_ptr<HedgedReader> make(HedgePlanOptions options = {}) {
    return std::shared_ptr<HedgedReader>(new HedgedReader(options));
  }

  // Sends at most one request to the second worker, for the bytes that have not arrived, and only
  // for cached ones. The first success wins. Both requests have ended when the task ends. Only the
  // first worker's request writes to `into` while it runs; bytes reported to `request.progress` are
  // not written again.
  Task<HedgedReply> read(Context context, PeerPtr first, SecondPeer second, PeerRead request,
                         std::span<std::byte> into);

  HedgePlan& plan() { return plan_; }

 private:
  struct Race;
  using RacePtr = std::shared_ptr<Race>;

  explicit HedgedReader(HedgePlanOptions options) : plan_(options) {}

  void add(RacePtr race, const boost::asio::any_io_executor& executor);
  // Returns false if a second request has begun; that request ends the race.
  bool remove(const RacePtr& race);
  // Returns the late races and when to scan again; no time if no read was waiting since the last
  // scan.
  std::vector<RacePtr> take_due(std::optional<Clock::duration>* again);
  static Task<> scan_loop(std::shared_ptr<HedgedReader> self);
  static Task<> request_second(std::shared_ptr<HedgedReader> self, RacePtr race);

  HedgePlan plan_;
  std::mutex mutex_;  // leaf
  std::list<RacePtr> waiting_;
  bool scanning_ = false;
  bool used_ = false;  // since the last scan
};

}  // namespace leat
