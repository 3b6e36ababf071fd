// SPDX-License-Identifier: Apache-2.0
// PeerTarget: the cache of a whole cluster for jobs. Each part of a file goes to the worker that
// owns it. Files are those of a ClusterSource. Thread-safe.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "cluster/cluster_view.h"
#include "jobs/cache_target.h"
#include "peer/peer_router.h"
#include "peer/peer_table.h"
#include "runtime/activity.h"
#include "runtime/executor.h"

namespace leat {

class PeerTarget : public CacheTarget {
 public:
  // All must outlive it.
  PeerTarget(ClusterMap& map, const PeerTable& peers, Executor& executor)
      : map_(map), peers_(peers), router_(map, peers), executor_(executor) {}

  Task<Result<uint64_t>> ensure(Context context, FileRefPtr file, ByteRange range) override {
    return ask(std::move(context), UpkeepAction::kEnsure, std::move(file), range);
  }
  Task<Result<uint64_t>> missing(Context context, FileRefPtr file, ByteRange range) override {
    return ask(std::move(context), UpkeepAction::kMissing, std::move(file), range);
  }
  Task<Result<uint64_t>> read_back(Context context, FileRefPtr file, ByteRange range) override {
    return ask(std::move(context), UpkeepAction::kReadBack, std::move(file), range);
  }
  // Drops on all workers, since previous owners may have copies. kUnavailable names the workers
  // that do not respond. This includes workers that left a short time ago and still are in the
  // ring: they keep their cache and may return with it.
  Task<Result<uint64_t>> drop(Context context, std::vector<FileRefPtr> files) override;
  Task<Content> content(Context context, uint64_t job) override;
  Task<Result<>> verify(Context context, uint64_t job, HostCache::StepListener listener) override;

 private:
  // The sum over all workers.
  struct Verified {
    std::mutex mutex;  // leaf
    std::vector<std::string> troubles;
  };

  Task<Result<uint64_t>> ask(Context context, UpkeepAction action, FileRefPtr file,
                             ByteRange range);
  Task<> verify_one(Activity::Token token, Context context, WorkerId worker, uint64_t job,
                    const HostCache::StepListener* listener, Verified* all);

  ClusterMap& map_;
  const PeerTable& peers_;
  const PeerRouter router_;
  Executor& executor_;
};

}  // namespace leat
