// SPDX-License-Identifier: Apache-2.0
// ClusterApi: cluster operations of a worker's control socket, and their plain data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "frontends/admin/daemon_api.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

struct ClusterWorkerView {
  std::string id{};
  std::string address{};
  std::string host{};  // name of the machine
  // One of these: "active", "draining", "down" (no lease, but still in the ring), "refusing" (this
  // worker's requests). Also "unreachable" (from this worker, with a valid lease) and "rejected"
  // (its record is signed with another secret).
  std::string state{};
  std::string version{};  // of its program
  uint64_t capacity_bytes = 0;
  double share = 0;       // of the ring, 0 to 1
  std::string trouble{};  // reason of "refusing" or "unreachable"; otherwise empty

  friend bool operator==(const ClusterWorkerView&, const ClusterWorkerView&) = default;
};

struct ClusterMountView {
  std::string path{};
  std::string source{};
  std::map<std::string, std::string> options{};
  std::string trouble{};  // why this worker does not serve it; empty: it does
  // Writes that workers have and the store does not.
  uint64_t unsent_changes = 0, unsent_bytes = 0;
  std::string unsent_trouble{};  // why they cannot be sent, if this worker sends them

  friend bool operator==(const ClusterMountView&, const ClusterMountView&) = default;
};

// Progress of a draining worker in passing on its cache.
struct ClusterDrainView {
  bool ended = false;    // all objects were handled, or the drain was cancelled
  bool stopped = false;  // it was cancelled
  uint64_t objects_total = 0, objects_done = 0;
  uint64_t objects_failed = 0;               // no other worker has them
  uint64_t bytes_total = 0, bytes_done = 0;  // the total is approximate
  std::vector<std::string> errors{};         // the first few
};

struct ClusterStatusView {
  std::string name{};
  std::string self{};     // this worker's id
  std::string leader{};   // the leader's id; empty: no leader
  int64_t epoch = 0;      // of the ring
  std::string trouble{};  // between this worker and the registry; empty: none
  std::vector<ClusterWorkerView> workers{};
  std::vector<ClusterMountView> mounts{};
  std::optional<ClusterDrainView> drain{};  // of this worker, if it is draining
};

struct ClusterMountRequest {
  std::string path{};
  std::string source{};
  std::map<std::string, std::string> options{};
};

struct ClusterDrainRequest {
  bool undrain = false;    // end the drain: take a share again
  uint64_t bandwidth = 0;  // limit in bytes a second for receivers; 0: none
};

// When a job is started again; any of these keeps it until it is cancelled.
struct ClusterJobSchedule {
  uint64_t every_seconds = 0;
  bool on_change = false;
  bool on_mount = false;

  friend bool operator==(const ClusterJobSchedule&, const ClusterJobSchedule&) = default;
};

struct ClusterJobRequest {
  JobRequest job{};
  ClusterJobSchedule schedule{};
};

struct ClusterJobView {
  JobView job{};            // State "waiting" until a worker has started it.
  std::string principal{};  // Identity of the requester.
  std::string worker{};     // Id of the worker that runs or ran it; empty: not started.
  unsigned starts = 0;      // Starts in this run; above one if its worker was lost.
  ClusterJobSchedule schedule{};
  uint64_t runs = 0;        // completed runs
  bool cancelling = false;  // cancellation was requested
};

class ClusterApi {
 public:
  virtual ~ClusterApi() = default;
  // All functions but those of jobs and snapshots return kUnsupported if this daemon is no worker.
  // This one first queries all other workers, for a second or two.
  virtual Task<Result<ClusterStatusView>> cluster_status() = 0;
  virtual Task<Result<ClusterMountView>> add_cluster_mount(Context context,
                                                           ClusterMountRequest request) = 0;
  virtual Task<Result<>> remove_cluster_mount(Context context, std::string path) = 0;
  // Returns when the ring is without this worker, or with it again. From then on its cache moves to
  // others; cluster_status() has the progress.
  virtual Task<Result<>> drain_worker(Context context, ClusterDrainRequest request) = 0;

  // Snapshots of the cluster that this host mounts at or above `path`; their `file` is empty. These
  // work on clients, too; kInvalidArgument if no cluster is mounted there.
  virtual Task<Result<std::vector<SnapshotView>>> cluster_snapshots(Context context,
                                                                    std::string path) = 0;
  virtual Task<Result<>> remove_cluster_snapshot(Context context, std::string path,
                                                 std::string name) = 0;

  // Jobs run on all workers, coordinated by the leader. A client's host uses the one cluster that
  // it mounts, with the rights of its token (kPermissionDenied). kUnsupported if it mounts none or
  // more than one. Returns when the registry has the job.
  virtual Task<Result<ClusterJobView>> start_cluster_job(Context context,
                                                         ClusterJobRequest request) = 0;
  virtual Task<Result<std::vector<ClusterJobView>>> cluster_jobs(Context context) const = 0;
  virtual Task<Result<ClusterJobView>> cluster_job(Context context, uint64_t id) const = 0;
  // Returns the job as it was; an ended job does not change.
  virtual Task<Result<ClusterJobView>> cancel_cluster_job(Context context, uint64_t id) = 0;
};

}  // namespace leat
