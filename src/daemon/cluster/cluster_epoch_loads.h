// SPDX-License-Identifier: Apache-2.0
// ClusterEpochLoads: reports the readers of an epoch in a mounted cluster to its workers, which
// load the tree once for all clients (ClusterJobStore). Trees of other mounts go to another
// listener. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "daemon/cluster/cluster_client.h"
#include "runtime/executor.h"
#include "runtime/gate.h"
#include "vfs/file_system.h"

namespace leat {

struct ClusterEpochLoadsOptions {
  Clock::duration report_every = std::chrono::seconds(5);
  Clock::duration report_timeout = std::chrono::seconds(10);
  // After the end of a load, or a refused report, nothing is reported for this time, or for ten
  // times the load's duration.
  Clock::duration rest_min = std::chrono::seconds(60);
};

class ClusterEpochLoads : public EpochListener {
 public:
  struct Tree {
    std::shared_ptr<ClusterClient> client;
    std::string path;  // in the cluster's namespace
  };
  // Returns nothing for a path that is in no mounted cluster.
  using Resolve = std::function<std::optional<Tree>(const std::string& path)>;

  // `local` and `executor` must outlive it; stop() must have ended before its destruction.
  ClusterEpochLoads(EpochListener& local, Resolve resolve, Executor& executor,
                    ClusterEpochLoadsOptions options = {})
      : options_(options), local_(local), resolve_(std::move(resolve)), executor_(executor) {}

  bool on_epoch(const std::string& path) override;
  Task<> stop();

 private:
  struct Reported {
    Clock::time_point next{};  // no report before
    bool resting = false;      // nothing is loaded until then
  };

  Task<> report(Gate::Holder holder, std::string path, Tree tree);
  void rest(const std::string& path, Clock::duration took);

  const ClusterEpochLoadsOptions options_;
  EpochListener& local_;
  const Resolve resolve_;
  Executor& executor_;
  Gate gate_;
  std::stop_source stopping_;
  std::mutex mutex_;                          // leaf
  std::map<std::string, Reported> reported_;  // by path of this host
};

}  // namespace leat
