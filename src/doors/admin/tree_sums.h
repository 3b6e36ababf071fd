// SPDX-License-Identifier: Apache-2.0
// TreeSums: what is cached of the files below a directory, of the names that the catalog has in
// memory. It asks no store and looks at a bounded number of names. Private to this room.
#pragma once

#include <cstdint>
#include <string>

#include "cache/page_store.h"
#include "catalog/catalog.h"
#include "doors/admin/codec.h"

namespace leat {

class TreeSums {
 public:
  // `store` may be null: nothing is cached then. Both outlive it.
  TreeSums(Catalog& catalog, PageStore* store) : catalog_(catalog), store_(store) {}

  // Goes through at most `names_max` names, the directory's own first; never waits.
  TreeSum of(std::string directory, uint64_t names_max) const;

 private:
  Catalog& catalog_;
  PageStore* const store_;
};

}  // namespace leat
