// SPDX-License-Identifier: Apache-2.0
#include "worker/cluster_job_environment.h"

#include <algorithm>
#include <map>
#include <utility>

#include "catalog/catalog.h"
#include "jobs/cluster/cluster_job_cache.h"
#include "jobs/cluster/peer_copier.h"
#include "peer/sources/cluster_source.h"
#include "telemetry/log.h"
#include "worker/cluster_mounts.h"

namespace leat {
namespace {

// For a job, per worker.
constexpr size_t kPiecesPerWorker = 128;
constexpr size_t kPiecesMax = 1024;
constexpr unsigned kRoundsMax = 3;
// Each copy uses memory of its worker (CopySessions).
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

class ClusterJobEnvironment : public JobEnvironment {
 public:
  ClusterJobEnvironment(ClusterJobEnvironmentOptions options, ClusterViewSource& views,
                        const PeerTable& peers, Executor& executor)
      : views_(views),
        catalog_(Catalog::create({.scratch_directory = std::move(options.scratch_directory)},
                                 sources_, executor)),
        source_(make_cluster_source(
            {.cluster = views.view()->cluster, .name = "leat://" + views.view()->cluster}, views,
            peers)),
        cache_(views, peers, executor),
        copier_(views, peers),
        jobs_({.load = {.files_max = pieces_for(*views.view()),
                        .pieces_max = pieces_for(*views.view()),
                        .rounds_max = kRoundsMax},
               .copier = &copier_,
               .copies_max = copies_for(*views.view())},
              *catalog_, &cache_, executor) {
    follow(*views.view());
    executor.spawn(follow_views(*gate_.enter()));
  }

  JobTable& jobs() override { return jobs_; }
  void invalidate_names(const std::string& path) override { catalog_->invalidate(path); }

  Task<> stop() override {
    stopping_.request_stop();
    co_await jobs_.stop();
    gate_.close();
    co_await gate_.wait_idle();
    co_await catalog_->stop();
  }

 private:
  void follow(const ClusterView& view);
  Result<> add(const ClusterMount& mount);
  Task<> follow_views(Gate::Holder holder);

  ClusterViewSource& views_;
  std::stop_source stopping_;
  Gate gate_;
  SourceTable sources_;
  const std::unique_ptr<Catalog> catalog_;
  const SourcePtr source_;
  ClusterJobCache cache_;
  PeerCopier copier_;
  JobTable jobs_;
  std::map<std::string, ClusterMount> mounted_;  // used only by follow()
};

Task<> ClusterJobEnvironment::follow_views(Gate::Holder) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  RegistryRevision seen = views_.view()->revision;
  while (true) {
    Result<ClusterViewPtr> newer = co_await views_.newer(context, seen);
    if (!newer) co_return;
    seen = (*newer)->revision;
    follow(**newer);
  }
}

void ClusterJobEnvironment::follow(const ClusterView& view) {
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
      log::warning("jobs skip mount {}: {}", path, added.error().to_string());
    }
  }
}

// Uses the workers' policy; names and bytes come from the workers.
Result<> ClusterJobEnvironment::add(const ClusterMount& mount) {
  LEAT_TRY(MountEntry entry, cluster_mount_entry(mount));
  const std::string key = mount.path.substr(1);
  entry.source = StoreUrl{.scheme = "leat",
                          .bucket = views_.view()->cluster,
                          .prefix = key.empty() ? "" : key + "/",
                          .options = {}};
  return catalog_->mount(std::move(entry), source_);
}

}  // namespace

Result<std::unique_ptr<JobEnvironment>> make_cluster_job_environment(
    ClusterJobEnvironmentOptions options, ClusterViewSource& views, const PeerTable& peers,
    Executor& executor) {
  if (views.view()->revision == 0) {
    return error(StatusCode::kUnavailable, "no view of the cluster yet");
  }
  return std::make_unique<ClusterJobEnvironment>(std::move(options), views, peers, executor);
}

}  // namespace leat
