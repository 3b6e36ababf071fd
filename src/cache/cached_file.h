// SPDX-License-Identifier: Apache-2.0
// CachedFile: what is known in memory of one object with a file of its own: which blocks are being
// written, there, verified, and what they cost. No I/O. Thread-safe.
//
// A block goes missing -> claimed (one writer) -> present, or back to missing. Its place on disk is
// charged once and stays so, whether the write succeeded or not.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cache/capacity.h"
#include "cache/descriptor_pool.h"
#include "cache/eviction.h"
#include "cache/object_meta.h"
#include "cache/page_store.h"
#include "model/byte_range.h"
#include "model/file_ref.h"

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
  CachedFile(const FileRef& ref, int64_t birth_ns, std::shared_ptr<Capacity> capacity);
  ~CachedFile() override;

  // "files/ab", "files/ab/ab01….data".
  std::string folder_name() const;
  std::string data_name() const override;
  std::string side_name() const override;
  uint64_t size() const { return size_; }
  uint64_t blocks() const { return states_.size(); }
  // Of .meta and of the extent tree that a badly fragmented file needs.
  uint64_t overhead_bytes() const;
  uint64_t record_offset(uint64_t block) const;

  // What was found on disk: takes the place of the constructor's "nothing". `trusted`: the kernel
  // may read it unverified when it is complete.
  void restore(const ObjectMeta& meta, uint64_t allocated_bytes, bool trusted);

  // The next blocks from `from.first` on that nobody has or writes; they are now the caller's.
  std::optional<BlockRun> claim(BlockRun from);
  // Charges the space of claimed blocks; the bytes that were new, or nothing where there is no
  // room.
  std::optional<uint64_t> reserve(BlockRun run);
  void abandon(BlockRun run);
  // The blocks are written; true where that was the last of the file.
  bool publish(BlockRun run);

  bool present(BlockRun run) const;
  bool verified(BlockRun run) const;
  void mark_verified(BlockRun run);
  // They turned out wrong. False where the file is called complete and so must go as a whole.
  bool lose(BlockRun run);
  std::vector<ByteRange> missing(BlockRun run) const;
  uint64_t present_bytes() const;

  // For eviction: a read of bytes that were read before is a use.
  void note_read(ByteRange range);

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
  // Up to `point` it is synced; true where the file is whole and nothing changed since, so that it
  // may be called complete.
  bool note_synced(SyncPoint point);
  void set_published();
  bool published() const;
  // Published, and either every block was verified in this process or it was left in order.
  bool ready_for_kernel() const;

  // The checksums of blocks found on disk, kept while some of them are unverified.
  using Records = std::shared_ptr<const std::vector<std::optional<uint32_t>>>;
  Records records() const;
  void set_records(Records records);

  const FileId id;
  const int64_t birth_ns;
  Charge charge;
  // Set when the files exist on disk, and when they are gone.
  const std::shared_ptr<SharedResult<bool>> created, gone;
  // The one descriptor for the kernel; the kernel wants one backing id an inode. Guarded by
  // `backing_mutex`.
  std::mutex backing_mutex;  // leaf
  std::weak_ptr<BackingFile> backing;
  std::atomic<bool> verification_queued = false;

 private:
  enum Flag : uint8_t { kClaimed = 1, kPresent = 2, kVerified = 4, kAllocated = 8, kRead = 16 };

  bool all(BlockRun run, uint8_t flags) const;
  uint64_t bytes_of(uint64_t block) const;

  const uint64_t size_;
  const uint32_t key_bytes_, version_bytes_;

  mutable std::mutex mutex_;  // leaf
  std::vector<uint8_t> states_;
  uint64_t present_blocks_ = 0, verified_blocks_ = 0, present_bytes_ = 0;
  uint64_t writes_ = 0, synced_writes_ = 0;
  // frozen: about to be published, so that nothing may change any more.
  bool doomed_ = false, frozen_ = false, published_ = false, trusted_ = false;
  Records records_;
};

}  // namespace leat
