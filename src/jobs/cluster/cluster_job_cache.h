// SPDX-License-Identifier: Apache-2.0
// ClusterJobCache: the cache of a whole cluster for jobs. Each part of a file goes to the worker
// that owns it. Files are those of a ClusterSource. Thread-safe.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "cluster/cluster_view.h"
#include "jobs/job_cache.h"
#include "peer/peer_table.h"
#include "peer/routing/peer_router.h"
#include "runtime/executor.h"
#include "runtime/gate.h"

namespace leat {

class ClusterJobCache : public JobCache {
 public:
  // All must outlive it.
  ClusterJobCache(ClusterViewSource& views, const PeerTable& peers, Executor& executor)
      : views_(views), peers_(peers), router_(views, peers), executor_(executor) {}

  uint64_t capacity_bytes() const override;
  Task<Result<uint64_t>> ensure(Context context, FileRefPtr file, ByteRange range) override {
    return request(std::move(context), CacheOp::kEnsure, std::move(file), range);
  }
  Task<Result<uint64_t>> missing(Context context, FileRefPtr file, ByteRange range) override {
    return request(std::move(context), CacheOp::kMissing, std::move(file), range);
  }
  Task<Result<uint64_t>> verify_range(Context context, FileRefPtr file, ByteRange range) override {
    return request(std::move(context), CacheOp::kVerify, std::move(file), range);
  }
  // Drops on all workers, since previous owners may have copies. kUnavailable names the workers
  // that do not respond. This includes workers that left a short time ago and still are in the
  // ring: they keep their cache and may return with it.
  Task<Result<uint64_t>> drop(Context context, std::vector<FileRefPtr> files) override;
  Task<Content> content(Context context, uint64_t job) override;
  Task<Result<>> verify(Context context, uint64_t job, HostCache::StepListener listener) override;

 private:
  // The sum over all workers.
  struct VerifyFailures {
    std::mutex mutex;  // leaf
    std::vector<std::string> messages;
  };

  Task<Result<uint64_t>> request(Context context, CacheOp action, FileRefPtr file, ByteRange range);
  Task<> verify_one(Gate::Holder holder, Context context, WorkerId worker, uint64_t job,
                    const HostCache::StepListener* listener, VerifyFailures* all);

  ClusterViewSource& views_;
  const PeerTable& peers_;
  const PeerRouter router_;
  Executor& executor_;
};

}  // namespace leat
