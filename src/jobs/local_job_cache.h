// SPDX-License-Identifier: Apache-2.0
// LocalJobCache: this host's cache for jobs. Thread-safe.
#pragma once

#include <vector>

#include "cache/page_store.h"
#include "fetch/fetcher.h"
#include "jobs/job_cache.h"
#include "runtime/executor.h"

namespace leat {

class LocalJobCache : public JobCache {
 public:
  // All must outlive it. `cache` is `store` if that can be verified, else null.
  LocalJobCache(Fetcher& fetcher, PageStore& store, HostCache* cache, Executor& executor)
      : fetcher_(fetcher), store_(store), cache_(cache), executor_(executor) {}

  uint64_t capacity_bytes() const override { return store_.stats().capacity_bytes; }
  Task<Result<uint64_t>> ensure(Context context, FileRefPtr file, ByteRange range) override {
    return fetcher_.ensure(std::move(context), std::move(file), range);
  }
  Task<Result<uint64_t>> missing(Context context, FileRefPtr file, ByteRange range) override;
  Task<Result<uint64_t>> verify_range(Context context, FileRefPtr file, ByteRange range) override;
  Task<Result<uint64_t>> drop(Context context, std::vector<FileRefPtr> files) override;
  Task<Result<uint64_t>> drop_ids(Context context, std::vector<FileId> files);
  Task<Content> content(Context context, uint64_t job) override;
  // kUnsupported if nothing can be verified.
  Task<Result<>> verify(Context context, uint64_t job, HostCache::StepListener listener) override;

 private:
  Fetcher& fetcher_;
  PageStore& store_;
  HostCache* const cache_;
  Executor& executor_;
};

}  // namespace leat
