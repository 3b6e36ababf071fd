// SPDX-License-Identifier: Apache-2.0
// Daemon: the modules of one daemon, connected, behind the interface of the admin server.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "config/config.h"
#include "daemon/cluster/cluster_epoch_loads.h"
#include "daemon/cluster/cluster_service.h"
#include "daemon/cluster_snapshots.h"
#include "daemon/daemon_history.h"
#include "daemon/daemon_metrics.h"
#include "daemon/damaged_files.h"
#include "daemon/epoch_loads.h"
#include "daemon/inspection.h"
#include "daemon/mounts/mount_service.h"
#include "daemon/pid_file.h"
#include "daemon/snapshot_service.h"
#include "daemon/takeover/job_journal.h"
#include "daemon/takeover/takeover_state.h"
#include "frontends/admin/admin_server.h"
#include "frontends/console/console_server.h"
#include "frontends/fuse/connection/connection_record.h"
#include "http/server/server.h"
#include "jobs/job_table.h"
#include "jobs/local_job_cache.h"
#include "prefetch/window_budget.h"
#include "runtime/fd_store.h"

namespace leat {

struct DaemonOptions {
  std::string runtime;
  std::string log_file;
  bool stays_when_empty = false;
  // Stores the descriptors that a successor needs; outlives the daemon.
  FdStore& fd_store;
  // Earlier daemons of this supervisor.
  uint64_t restarts = 0;
  // Called to end the process, with the reason, on any thread.
  std::function<void(std::string)> on_stop;
  // Reads file, environment and flags again.
  std::function<Result<Config>()> read_config;
};

class Daemon : public DaemonApi {
 public:
  // Locks the runtime directory, opens the cache, serves the control socket. Blocks.
  static Result<std::unique_ptr<Daemon>> start(DaemonOptions options, Config config);
  // Unmounts everything and closes the cache cleanly. Blocks. Must be called before destruction.
  void stop();
  // Like stop(), but the mounts stay for the next daemon. Threads may still wait for replies that
  // only the next daemon sends. So the process must end without destroying this object.
  void prepare_takeover();
  bool takeover_requested() const { return takeover_requested_.load(); }
  bool has_mount(const std::string& path) const;

  Result<MountView> mount_and_wait(MountRequest request);

  Task<Result<MountView>> mount(Context context, MountRequest request) override;
  Task<Result<FlushView>> flush(Context context, FlushRequest request) override;
  Task<Result<>> unmount(Context context, std::string path, bool lazy) override;
  Task<Result<MountView>> change_mount(Context context, MountChange change) override;
  Task<Result<MountView>> move_mount(Context context, MountMove move) override;
  std::vector<MountView> mounts() const override;
  DaemonStatus status() const override;
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
  Daemon(DaemonOptions options, Config config, PidFile pid_file);

  Result<> open_cache();
  Result<> serve();
  void restore_mounts();
  Result<JobView> begin_job(JobRequest request, std::optional<uint64_t> id);
  void resume_jobs();
  Task<Result<>> restore(SavedMount saved);
  void end(Task<> frontends);
  // Returns the content of `.leat` in the mount at `folder`.
  InspectionView inspection_of(const std::string& folder) const;
  void listen_on_loopback();
  Task<> end_if_unused(Gate::Holder holder);
  Task<> trim_heap_loop(Gate::Holder holder);
  Task<> sample_history_loop(Gate::Holder holder);

  const DaemonOptions options_;
  const Config config_;                  // from the start
  mutable std::mutex reloadable_mutex_;  // leaf
  Config reloadable_;                    // last read; used only for options that need no restart
  const uint64_t memory_bytes_max_;
  const PidFile pid_file_;
  TakeoverState takeover_state_;
  JobJournal job_journal_;
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
  std::unique_ptr<ClusterService> cluster_;
  SourceTable sources_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<SnapshotService> snapshots_;
  std::unique_ptr<ClusterSnapshots> cluster_snapshots_;
  std::unique_ptr<Fetcher> fetcher_;
  std::unique_ptr<LocalJobCache> job_cache_;
  std::unique_ptr<JobTable> jobs_;
  std::unique_ptr<EpochLoads> epoch_loads_;
  std::unique_ptr<ClusterEpochLoads> cluster_epoch_loads_;  // before epoch_loads_ in the path
  std::unique_ptr<MountService> mounts_;
  std::unique_ptr<AdminServer> admin_;
  std::unique_ptr<ConsoleServer> console_;
  std::unique_ptr<HttpServer> control_;
  std::unique_ptr<HttpServer> metrics_;
  std::string metrics_note_;
  Gate gate_;
  std::stop_source stopping_;
  std::atomic<bool> takeover_requested_ = false;
};

}  // namespace leat
