// SPDX-License-Identifier: Apache-2.0
// TreeSums: cached bytes of the files below a directory, over the names in the catalog's memory.
// Reads no store and visits a bounded number of names. Private to this module.
#pragma once

#include <cstdint>
#include <string>

#include "cache/page_store.h"
#include "catalog/catalog.h"
#include "frontends/admin/codec.h"

namespace leat {

class TreeSums {
 public:
  // `store` may be null: then nothing is cached. Both must outlive the object.
  TreeSums(Catalog& catalog, PageStore* store) : catalog_(catalog), store_(store) {}

  // Visits at most `names_max` names, the directory's own first; never waits.
  TreeSum of(std::string directory, uint64_t names_max) const;

 private:
  Catalog& catalog_;
  PageStore* const store_;
};

}  // namespace leat
