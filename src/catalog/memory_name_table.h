// SPDX-License-Identifier: Apache-2.0
// MemoryNameTable: a compact table of names in memory. A file has one 40-byte record and its
// FileRef; the key in it holds the name. NameTableBuilder makes one from the pages of a listing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "catalog/snapshot/name_table.h"
#include "model/policy.h"
#include "source/source.h"

namespace leat {

class MemoryNameTable : public NameTable {
 public:
  uint64_t size() const override { return records_.size(); }
  uint64_t names_in_memory() const override { return records_.size(); }
  uint64_t skipped() const override { return skipped_; }
  std::string_view skipped_example() const override { return skipped_example_; }
  std::optional<FoundName> find(std::string_view name) const override;
  std::unique_ptr<NameTable::Cursor> from(uint64_t position) const override;
  std::unique_ptr<NameTable::Cursor> after(std::string_view name) const override;
  void adopt(std::string_view name, FileRefPtr ref) override;

 private:
  friend class NameTableBuilder;
  class Cursor;

  void add_skipped(uint64_t count, std::string_view example);

  std::vector<NameRecord> records_;
  uint64_t skipped_ = 0;
  std::string skipped_example_;
  // Names of directories, one string per page of the listing.
  std::vector<std::unique_ptr<std::string>> directory_names_;
};

// Keys of a listing that cannot be names.
struct UnnameableKeys {
  uint64_t count = 0;
  std::string example;  // the first of them, made printable
  const char* reason = "";
};

class NameTableBuilder {
 public:
  // For the directory with key `prefix` ("" or ends in '/'). A file that is unchanged in `known`
  // (may be null) keeps its FileRef, so that open files keep the same one.
  NameTableBuilder(StoreId store, std::string prefix, NameTablePtr known,
                   DirectoryPolicy policy = {});

  void add_page(const ListPage& page);
  // Names so far.
  uint64_t size() const { return table_->records_.size(); }
  // Sorts the table. If a key is object and prefix at once, the directory stays: names below it
  // could not be reached otherwise.
  std::shared_ptr<NameTable> finish();
  const UnnameableKeys& skipped() const { return skipped_; }

 private:
  void add_file(const SourceObject& object);
  bool may_show(const SourceObject& object, std::string_view name);

  StoreId store_;
  std::string prefix_;
  NameTablePtr known_;
  DirectoryPolicy policy_;
  std::shared_ptr<MemoryNameTable> table_ = std::make_shared<MemoryNameTable>();
  UnnameableKeys skipped_;
};

}  // namespace leat
