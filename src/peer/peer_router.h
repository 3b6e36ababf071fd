// SPDX-License-Identifier: Apache-2.0
// PeerRouter: finds who answers for a stripe or a listing: the first candidate of the ring, or who
// stands in for it. Thread-safe.
//
// Rules: where several candidates answer for a thing (PeerSpread), one of them is asked first; one
// that is not the first candidate is told so, and stands in no one's place. Else, and where that
// one does not answer: the first candidate is asked as long as its lease stands and its circuit is
// closed; so a connection that breaks once is no reason for a second worker to ask the store. One
// that says itself that it answers nobody now is not asked again. Who is asked in its place is told
// so (PeerRoute::instead), since it may ask the store then. A worker that knows a newer ring says
// so, and its ring is waited for; one that knows an older one is asked again. Where nobody answers,
// those whose lease is gone are asked as well, and then all anew: a request without a deadline for
// `io_timeout`, another one for `patience` or until its deadline. One that waits is tried again as
// well where a worker answers that its store does not (kUnavailable, kThrottled).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cluster/cluster_view.h"
#include "peer/peer_table.h"
#include "source/steady/store_health.h"

namespace leat {

struct PeerRouterOptions {
  // Workers that are asked for one thing, the first included.
  size_t candidates_max = 4;
  // For a ring that somebody else knows already.
  Clock::duration ring_wait = std::chrono::seconds(2);
  // Between rounds in which nobody answered, doubled each time up to 1 s.
  Clock::duration pause_min = std::chrono::milliseconds(50);
  Clock::duration patience = std::chrono::seconds(30);
  // How long a request without a deadline waits for workers that do not answer; max(): for ever.
  // Zero: as one with a deadline.
  Clock::duration io_timeout{0};
  // Of the cluster, as its requests find it; may be null.
  std::shared_ptr<StoreHealth> health{};

  bool waits(const Context& context) const {
    return io_timeout > Clock::duration::zero() && context.deadline == Clock::time_point::max();
  }
  // For how long this request is tried.
  Clock::duration patience_for(const Context& context) const {
    return waits(context) ? io_timeout : patience;
  }
};

// Who of the first candidates is asked, where several may be.
struct PeerSpread {
  uint32_t replicas = 1;
  // Of the machine on which we are (WorkerInfo::host_id): candidates there come before others.
  std::string host_id{};
  uint64_t draw = 0;  // any number: equal ones fall upon the same candidate
};

class PeerRouter {
 public:
  template <class T>
  using Ask = std::function<Task<PeerReply<T>>(PeerPtr, PeerRoute)>;

  // Both must outlive it.
  PeerRouter(ClusterMap& map, const PeerTable& peers, PeerRouterOptions options = {})
      : map_(map), peers_(peers), options_(options) {}

  // The answer of whoever answered, good or bad. kUnavailable where nobody did: it names who was
  // asked, and what came of it. `what` is for that message: "bytes of 'a/b'".
  template <class T>
  Task<Result<T>> ask(Context context, PlacementKey key, std::string what, Ask<T> ask,
                      PeerSpread spread = {}) const;

  // One of so many first candidates that may be asked and is not `peer`; null where there is none.
  PeerPtr other(PlacementKey key, uint32_t replicas, const PeerPtr& peer) const;

 private:
  struct Round;
  bool gives_up(const Context& context, Clock::time_point began) const;
  // What a request tells of the cluster's health.
  void note_answer() const;
  void note_silence(Clock::time_point began, const Status& why) const;
  template <class T>
  Task<std::optional<Result<T>>> ask_around(Context context, PlacementKey key, Ask<T> ask,
                                            Round* round) const;
  template <class T>
  Task<std::optional<Result<T>>> ask_replica(PlacementKey key, Ask<T> ask, PeerSpread spread) const;

  ClusterMap& map_;
  const PeerTable& peers_;
  const PeerRouterOptions options_;
};

}  // namespace leat
