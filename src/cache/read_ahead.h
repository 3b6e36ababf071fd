// SPDX-License-Identifier: Apache-2.0
// Bringing what is about to be read from the disk into the page cache.
#pragma once

#include <memory>
#include <vector>

#include "cache/cache_directory.h"
#include "cache/descriptor_pool.h"
#include "cache/page_store.h"
#include "runtime/task.h"

namespace leat {

// A piece of a cache file's data.
struct Stretch {
  std::shared_ptr<Openable> object;
  uint64_t offset;
  uint64_t size;
};

// In the order of the disk, those that nearly touch as one.
std::vector<Stretch> merge_stretches(std::vector<Stretch> stretches);

// Ends when the disk was told of all of them, and tells how much of it was not in the page cache.
Task<> read_ahead(std::shared_ptr<CacheDirectory> directory, std::vector<Stretch> stretches,
                  PageStore::AheadListener told);

}  // namespace leat
