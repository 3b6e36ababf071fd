// SPDX-License-Identifier: Apache-2.0
// Read-ahead from the disk into the page cache.
#pragma once

#include <memory>
#include <vector>

#include "cache/cache_directory.h"
#include "cache/descriptor_pool.h"
#include "cache/page_store.h"
#include "runtime/task.h"

namespace leat {

// A range of a cache file's data.
struct FileExtent {
  std::shared_ptr<FdOwner> object;
  uint64_t offset;
  uint64_t size;
};

// Sorts the ranges in disk order and merges those that nearly touch.
std::vector<FileExtent> merge_extents(std::vector<FileExtent> extents);

// Returns when the disk has all requests; reports the bytes that were not in the page cache.
Task<> submit_readahead(std::shared_ptr<CacheDirectory> directory, std::vector<FileExtent> extents,
                        PageStore::ReadaheadListener listener);

}  // namespace leat
