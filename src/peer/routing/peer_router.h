// SPDX-License-Identifier: Apache-2.0
// PeerRouter: finds the worker that serves a stripe or a listing: the owner by the ring,
// or a failover for it. Thread-safe.
//
// Rules, in this order.
// 1. Replicas (ReplicaSelection): one of the first N candidates is tried first. A receiver other
// than the
//    owner gets `replicas`, not `failover_for`.
// 2. The owner is retried while its lease is valid and its circuit closed, so one broken
//    connection causes no second read of the store. A worker that rejects requests is not retried.
// 3. Failover: the next candidates follow, with PeerRoute::failover_for, since they may read the
// store
//    then.
// 4. Epochs: if a worker knows a newer ring, the router waits for that ring. A worker with an older
//    ring is tried again.
// 5. If no candidate responds, those without a lease are tried too, and then all again. A request
//    without a deadline goes on for `io_timeout`, another one for `timeout` or until its deadline.
// 6. A request that waits is also retried if a worker answers that its store does not respond
//    (kUnavailable, kThrottled).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cluster/cluster_view.h"
#include "peer/peer_table.h"
#include "source/retry/store_health.h"

namespace leat {

struct PeerRouterOptions {
  // Workers to try for one key, including the first.
  size_t candidates_max = 4;
  // Wait for a ring epoch that another worker already has.
  Clock::duration epoch_timeout = std::chrono::seconds(2);
  // Back-off between rounds without any answer; doubles up to 1 s.
  Clock::duration backoff_min = std::chrono::milliseconds(50);
  Clock::duration timeout = std::chrono::seconds(30);
  // How long a request without a deadline waits for workers; max(): without limit. Zero: as one
  // with a deadline.
  Clock::duration io_timeout{0};
  // Health of the cluster as seen by its requests; may be null.
  std::shared_ptr<StoreHealth> health{};

  bool waits(const Context& context) const {
    return io_timeout > Clock::duration::zero() && context.deadline == Clock::time_point::max();
  }
  // How long this request is retried.
  Clock::duration timeout_for(const Context& context) const {
    return waits(context) ? io_timeout : timeout;
  }
};

// Choice among the first candidates if several may serve.
struct ReplicaSelection {
  uint32_t replicas = 1;
  // Host id of this machine (WorkerInfo::host_id); candidates on it come first.
  std::string host_id{};
  uint64_t seed = 0;  // any number; equal numbers select the same candidate
};

class PeerRouter {
 public:
  template <class T>
  using Attempt = std::function<Task<PeerReply<T>>(PeerPtr, PeerRoute)>;

  // Both must outlive the router.
  PeerRouter(ClusterViewSource& views, const PeerTable& peers, PeerRouterOptions options = {})
      : views_(views), peers_(peers), options_(options) {}

  // Returns the answer of the worker, success or error. kUnavailable if no worker responded; the
  // message lists the workers and their failures. `what` is for that message: "bytes of 'a/b'".
  template <class T>
  Task<Result<T>> request(Context context, PlacementKey key, std::string what, Attempt<T> attempt,
                          ReplicaSelection selection = {}) const;

  // Returns another usable worker among the first `replicas` candidates; null if there is none.
  PeerPtr other_replica(PlacementKey key, uint32_t replicas, const PeerPtr& peer) const;

 private:
  struct Pass;
  bool out_of_time(const Context& context, Clock::time_point began) const;
  // Report a request's outcome to the cluster's health.
  void record_answer() const;
  void record_no_answer(Clock::time_point began, const Status& why) const;
  template <class T>
  Task<std::optional<Result<T>>> try_candidates(Context context, PlacementKey key,
                                                Attempt<T> attempt, Pass* pass) const;
  template <class T>
  Task<std::optional<Result<T>>> try_replica(PlacementKey key, Attempt<T> attempt,
                                             ReplicaSelection selection) const;

  ClusterViewSource& views_;
  const PeerTable& peers_;
  const PeerRouterOptions options_;
};

}  // namespace leat
