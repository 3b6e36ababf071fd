// SPDX-License-Identifier: Apache-2.0
// ScratchNames: the names of one large directory on their way into a file without a name, which is
// then mapped: so they cost no heap. Not thread-safe; blocks.
#pragma once

#include <memory>
#include <string>

#include "catalog/name_table.h"
#include "catalog/snapshot/snapshot_writer.h"
#include "catalog/snapshot_name_table.h"

namespace leat {

class ScratchNames {
 public:
  // Of the directory with key `prefix`; the file goes into `folder`.
  ScratchNames(const std::string& folder, StoreId store, std::string prefix,
               DirectoryPolicy policy);

  // All names of `names`, in whatever order they come.
  Result<> add(const NameTable& names);
  // `left_out`: keys that never came here.
  Result<std::shared_ptr<NameTable>> finish(uint64_t left_out);

 private:
  const DirectoryPolicy policy_;
  std::unique_ptr<SnapshotWriter> writer_;  // until finish(): its memory is not kept longer
};

}  // namespace leat
