// SPDX-License-Identifier: Apache-2.0
// NextFilePrefetcher: prefetch from file to file. Applies to directories with opens in the order of
// the names. The next files are prefetched, or read from the cache's disk into the page cache.
// Names come from listings in memory: a prediction never causes a listing request. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "vfs/node_table.h"

namespace leat {

class NextFilePrefetcher {
 public:
  using PathOf = std::function<std::string(const Node&)>;
  // Works on `executor`, in the background; returns null without one. All arguments must outlive
  // it; `store` may be null.
  static std::unique_ptr<NextFilePrefetcher> create(Executor* executor, Catalog& catalog,
                                                    Fetcher& fetcher, PageStore* store,
                                                    PathOf path_of);
  virtual ~NextFilePrefetcher() = default;

  // Records an open of `node`, at `place` among the names of its directory (CatalogEntry::place).
  // Never waits: an open is skipped while another of the same directory is recorded.
  virtual void on_open(const Node& node, uint64_t place) = 0;
  // A read of the node had to wait: a paused prefetch checks again.
  virtual void on_stall(const Node& node) = 0;
};

}  // namespace leat
