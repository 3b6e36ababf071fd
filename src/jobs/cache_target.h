// SPDX-License-Identifier: Apache-2.0
// CacheTarget: the cache that jobs work on: this host's, or that of a cluster's workers.
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

class CacheTarget {
 public:
  virtual ~CacheTarget() = default;

  // Returns when `range` is kept on disk; the bytes that had to be fetched. kNoSpace where there is
  // no room, kUnsupported for a file that is not to be kept.
  virtual Task<Result<uint64_t>> ensure(Context context, FileRefPtr file, ByteRange range) = 0;
  // How many bytes of `range` are not kept.
  virtual Task<Result<uint64_t>> missing(Context context, FileRefPtr file, ByteRange range) = 0;
  // Reads what is kept of `range` and compares it with its checksums; what is not there or does not
  // pass is fetched once more. The bytes that were fetched.
  virtual Task<Result<uint64_t>> read_back(Context context, FileRefPtr file, ByteRange range) = 0;
  // Gives these versions up; the bytes that were kept of them.
  virtual Task<Result<uint64_t>> drop(Context context, std::vector<FileRefPtr> files) = 0;

  struct Content {
    uint64_t objects = 0;
    uint64_t bytes = 0;
  };
  // About what verify() will look at.
  virtual Task<Content> content(Context context, uint64_t job) = 0;
  // All of it is compared with its checksums; what does not pass goes. `job`: who asks for the same
  // number again, in the place of one who died, goes on with what was begun.
  virtual Task<Result<>> verify(Context context, uint64_t job,
                                HostCache::StepListener listener) = 0;
};

}  // namespace leat
