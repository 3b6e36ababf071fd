// SPDX-License-Identifier: Apache-2.0
// CachedFile: what is known in memory of one object with a file of its own: which blocks are there,
// which of them can be relied on, and what they cost. No I/O. Thread-safe.
//
// A block goes missing -> present -> verified, or back to missing. What was found on disk is
// verified when it matches its checksum once; what was written here when a sync after the write
// succeeds, since until then the kernel may still lose it. Its place on disk is charged once and
// stays so, whether the write succeeded or not.
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

class CachedFile : public Openable, public Evictable {
 public:
  CachedFile(const FileRef& ref, int64_t birth_ns, PoolPtr pool);
  ~CachedFile() override;

  // "files/ab", "files/ab/ab01….data".
  std::string folder_name() const;
  std::string data_name() const override;
  std::string side_name() const override;
  uint64_t size() const { return size_; }
  uint64_t blocks() const { return states_.size(); }
  // Of .meta and of the extent tree that a badly fragmented file needs.
  static uint64_t overhead_bytes(const FileRef& ref);
  uint64_t record_offset(uint64_t block) const {
    return header_bytes_ + block * ObjectMeta::kRecordBytes;
  }

  // What was found on disk: takes the place of the constructor's "nothing". `vouched`: by the
  // superblock, as vouched_for().
  void restore(const ObjectMeta& meta, uint64_t allocated_bytes, bool vouched);

  // Whoever writes blocks has it: one at a time, since the kernel lets no two write to a file.
  Semaphore& write_turn();
  // The next blocks from `from.first` on that are not there.
  std::optional<BlockRun> next_missing(BlockRun from) const;
  // Charges the space of missing blocks; the bytes that were new, or nothing where there is no
  // room.
  std::optional<uint64_t> reserve(BlockRun run);
  // The blocks are written; true where that was the last of the file.
  bool publish(BlockRun run, std::span<const uint32_t> crcs);

  bool present(BlockRun run) const;
  bool verified(BlockRun run) const;
  // The blocks of `run` that have to be compared before they are served, as of now; nothing where
  // some are missing, or their checksum is only on disk.
  struct Check {
    uint64_t block;
    uint32_t crc;

    friend bool operator==(const Check&, const Check&) = default;
  };
  using Checks = std::vector<Check>;
  std::optional<Checks> checks(BlockRun run) const;
  // The checksums on disk; false where one that is needed is not among them.
  bool learn(const std::vector<std::optional<uint32_t>>& records);
  // They matched. True where some need a sync before they are verified.
  bool note_matched(const Checks& checks);
  // They turned out wrong. False where the file is called complete and so must go as a whole.
  bool lose(BlockRun run);
  std::vector<ByteRange> missing(BlockRun run) const;
  uint64_t present_bytes() const;

  // For eviction: a read of the first byte, or of bytes that were read before, begins a pass.
  void note_read(ByteRange range);
  void note_pass();
  // By reads through the store, in this process.
  uint64_t read_bytes() const;

  // Unlinking begins; true for the first who says so. Nothing is claimed or found any more.
  bool doom();
  bool doomed() const;

  // Which writes have been made, which of them are on disk for good.
  struct SyncPoint {
    uint64_t writes;
    bool full;
  };
  SyncPoint sync_point() const;
  bool synced() const;
  void note_synced(SyncPoint point);
  // True where the file is whole, verified, and nothing changed since `point`, so that it may be
  // called complete; then nothing will change any more.
  bool freeze(SyncPoint point);
  void set_published();
  bool published() const;
  // Published, and every block was verified in this process.
  bool ready_for_kernel() const;
  // Incomplete, or verified since the superblock did not say so of all files.
  bool vouched_for() const;

  const FileId id;
  const int64_t birth_ns;
  const PoolPtr pool;
  Charge charge;
  // Set when the files exist on disk, and when they are gone.
  const std::shared_ptr<SharedResult<bool>> created, gone;
  // The one descriptor for the kernel; the kernel wants one backing id an inode. Guarded by
  // `backing_mutex`.
  std::mutex backing_mutex;  // leaf
  std::weak_ptr<BackingFile> backing;
  std::atomic<bool> verification_queued = false, settling_queued = false;
  std::atomic<bool> kernel_waits = false;    // for its verification
  std::atomic<uint64_t> verified_ahead = 0;  // bytes, in the background

 private:
  enum Flag : uint8_t { kPresent = 1, kVerified = 2, kAllocated = 4, kRead = 8 };
  struct Unverified {
    uint32_t crc;
    uint64_t write;  // that it came with, counted from 1; 0: it was found on disk
  };

  bool all(BlockRun run, uint8_t flags) const;
  uint64_t bytes_of(uint64_t block) const;
  void verify(uint64_t block);

  const uint64_t size_;
  uint64_t header_bytes_;  // of .meta

  mutable std::mutex mutex_;  // leaf
  std::vector<uint8_t> states_;
  uint64_t present_blocks_ = 0, verified_blocks_ = 0, present_bytes_ = 0;
  uint64_t writes_ = 0, synced_writes_ = 0, read_bytes_ = 0;
  // frozen: about to be published, so that nothing may change any more.
  bool doomed_ = false, frozen_ = false, published_ = false, vouched_ = false;
  // Of blocks that are there and not verified, as far as they are known.
  boost::unordered_flat_map<uint64_t, Unverified> unverified_;
  std::unique_ptr<Semaphore> write_turn_;  // made by the first writer
};

}  // namespace leat
