// SPDX-License-Identifier: Apache-2.0
// Snapshot: the listing of a whole data set at one time, as an immutable file that is mapped and
// not read: the names cost no heap. All jobs of the host, and other hosts, may use the same file.
// Thread-safe. Format: docs/formats/snapshot.md.
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

// What a snapshot is of.
struct SnapshotHead {
  Id128 id;                // made with it
  StoreId store;           // of the source
  std::string source;      // as people write it, without secrets: "s3://bucket/prefix/"
  std::string prefix;      // of the source's keys: paths are keys without it
  int64_t created_ns = 0;  // nanoseconds since the epoch: before it was asked for
  uint64_t files = 0;
  uint64_t directories = 0;  // the root not counted
  uint64_t bytes = 0;        // of all files
  uint64_t left_out = 0;     // keys that cannot be names
};

struct SnapshotEntry {
  std::string path;  // below the root, no slash at either end
  FileKind kind = FileKind::kFile;
  uint64_t size = 0;
  std::optional<int64_t> mtime_ns;
  Version version;
  // Of a directory: how many entries are below it, at any depth.
  uint64_t below = 0;
  bool local = false;   // a file on a disk of the host that listed it (SourceObject::local)
  uint64_t number = 0;  // Cursor::number() before it; of one that find() found
};

class Snapshot {
 public:
  // Verifies all of the file. kCorrupt says what is wrong with it, kUnsupported that it is newer.
  static Result<std::shared_ptr<const Snapshot>> open(const std::string& path);
  // The same of a file that is open; `name` is for errors. It may be closed then.
  static Result<std::shared_ptr<const Snapshot>> open(const File& file, const std::string& name);
  // What one is of, without verifying more than that.
  static Result<SnapshotHead> read_head(const std::string& path);
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;

  const SnapshotHead& head() const { return head_; }
  // Files and directories, without the root.
  uint64_t size() const { return entries_; }
  uint64_t file_bytes() const { return bytes_.size(); }

  // `path` as in an entry; not "" (the root). Nothing where there is none.
  std::optional<SnapshotEntry> find(std::string_view path) const;

  // Entries one after the other, in the order of compare_paths; each has a number, from 0 on.
  class Cursor {
   public:
    // To the next entry; false at the end.
    bool advance();
    // The one that advance() went to, until it is called again.
    const SnapshotEntry& entry() const { return last_; }
    // Both at once.
    std::optional<SnapshotEntry> next();
    // Past all that is below the directory that was just given.
    void skip_below();
    // The number of the entry after it.
    uint64_t number() const { return at_; }
    uint64_t end() const { return end_; }
    // Before the entry of that number, or to the end.
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
  // What is below a directory ("" is the root); nothing where there is no such directory.
  std::optional<Cursor> below(std::string_view directory) const;
  // The number of the first entry that is not before `path` in the order of compare_paths.
  uint64_t lower_bound(std::string_view path) const;

 private:
  Snapshot() = default;
  struct Place {
    uint64_t number;
    SnapshotEntry entry;
  };

  Result<> map(const File& file, const std::string& name);
  enum class Verify { kHead, kAll };
  Result<> check(Verify what);
  Result<> check_entries() const;
  std::optional<Place> locate(std::string_view path) const;
  // Reads the entry at `offset` over the one before it; false where it is not one.
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
