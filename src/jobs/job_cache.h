// SPDX-License-Identifier: Apache-2.0
// JobCache: the cache that jobs operate on: this host's, or that of a cluster's workers.
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "cache/host_cache.h"
#include "model/byte_range.h"
#include "model/file_ref.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

class JobCache {
 public:
  virtual ~JobCache() = default;

  // Returns how many bytes it can hold; the maximum if that is not known.
  virtual uint64_t capacity_bytes() const { return UINT64_MAX; }
  // Caches all of `range` on disk. Returns the bytes that had to be fetched. Errors: kNoSpace if
  // the cache has no space; kUnsupported for a file that its mount does not cache on disk.
  virtual Task<Result<uint64_t>> ensure(Context context, FileRefPtr file, ByteRange range) = 0;
  // Returns the bytes of `range` that are not cached.
  virtual Task<Result<uint64_t>> missing(Context context, FileRefPtr file, ByteRange range) = 0;
  // Reads the cached bytes of `range` and compares them with their checksums. Fetches missing or
  // corrupt bytes again, and returns their number.
  virtual Task<Result<uint64_t>> verify_range(Context context, FileRefPtr file,
                                              ByteRange range) = 0;
  // Drops these versions, and returns the bytes that were cached.
  virtual Task<Result<uint64_t>> drop(Context context, std::vector<FileRefPtr> files) = 0;

  struct Content {
    uint64_t objects = 0;
    uint64_t bytes = 0;
  };
  // Returns an estimate of what verify() will read.
  virtual Task<Content> content(Context context, uint64_t job) = 0;
  // Compares all cached bytes with their checksums, and drops corrupt ones. `job` identifies the
  // run: a successor of a lost process passes the same number and continues that run.
  virtual Task<Result<>> verify(Context context, uint64_t job,
                                HostCache::StepListener listener) = 0;
};

}  // namespace leat
