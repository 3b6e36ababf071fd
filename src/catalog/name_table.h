// SPDX-License-Identifier: Apache-2.0
// NameTable: the names of one directory as a listing of the store told them; sorted, immutable and
// compact (a file: one 40-byte record and its FileRef, whose key holds the name).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/file_info.h"
#include "model/file_ref.h"
#include "source/source.h"

namespace leat {

// What a name stands for.
struct NameRecord {
  std::string_view name;  // into `ref->key`, or into whatever owns the record
  FileRefPtr ref;         // null for directories
  int64_t mtime_ns = kNoTime;

  static constexpr int64_t kNoTime = std::numeric_limits<int64_t>::min();

  bool is_directory() const { return ref == nullptr; }
  std::optional<WallTime> mtime() const;
};

int64_t to_mtime_ns(const std::optional<WallTime>& mtime);
// Same kind and, for files, same bytes.
bool same_content(const NameRecord& a, const NameRecord& b);

// Why a key cannot be shown as a name, or null: empty, "." and "..", '/', NUL, more than 255 bytes
// (NAME_MAX of Linux).
const char* reason_to_hide(std::string_view name);

class NameTable;
using NameTablePtr = std::shared_ptr<const NameTable>;

class NameTable {
 public:
  size_t size() const { return records_.size(); }
  const NameRecord& operator[](size_t index) const { return records_[index]; }
  // Keys of the listing that are not in the table, by the store's choice or ours.
  uint64_t left_out() const { return left_out_; }
  // Null when there is no such name.
  const NameRecord* find(std::string_view name) const;
  // Before the table is shared: the record of file `name` goes on with `ref`, which says the same.
  void adopt(std::string_view name, FileRefPtr ref);

 private:
  friend class NameTableBuilder;
  std::vector<NameRecord> records_;
  uint64_t left_out_ = 0;
  // Names of directories, one piece per page of the listing.
  std::vector<std::unique_ptr<std::string>> directory_names_;
};

// Keys of a listing that are not names.
struct HiddenNames {
  uint64_t count = 0;
  std::string example;  // the first of them, made printable
  const char* reason = "";
};

class NameTableBuilder {
 public:
  // Of the directory with key `prefix` ("" or ends in '/'). A file that is as it was in `known`
  // (may be null) keeps its FileRef, so that whoever has it open goes on with the same one.
  NameTableBuilder(StoreId store, std::string prefix, NameTablePtr known,
                   CacheMode cache = CacheMode::kAuto, PoolId pool = PoolId::kNone);

  void add_page(const ListPage& page);
  // Sorts. Where a key is object and prefix at once, the directory stays: what is below it could
  // not be reached otherwise.
  std::shared_ptr<NameTable> finish();
  const HiddenNames& hidden() const { return hidden_; }

 private:
  void add_file(const SourceObject& object);
  bool may_show(const SourceObject& object, std::string_view name);

  const StoreId store_;
  const std::string prefix_;
  const NameTablePtr known_;
  const CacheMode cache_;
  const PoolId pool_;
  std::shared_ptr<NameTable> table_ = std::make_shared<NameTable>();
  HiddenNames hidden_;
};

}  // namespace leat
