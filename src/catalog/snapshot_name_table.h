// SPDX-License-Identifier: Apache-2.0
// SnapshotNameTable: the names of one directory of a snapshot, read on demand from the mapped file.
// Also converts snapshot entries to files of a mount.
#pragma once

#include <memory>
#include <string>

#include "catalog/snapshot/name_table.h"
#include "catalog/snapshot/snapshot.h"
#include "model/policy.h"

namespace leat {

// Returns the same FileRef as a listing of `store`, the snapshot's store, would. Null for a
// directory. Moves the entry's path and version.
FileRefPtr make_file_ref(const Snapshot& snapshot, const StoreId& store, SnapshotEntry& entry,
                         const PathPolicy& policy);

class SnapshotNameTable : public NameTable {
 public:
  // Returns the table of `directory` ("": the root) with files of `store`; null if there is no such
  // directory.
  static std::shared_ptr<SnapshotNameTable> of(SnapshotPtr snapshot, const StoreId& store,
                                               std::string_view directory, DirectoryPolicy policy,
                                               uint64_t skipped);

  uint64_t size() const override { return end_ - first_; }
  uint64_t names_in_memory() const override { return 0; }
  uint64_t skipped() const override { return skipped_; }
  std::optional<FoundName> find(std::string_view name) const override;
  std::unique_ptr<NameTable::Cursor> from(uint64_t position) const override;
  std::unique_ptr<NameTable::Cursor> after(std::string_view name) const override;
  void adopt(std::string_view, FileRefPtr) override {}  // holds none

 private:
  class Cursor;
  SnapshotNameTable() = default;

  SnapshotPtr snapshot_;
  StoreId store_;
  std::string prefix_;  // of the paths: "" or ends in '/'
  DirectoryPolicy policy_;
  uint64_t skipped_ = 0;
  uint64_t first_ = 0, end_ = 0;  // range of the entries below the directory
};

}  // namespace leat
