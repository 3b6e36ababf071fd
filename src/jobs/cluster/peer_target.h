// SPDX-License-Identifier: Apache-2.0
// PeerTarget: the cache of a whole cluster, as jobs work on it: each part of a file by the worker
// that holds it. Files are those of a ClusterSource. Thread-safe.
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
  // Of all workers, since copies may lie with those that held it before. kUnavailable names those
  // that do not answer, also those that are gone for less than the ring waits for them: what they
  // have, they keep, and may come back with.
  Task<Result<uint64_t>> drop(Context context, std::vector<FileRefPtr> files) override;
  Task<Content> content(Context context, uint64_t job) override;
  Task<Result<>> verify(Context context, uint64_t job, HostCache::StepListener listener) override;

 private:
  // Of all workers together.
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
