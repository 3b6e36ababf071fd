// SPDX-License-Identifier: Apache-2.0
// HostDaemon: the modules of one daemon, connected, behind the interface of the admin server.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "apps/cluster/host_cluster.h"
#include "apps/daemon/cluster_snapshots.h"
#include "apps/daemon/daemon_history.h"
#include "apps/daemon/daemon_metrics.h"
#include "apps/daemon/damaged_files.h"
#include "apps/daemon/inspection.h"
#include "apps/daemon/kept_jobs.h"
#include "apps/daemon/kept_mounts.h"
#include "apps/daemon/mount_service.h"
#include "apps/daemon/pid_file.h"
#include "apps/daemon/snapshot_service.h"
#include "config/config.h"
#include "doors/admin/admin_door.h"
#include "doors/console/console_door.h"
#include "doors/fuse/connection/connection_record.h"
#include "http/server.h"
#include "jobs/host_target.h"
#include "jobs/job_table.h"
#include "prefetch/window_budget.h"
#include "runtime/kept_descriptors.h"

namespace leat {

struct HostDaemonOptions {
  std::string runtime;
  std::string log_file;
  bool stays_when_empty = false;
  // Keeps the descriptors that a successor needs; outlives the daemon.
  KeptDescriptors& keeper;
  // Earlier daemons of this supervisor.
  uint64_t restarts = 0;
  // Called to end the process, with the reason, on any thread.
  std::function<void(std::string)> on_stop;
  // Reads file, environment and flags again.
  std::function<Result<Config>()> read_config;
};

class HostDaemon : public Host {
 public:
  // Locks the runtime directory, opens the cache, serves the control socket. Blocks.
  static Result<std::unique_ptr<HostDaemon>> start(HostDaemonOptions options, Config config);
  // Unmounts everything and closes the cache cleanly. Blocks. Must be called before destruction.
  void stop();
  // Like stop(), but the mounts stay for the next daemon. Threads may still wait for replies that
  // only the next daemon gives. So the process must end without destroying this object.
  void hand_over();
  bool handing_over() const { return handing_over_.load(); }
  bool has_mount(const std::string& path) const;

  Result<MountView> mount_and_wait(MountRequest request);

  Task<Result<MountView>> mount(Context context, MountRequest request) override;
  Task<Result<>> unmount(Context context, std::string path, bool lazy) override;
  Task<Result<MountView>> change_mount(Context context, MountChange change) override;
  Task<Result<MountView>> move_mount(Context context, MountMove move) override;
  std::vector<MountView> mounts() const override;
  HostStatus status() const override;
  HistoryView history() const override;
  std::vector<ErrorView> errors() const override;
  Findings findings() const override;
  Result<JobView> start_job(JobRequest request) override;
  std::vector<JobView> jobs() const override;
  Result<JobView> job(uint64_t id) const override;
  Result<JobView> cancel_job(uint64_t id) override;
  Task<Result<ObjectPage>> cached_objects(Context context, std::string after,
                                          size_t limit) override;
  Task<Result<EvictView>> evict(Context context, EvictRequest request) override;
  Task<Result<std::vector<SnapshotView>>> snapshots(Context context) override;
  Task<Result<>> use_snapshot(Context context, SnapshotUse use) override;
  Task<Result<>> remove_snapshot(Context context, std::string name) override;
  std::vector<OptionView> options() const override;
  Result<ReloadView> reload_options() override;
  void shut_down() override;
  Result<> upgrade(UpgradeRequest request) override;

 private:
  HostDaemon(HostDaemonOptions options, Config config, PidFile pid_file);

  Result<> open_cache();
  Result<> serve();
  void take_over_mounts();
  Result<JobView> begin_job(JobRequest request, std::optional<uint64_t> id);
  void go_on_with_jobs();
  Task<Result<>> take_over(KeptMount kept);
  void end(Task<> doors);
  // Returns the content of `.leat` in the mount at `folder`.
  InspectionView inspection_of(const std::string& folder) const;
  void listen_on_loopback();
  Task<> end_if_unused(Activity::Token token);
  Task<> tend_heap(Activity::Token token);
  Task<> keep_history(Activity::Token token);

  const HostDaemonOptions options_;
  const Config config_;           // from the start
  mutable std::mutex hot_mutex_;  // leaf
  Config hot_;                    // last read; used only for options that need no restart
  const uint64_t memory_bytes_max_;
  const PidFile pid_file_;
  KeptMounts kept_;
  KeptJobs kept_jobs_;
  ConnectionRecord connections_;
  const Clock::time_point started_ = Clock::now();
  const DaemonMetrics process_metrics_{options_.restarts};
  DaemonHistory history_;

  // Three quarters of the memory: the share for prefetching.
  WindowBudget windows_;
  // In the order of creation; each uses only those above it. Exception: jobs, which start when all
  // exist, notify the mounts of refreshed names.
  Executor executor_;
  const std::shared_ptr<DamagedFiles> damaged_ = std::make_shared<DamagedFiles>(executor_);
  std::unique_ptr<HostCache> store_;
  std::unique_ptr<HostCluster> cluster_;
  SourceTable sources_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<SnapshotService> snapshots_;
  std::unique_ptr<ClusterSnapshots> cluster_snapshots_;
  std::unique_ptr<Fetcher> fetcher_;
  std::unique_ptr<HostTarget> job_target_;
  std::unique_ptr<JobTable> jobs_;
  std::unique_ptr<MountService> mounts_;
  std::unique_ptr<AdminDoor> admin_;
  std::unique_ptr<ConsoleDoor> console_;
  std::unique_ptr<HttpServer> control_;
  std::unique_ptr<HttpServer> metrics_;
  std::string metrics_note_;
  Activity activity_;
  std::stop_source stopping_;
  std::atomic<bool> handing_over_ = false;
};

}  // namespace leat
