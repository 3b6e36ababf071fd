// SPDX-License-Identifier: Apache-2.0
// Snapshot: the listing of a whole data set at one time, in an immutable mapped file, so the names
// use no heap. All jobs of the host, and other hosts, may use the same file. Thread-safe. Format:
// docs/formats/snapshot.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/id128.h"
#include "base/status.h"
#include "model/file_info.h"
#include "model/file_ref.h"
#include "runtime/disk.h"

namespace leat {

// Identity and totals of a snapshot.
struct SnapshotHead {
  Id128 id;                // generated at its creation
  StoreId store;           // of the source
  std::string source;      // for people, without secrets: "s3://bucket/prefix/"
  std::string prefix;      // common prefix of the keys, not part of a path
  int64_t created_ns = 0;  // nanoseconds since the Unix epoch; start of the listing
  uint64_t files = 0;
  uint64_t directories = 0;  // without the root
  uint64_t bytes = 0;        // of all files
  uint64_t skipped = 0;      // keys that cannot be names
};

struct SnapshotEntry {
  std::string path;  // below the root, no slash at either end
  FileKind kind = FileKind::kFile;
  uint64_t size = 0;
  std::optional<int64_t> mtime_ns;
  Version version;
  // For a directory: number of entries below it, at any depth.
  uint64_t below = 0;
  bool local = false;   // a file on a disk of the host that listed it (SourceObject::local)
  uint64_t number = 0;  // Cursor::number() before it; from find() too
};

class Snapshot {
 public:
  // Verifies the whole file. Returns kCorrupt with the fault, or kUnsupported for a newer format.
  static Result<std::shared_ptr<const Snapshot>> open(const std::string& path);
  // Same for an open file; `name` is for errors. The caller may close the file afterwards.
  static Result<std::shared_ptr<const Snapshot>> open(const File& file, const std::string& name);
  // Reads the head, and verifies only that.
  static Result<SnapshotHead> read_head(const std::string& path);
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;

  const SnapshotHead& head() const { return head_; }
  // Number of files and directories, without the root.
  uint64_t size() const { return entries_; }
  uint64_t file_bytes() const { return bytes_.size(); }

  // `path` as in an entry; not "" (the root). Returns nothing if there is none.
  std::optional<SnapshotEntry> find(std::string_view path) const;

  // Iterates over entries in the order of compare_paths; they are numbered from 0.
  class Cursor {
   public:
    // Moves to the next entry; returns false at the end.
    bool advance();
    // The current entry, valid until the next call of advance().
    const SnapshotEntry& entry() const { return last_; }
    // Combines advance() and entry().
    std::optional<SnapshotEntry> next();
    // Skips everything below the current directory.
    void skip_below();
    // Number of the next entry.
    uint64_t number() const { return at_; }
    uint64_t end() const { return end_; }
    // Moves before the entry of that number, or to the end.
    void seek(uint64_t number);

   private:
    friend class Snapshot;
    Cursor(const Snapshot& snapshot, uint64_t first, uint64_t end)
        : snapshot_(&snapshot), at_(first), end_(end) {
      seek(first);
    }

    const Snapshot* snapshot_;
    uint64_t at_, end_;
    SnapshotEntry last_;
    size_t offset_ = 0;  // of entry at_ in the section of blocks
  };
  Cursor all() const { return {*this, 0, entries_}; }
  // Returns a cursor over a directory's content ("" is the root); nothing if there is no such
  // directory.
  std::optional<Cursor> below(std::string_view directory) const;
  // Returns the number of the first entry at or after `path` in the order of compare_paths.
  uint64_t lower_bound(std::string_view path) const;

 private:
  Snapshot() = default;
  struct NumberedEntry {
    uint64_t number;
    SnapshotEntry entry;
  };

  Result<> map(const File& file, const std::string& name);
  enum class Verify { kHead, kAll };
  Result<> check(Verify what);
  Result<> check_entries() const;
  std::optional<NumberedEntry> locate(std::string_view path) const;
  // Decodes the entry at `offset` over the previous one; returns false if it is invalid.
  bool decode(size_t& offset, SnapshotEntry& entry) const;
  uint64_t block_offset(uint64_t block) const;

  std::span<const std::byte> bytes_;  // the mapping
  std::span<const std::byte> blocks_, block_index_, hashes_;
  SnapshotHead head_;
  uint64_t entries_ = 0;
  uint64_t seed_ = 0;
};

using SnapshotPtr = std::shared_ptr<const Snapshot>;

}  // namespace leat
