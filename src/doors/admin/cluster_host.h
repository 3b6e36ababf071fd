// SPDX-License-Identifier: Apache-2.0
// ClusterHost: what a worker's control socket can have done about its cluster, and the plain data
// that travels over it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "doors/admin/host.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

struct ClusterWorkerView {
  std::string id{};
  std::string address{};
  std::string host{};  // name of the machine
  // "active", "draining", "gone" (its place in the ring is still its own), "refusing" (this
  // worker's requests), "unreachable" (by this worker, while it holds its lease) or "rejected" (its
  // record is signed with another secret).
  std::string state{};
  std::string version{};  // of its program
  uint64_t capacity_bytes = 0;
  double share = 0;       // of the ring, 0 to 1
  std::string trouble{};  // why it is refusing or unreachable; empty: it is neither

  friend bool operator==(const ClusterWorkerView&, const ClusterWorkerView&) = default;
};

struct ClusterMountView {
  std::string path{};
  std::string source{};
  std::map<std::string, std::string> options{};
  std::string trouble{};  // why this worker does not serve it; empty: it does

  friend bool operator==(const ClusterMountView&, const ClusterMountView&) = default;
};

// How far a worker that leaves is with giving others what it has.
struct ClusterDrainView {
  bool ended = false;    // all was gone through, or it was called off
  bool stopped = false;  // it was
  uint64_t objects_total = 0, objects_done = 0;
  uint64_t objects_failed = 0;               // that nobody else has
  uint64_t bytes_total = 0, bytes_done = 0;  // the total is about
  std::vector<std::string> errors{};         // the first
};

struct ClusterStatusView {
  std::string name{};
  std::string self{};     // this worker's id
  std::string leader{};   // the leader's; empty: nobody leads
  int64_t epoch = 0;      // of the ring
  std::string trouble{};  // between this worker and the registry; empty: none
  std::vector<ClusterWorkerView> workers{};
  std::vector<ClusterMountView> mounts{};
  std::optional<ClusterDrainView> drain{};  // of this worker, where it leaves
};

struct ClusterMountRequest {
  std::string path{};
  std::string source{};
  std::map<std::string, std::string> options{};
};

struct ClusterDrainRequest {
  bool back = false;       // take a share again
  uint64_t bandwidth = 0;  // bytes a second that others take; 0: no limit
};

// When a job is begun again; any of them makes it stand until it is cancelled.
struct ClusterJobRepeat {
  uint64_t every_seconds = 0;
  bool on_change = false;
  bool on_mount = false;

  friend bool operator==(const ClusterJobRepeat&, const ClusterJobRepeat&) = default;
};

struct ClusterJobRequest {
  JobRequest job{};
  ClusterJobRepeat repeat{};
};

struct ClusterJobView {
  JobView job{};            // its state "waiting" until somebody has begun it
  std::string principal{};  // who asked for it
  std::string worker{};     // the id of the one that runs it, or did; empty: nobody has begun
  unsigned begun = 0;       // times in this run; more than one where who ran it was lost
  ClusterJobRepeat repeat{};
  uint64_t runs = 0;    // that came to their end
  bool ending = false;  // it was asked to
};

class ClusterHost {
 public:
  virtual ~ClusterHost() = default;
  // kUnsupported where this daemon is no worker; so do all others but those of jobs.
  // Asks all other workers before it answers, for a second or two.
  virtual Task<Result<ClusterStatusView>> cluster_status() = 0;
  virtual Task<Result<ClusterMountView>> add_cluster_mount(Context context,
                                                           ClusterMountRequest request) = 0;
  virtual Task<Result<>> remove_cluster_mount(Context context, std::string path) = 0;
  // Returns when the ring is without this worker, or with it again. What it has goes to others from
  // then on, as cluster_status() says.
  virtual Task<Result<>> drain_worker(Context context, ClusterDrainRequest request) = 0;

  // Of the cluster that this host mounts at or above `path`; their `file` is empty. These need no
  // worker here: kInvalidArgument where no cluster is mounted there.
  virtual Task<Result<std::vector<SnapshotView>>> cluster_snapshots(Context context,
                                                                    std::string path) = 0;
  virtual Task<Result<>> remove_cluster_snapshot(Context context, std::string path,
                                                 std::string name) = 0;

  // Jobs of all workers, done by their leader; on a client's host by way of the one cluster that it
  // mounts, with the rights of its token (kPermissionDenied), kUnsupported where there is none or
  // more than one. Returns when the order is with the registry.
  virtual Task<Result<ClusterJobView>> start_cluster_job(Context context,
                                                         ClusterJobRequest request) = 0;
  virtual Task<Result<std::vector<ClusterJobView>>> cluster_jobs(Context context) const = 0;
  virtual Task<Result<ClusterJobView>> cluster_job(Context context, uint64_t id) const = 0;
  // The job as it was: one that had ended stays as it is.
  virtual Task<Result<ClusterJobView>> cancel_cluster_job(Context context, uint64_t id) = 0;
};

}  // namespace leat
