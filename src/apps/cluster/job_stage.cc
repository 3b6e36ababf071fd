// SPDX-License-Identifier: Apache-2.0
#include "apps/cluster/job_stage.h"

#include <algorithm>
#include <map>
#include <utility>

#include "apps/cluster/cluster_mounts.h"
#include "catalog/catalog.h"
#include "jobs/cluster/peer_copier.h"
#include "jobs/cluster/peer_target.h"
#include "peer/cluster_source.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// For a job, per worker.
constexpr size_t kPiecesPerWorker = 16;
constexpr size_t kPiecesMax = 1024;
constexpr unsigned kRoundsMax = 3;
// Each copy uses memory of its worker (CopyRuns).
constexpr size_t kCopiesPerWorker = 8;
constexpr size_t kCopiesMax = 256;

unsigned pieces_for(const ClusterView& view) {
  return static_cast<unsigned>(
      std::clamp(kPiecesPerWorker * view.workers.size(), kPiecesPerWorker, kPiecesMax));
}

unsigned copies_for(const ClusterView& view) {
  return static_cast<unsigned>(
      std::clamp(kCopiesPerWorker * view.workers.size(), kCopiesPerWorker, kCopiesMax));
}

class WorkersStage : public JobStage {
 public:
  WorkersStage(JobStageOptions options, ClusterMap& map, const PeerTable& peers, Executor& executor)
      : map_(map),
        catalog_(Catalog::create({.scratch_directory = std::move(options.scratch_directory)},
                                 sources_, executor)),
        source_(make_cluster_source(
            {.cluster = map.view()->cluster, .name = "leat://" + map.view()->cluster}, map, peers)),
        target_(map, peers, executor),
        copier_(map, peers),
        jobs_({.load = {.files_max = pieces_for(*map.view()),
                        .pieces_max = pieces_for(*map.view()),
                        .rounds_max = kRoundsMax},
               .copier = &copier_,
               .copies_max = copies_for(*map.view())},
              *catalog_, &target_, executor) {
    follow(*map.view());
    executor.spawn(follow_views(*activity_.enter()));
  }

  JobTable& jobs() override { return jobs_; }
  void forget_names(const std::string& path) override { catalog_->invalidate(path); }

  Task<> stop() override {
    stopping_.request_stop();
    co_await jobs_.stop();
    activity_.close();
    co_await activity_.wait_idle();
    co_await catalog_->stop();
  }

 private:
  void follow(const ClusterView& view);
  Result<> add(const ClusterMount& mount);
  Task<> follow_views(Activity::Token token);

  ClusterMap& map_;
  std::stop_source stopping_;
  Activity activity_;
  SourceTable sources_;
  const std::unique_ptr<Catalog> catalog_;
  const SourcePtr source_;
  PeerTarget target_;
  PeerCopier copier_;
  JobTable jobs_;
  std::map<std::string, ClusterMount> mounted_;  // used only by follow()
};

Task<> WorkersStage::follow_views(Activity::Token) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  RegistryRevision seen = map_.view()->revision;
  while (true) {
    Result<ClusterViewPtr> news = co_await map_.newer(context, seen);
    if (!news) co_return;
    seen = (*news)->revision;
    follow(**news);
  }
}

void WorkersStage::follow(const ClusterView& view) {
  for (auto at = mounted_.begin(); at != mounted_.end();) {
    const auto now = view.mounts.find(at->first);
    if (now != view.mounts.end() && now->second == at->second) {
      ++at;
      continue;
    }
    static_cast<void>(catalog_->unmount(at->first));
    at = mounted_.erase(at);
  }
  for (const auto& [path, mount] : view.mounts) {
    if (mounted_.contains(path)) continue;
    if (auto added = add(mount); added) {
      mounted_[path] = mount;
    } else {
      log::warning("jobs do without {}: {}", path, added.error().to_string());
    }
  }
}

// Uses the workers' policy; names and bytes come from the workers.
Result<> WorkersStage::add(const ClusterMount& mount) {
  LEAT_TRY(MountEntry entry, cluster_mount_entry(mount));
  const std::string key = mount.path.substr(1);
  entry.source = StoreUrl{.scheme = "leat",
                          .bucket = map_.view()->cluster,
                          .prefix = key.empty() ? "" : key + "/",
                          .options = {}};
  return catalog_->mount(std::move(entry), source_);
}

}  // namespace

Result<std::unique_ptr<JobStage>> make_job_stage(JobStageOptions options, ClusterMap& map,
                                                 const PeerTable& peers, Executor& executor) {
  if (map.view()->revision == 0) {
    return error(StatusCode::kUnavailable, "nothing is known of the cluster yet");
  }
  return std::make_unique<WorkersStage>(std::move(options), map, peers, executor);
}

}  // namespace leat
