// SPDX-License-Identifier: Apache-2.0
// CachedFile: the state in memory of one object with its own file: blocks present, blocks verified,
// and charged bytes. No I/O. Thread-safe.
//
// A block goes missing -> present -> verified, or missing again. A block found on disk is
// verified when it matches its checksum once. A block written here is verified when a sync after
// the write succeeds, since the kernel may lose it before. Its space on disk is charged once and
// stays charged, even if the write fails.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/capacity.h"
#include "cache/descriptor_pool.h"
#include "cache/eviction.h"
#include "cache/files/object_meta.h"
#include "cache/page_store.h"
#include "cache/pool.h"
#include "model/byte_range.h"
#include "model/file_ref.h"
#include "runtime/semaphore.h"

namespace leat {

// Blocks [first, end).
struct BlockRun {
  uint64_t first = 0;
  uint64_t end = 0;

  uint64_t count() const { return end - first; }
  static BlockRun covering(ByteRange range) {
    return {range.offset / kBlockBytes, block_count(range.end())};
  }
  ByteRange bytes(uint64_t file_size) const {
    return ByteRange{first * kBlockBytes, count() * kBlockBytes}.clamp(file_size);
  }
};

class CachedFile : public FdOwner, public Evictable {
 public:
  CachedFile(const FileRef& ref, int64_t birth_ns, PoolPtr pool);
  ~CachedFile() override;

  // "files/ab", "files/ab/ab01….data".
  std::string folder_name() const;
  std::string data_name() const override;
  std::string side_name() const override;
  uint64_t size() const { return size_; }
  uint64_t blocks() const { return states_.size(); }
  // Bytes for .meta and for the extent tree of a badly fragmented file.
  static uint64_t overhead_bytes(const FileRef& ref);
  uint64_t record_offset(uint64_t block) const {
    return header_bytes_ + block * ObjectMeta::kRecordBytes;
  }

  // Replaces the empty initial state by the state found on disk. `vouched`: the superblock vouches
  // for it, see vouched_for().
  void restore(const ObjectMeta& meta, uint64_t allocated_bytes, bool vouched);

  // Acquired by the writer of blocks: one at a time, since the kernel serialises writes to a file.
  Semaphore& write_semaphore();
  // Returns the next missing blocks at or after `from.first`.
  std::optional<BlockRun> next_missing(BlockRun from) const;
  // Charges the space of missing blocks. Returns the bytes that were new, or nothing if there is no
  // room.
  std::optional<uint64_t> reserve(BlockRun run);
  // Marks the blocks as written. Returns true if they were the last of the file.
  bool publish(BlockRun run, std::span<const uint32_t> crcs);

  bool present(BlockRun run) const;
  bool verified(BlockRun run) const;
  // Returns the blocks of `run` that must be compared before they are served, as of now. Returns
  // nothing if some are missing, or their checksum is only on disk.
  struct Check {
    uint64_t block;
    uint32_t crc;

    friend bool operator==(const Check&, const Check&) = default;
  };
  using Checks = std::vector<Check>;
  std::optional<Checks> checks(BlockRun run) const;
  // Loads the checksums from disk; returns false if a needed one is missing.
  bool load_checksums(const std::vector<std::optional<uint32_t>>& records);
  // The checks matched. Returns true if some blocks need a sync before they are verified.
  bool note_matched(const Checks& checks);
  // The blocks are wrong. Returns false if the file is marked complete and must be removed as a
  // whole.
  bool discard(BlockRun run);
  std::vector<ByteRange> missing(BlockRun run) const;
  uint64_t present_bytes() const;

  // Records use for eviction: a read of the first byte, or of bytes read before, begins a pass.
  void note_read(ByteRange range);
  void note_pass();
  // Bytes read through the store in this process.
  uint64_t read_bytes() const;

  // Begins the unlink; returns true for the first caller. From then on nothing is reserved or
  // found.
  bool doom();
  bool doomed() const;

  // A point in the sequence of writes, for comparison with the durable ones.
  struct SyncPoint {
    uint64_t writes;
    bool full;
  };
  SyncPoint sync_point() const;
  bool synced() const;
  void note_synced(SyncPoint point);
  // Returns true if the file is whole, verified and unchanged since `point`, so that it may be
  // marked complete. No change is possible afterwards.
  bool freeze(SyncPoint point);
  void set_published();
  bool published() const;
  // Published, and every block was verified in this process.
  bool ready_for_kernel() const;
  // Incomplete, or verified since the superblock was last without the clean mark.
  bool vouched_for() const;

  const FileId id;
  const int64_t birth_ns;
  const PoolPtr pool;
  Charge charge;
  // Set when the files exist on disk, and when they are removed.
  const std::shared_ptr<SharedPromise<bool>> created, removed;
  // The only descriptor for the kernel, which needs one backing id per inode. Guarded by
  // `backing_mutex`.
  std::mutex backing_mutex;  // leaf
  std::weak_ptr<BackingFile> backing;
  std::atomic<bool> verification_queued = false, sync_queued = false;
  std::atomic<bool> kernel_waits = false;    // the kernel needs this file verified
  std::atomic<uint64_t> verified_ahead = 0;  // bytes verified in the background

 private:
  enum Flag : uint8_t { kPresent = 1, kVerified = 2, kAllocated = 4, kRead = 8 };
  struct Unverified {
    uint32_t crc;
    uint64_t write;  // number of its write, from 1; 0: found on disk
  };

  bool all(BlockRun run, uint8_t flags) const;
  uint64_t bytes_of(uint64_t block) const;
  void verify(uint64_t block);

  const uint64_t size_;
  uint64_t header_bytes_;  // size of the .meta header

  mutable std::mutex mutex_;  // leaf
  std::vector<uint8_t> states_;
  uint64_t present_blocks_ = 0, verified_blocks_ = 0, present_bytes_ = 0;
  uint64_t writes_ = 0, synced_writes_ = 0, read_bytes_ = 0;
  // frozen: about to be published, so no further change is allowed.
  bool doomed_ = false, frozen_ = false, published_ = false, vouched_ = false;
  // Checksums of blocks that are present and not verified, as far as they are known.
  boost::unordered_flat_map<uint64_t, Unverified> unverified_;
  std::unique_ptr<Semaphore> write_semaphore_;  // created by the first writer
};

}  // namespace leat
