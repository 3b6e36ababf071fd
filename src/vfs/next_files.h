// SPDX-License-Identifier: Apache-2.0
// NextFiles: prefetch from file to file. Applies to directories with opens in the order of the
// names. The next files are fetched ahead, or read from the cache's disk into the page cache. Names
// come from listings in memory: a guess never causes a request for names to a store. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "vfs/node_table.h"

namespace leat {

class NextFiles {
 public:
  using PathOf = std::function<std::string(const Node&)>;
  // Works on `executor`, in the background; returns null without one. All arguments must outlive
  // it; `store` may be null.
  static std::unique_ptr<NextFiles> of(Executor* executor, Catalog& catalog, Fetcher& fetcher,
                                       PageStore* store, PathOf path_of);
  virtual ~NextFiles() = default;

  // Records an open of `node`, at `place` among the names of its directory (CatalogEntry::place).
  // Never waits: an open is skipped while another of the same directory is recorded.
  virtual void opened(const Node& node, uint64_t place) = 0;
  // A read of the node had to wait: a paused prefetch checks again.
  virtual void waited(const Node& node) = 0;
};

}  // namespace leat
