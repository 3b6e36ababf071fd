// SPDX-License-Identifier: Apache-2.0
// SpilledNames: writes the names of one large directory into an unlinked file, which is then
// mapped, so the names use no heap. Not thread-safe; blocks.
#pragma once

#include <memory>
#include <string>

#include "catalog/snapshot/name_table.h"
#include "catalog/snapshot/snapshot_writer.h"
#include "catalog/snapshot_name_table.h"

namespace leat {

class SpilledNames {
 public:
  // For the directory with key `prefix`; the file is created in `folder`.
  SpilledNames(const std::string& folder, StoreId store, std::string prefix,
               DirectoryPolicy policy);

  // Adds all names, in any order.
  Result<> add(const NameTable& names);
  // `skipped`: number of keys that were skipped before.
  Result<std::shared_ptr<NameTable>> finish(uint64_t skipped);

 private:
  const DirectoryPolicy policy_;
  std::unique_ptr<SnapshotWriter> writer_;  // until finish(), to free its memory
};

}  // namespace leat
