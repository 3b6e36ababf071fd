// SPDX-License-Identifier: Apache-2.0
// NameTable: the names of one directory in a listing of the store; sorted by their bytes and
// immutable. In memory (MemoryNameTable) or in a mapped file (SnapshotNameTable).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "model/cache_use.h"
#include "model/file_info.h"
#include "model/file_ref.h"

namespace leat {

inline constexpr int64_t kNoTime = std::numeric_limits<int64_t>::min();
std::optional<WallTime> to_mtime(int64_t mtime_ns);
int64_t to_mtime_ns(const std::optional<WallTime>& mtime);

// The file or directory of a name.
struct NameRecord {
  std::string_view name;  // points into `ref->key`, or into the owner of the record
  FileRefPtr ref;         // null for directories
  int64_t mtime_ns = kNoTime;

  bool is_directory() const { return ref == nullptr; }
};

// Index of a name that was not found in a table.
inline constexpr uint64_t kNoIndex = std::numeric_limits<uint64_t>::max();

struct FoundName : NameRecord {
  // Increases with the names of a table, by one from a file to the next.
  uint64_t index = kNoIndex;
};

// Same without a FileRef, which may be expensive to make. The function that returns it defines its
// lifetime.
struct NameView {
  std::string_view name;
  FileKind kind = FileKind::kFile;
  uint64_t size = 0;
  const Version* version = nullptr;  // files only
  int64_t mtime_ns = kNoTime;
  CacheUse cache = CacheUse::kDisk;  // files only

  bool is_directory() const { return kind == FileKind::kDirectory; }
  static NameView of(const NameRecord& record);
};

// Compares two records of one name: same kind and, for files, same bytes.
bool same_content(const NameView& a, const NameView& b);

// Returns the reason that a key cannot be a name, or null: empty, "." and "..", '/', NUL, more than
// 255 bytes (NAME_MAX of Linux).
const char* reason_to_skip(std::string_view name);

class NameTable {
 public:
  // Iterates over the names; the table must outlive it. Not thread-safe.
  class Cursor {
   public:
    virtual ~Cursor() = default;
    // Moves to the next name; returns false at the end.
    virtual bool next() = 0;
    // The current name, valid until the next call of next().
    virtual const NameView& view() const = 0;
    virtual FileRefPtr ref() const = 0;  // null for directories
    // Position of the next name, for from(). Below 2^40.
    virtual uint64_t position() const = 0;
  };

  virtual ~NameTable() = default;

  // Number of names; an upper bound for a directory in a snapshot that has subdirectories.
  virtual uint64_t size() const = 0;
  // Number of names in memory.
  virtual uint64_t names_in_memory() const = 0;
  // Keys of the listing that are not in the table, skipped by the store or here.
  virtual uint64_t skipped() const = 0;
  // One of them, as the store writes it; empty if none is known.
  virtual std::string_view skipped_example() const { return {}; }

  // Returns nothing if there is no such name. The record's name lives as long as `name` and the
  // table.
  virtual std::optional<FoundName> find(std::string_view name) const = 0;
  // 0: the beginning. Accepts any number; one that is not a position gives an arbitrary name.
  virtual std::unique_ptr<Cursor> from(uint64_t position) const = 0;
  // Begins at the first greater name.
  virtual std::unique_ptr<Cursor> after(std::string_view name) const = 0;

  // Call before the table is shared: file `name` continues with `ref`, which has the same content.
  virtual void adopt(std::string_view name, FileRefPtr ref) = 0;
};
using NameTablePtr = std::shared_ptr<const NameTable>;

enum class NameChange : uint8_t { kAdded, kRemoved, kChanged };
// `name` is valid only during the call.
using NameChangeListener =
    std::function<void(std::string_view name, NameChange change, bool was_directory)>;

// Calls the listener for each differing name, in order. Works on cursors of tables or of listings.
template <class Cursor>
void compare_names(Cursor& before, Cursor& after, const NameChangeListener& listener) {
  bool was = before.next(), is = after.next();
  while (was || is) {
    if (!is || (was && before.view().name < after.view().name)) {
      listener(before.view().name, NameChange::kRemoved, before.view().is_directory());
      was = before.next();
    } else if (!was || after.view().name < before.view().name) {
      listener(after.view().name, NameChange::kAdded, false);
      is = after.next();
    } else {
      if (!same_content(before.view(), after.view())) {
        listener(before.view().name, NameChange::kChanged, before.view().is_directory());
      }
      was = before.next();
      is = after.next();
    }
  }
}

}  // namespace leat
