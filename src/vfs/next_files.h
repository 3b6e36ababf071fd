// SPDX-License-Identifier: Apache-2.0
// NextFiles: look-ahead from file to file. Where the files of a directory are opened in the order
// of their names, the ones that follow are fetched before somebody opens them, or brought from the
// cache's disk into the page cache. Names come from listings in memory: a store is never asked
// because of a guess. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "vfs/node_table.h"

namespace leat {

class NextFiles {
 public:
  using PathOf = std::function<std::string(const Node&)>;
  // Works on `executor`, in the background; null without one. All must outlive it; `store` may be
  // null.
  static std::unique_ptr<NextFiles> of(Executor* executor, Catalog& catalog, Fetcher& fetcher,
                                       PageStore* store, PathOf path_of);
  virtual ~NextFiles() = default;

  // `node` was opened, which is at `place` among its names (CatalogEntry::place). Never waits: an
  // open that comes while another of the same directory is noted is not.
  virtual void opened(const Node& node, uint64_t place) = 0;
  // A read of it had to wait: look-ahead that found nothing to do and rests shall look again.
  virtual void waited(const Node& node) = 0;
};

}  // namespace leat
