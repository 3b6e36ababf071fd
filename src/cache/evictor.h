// SPDX-License-Identifier: Apache-2.0
// Evictor: keeps a cache directory below its marks, beside the requests. Takes from files and from
// segments whichever came first. Thread-safe.
#pragma once

#include <atomic>
#include <memory>

#include "cache/cache_directory.h"
#include "cache/file_store.h"
#include "cache/packed_store.h"

namespace leat {

class Evictor : public std::enable_shared_from_this<Evictor> {
 public:
  Evictor(std::shared_ptr<CacheDirectory> directory, std::shared_ptr<FileStore> files,
          std::shared_ptr<PackedStore> packed)
      : directory_(std::move(directory)), files_(std::move(files)), packed_(std::move(packed)) {}

  // Begins in the background, unless it is under way.
  void start();
  // Looks at the file system's free space, then evicts from above the high mark to the low one.
  // Returns whether anything went.
  Task<bool> run();

 private:
  static Task<> run_in_background(std::shared_ptr<Evictor> self);
  Task<> look_at_free_space();
  Task<uint64_t> evict_one();

  const std::shared_ptr<CacheDirectory> directory_;
  const std::shared_ptr<FileStore> files_;
  const std::shared_ptr<PackedStore> packed_;
  std::atomic<bool> running_ = false;
};

}  // namespace leat
