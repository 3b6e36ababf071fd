// SPDX-License-Identifier: Apache-2.0
#include "cache/cached_file.h"

#include <algorithm>

#include "base/check.h"

namespace leat {
namespace {

// An ext4 extent-tree block of 4 KiB maps (4096 − 12) / 12 = 340 extents; in the worst case each of
// our blocks is an extent.
constexpr uint64_t kExtentsPerTreeBlock = 340;

}  // namespace

CachedFile::CachedFile(const FileRef& ref, int64_t birth, std::shared_ptr<Capacity> capacity)
    : id(ref.id),
      birth_ns(birth),
      charge(std::move(capacity)),
      created(SharedResult<bool>::make()),
      gone(SharedResult<bool>::make()),
      size_(ref.size),
      key_bytes_(static_cast<uint32_t>(ref.key.size())),
      version_bytes_(static_cast<uint32_t>(ref.version.value.size())),
      states_(block_count(ref.size), 0) {}

CachedFile::~CachedFile() {
  close_files();  // an unlinked file is on disk until then, and `charge` is given back after it
}

std::string CachedFile::folder_name() const {
  return "files/" + id.to_hex().substr(0, 2);
}

std::string CachedFile::data_name() const {
  return folder_name() + "/" + id.to_hex() + ".data";
}

std::string CachedFile::side_name() const {
  return folder_name() + "/" + id.to_hex() + ".meta";
}

uint64_t CachedFile::overhead_bytes() const {
  return align_up(record_offset(blocks()), kPageBytes) +
         align_up(blocks(), kExtentsPerTreeBlock) / kExtentsPerTreeBlock * kPageBytes;
}

uint64_t CachedFile::record_offset(uint64_t block) const {
  return ObjectMeta::block_offset(key_bytes_, version_bytes_, block);
}

uint64_t CachedFile::bytes_of(uint64_t block) const {
  return BlockRun{block, block + 1}.bytes(size_).size;
}

void CachedFile::restore(const ObjectMeta& meta, uint64_t allocated_bytes, bool trusted) {
  uint64_t charged = overhead_bytes();
  {
    std::lock_guard lock(mutex_);
    trusted_ = trusted;
    published_ = meta.state == ObjectMeta::State::kComplete;
    for (uint64_t block = 0; block < blocks(); ++block) {
      if (!published_ && !meta.blocks[block]) continue;
      states_[block] = kClaimed | kPresent | kAllocated;
      ++present_blocks_;
      present_bytes_ += bytes_of(block);
      charged += align_up(bytes_of(block), kPageBytes);
    }
  }
  // Blocks whose record was lost still take space; they are charged again if they are written
  // again.
  charge.count(std::max(charged, allocated_bytes + align_up(record_offset(blocks()), kPageBytes)));
}

std::optional<BlockRun> CachedFile::claim(BlockRun from) {
  std::lock_guard lock(mutex_);
  if (doomed_) return std::nullopt;
  BlockRun run{from.first, from.first};
  while (run.first < from.end && (states_[run.first] & kClaimed) != 0) ++run.first;
  run.end = run.first;
  while (run.end < from.end && (states_[run.end] & kClaimed) == 0) states_[run.end++] |= kClaimed;
  if (run.count() == 0) return std::nullopt;
  return run;
}

std::optional<uint64_t> CachedFile::reserve(BlockRun run) {
  uint64_t bytes = 0;
  {
    std::lock_guard lock(mutex_);
    for (uint64_t block = run.first; block < run.end; ++block) {
      if ((states_[block] & kAllocated) == 0) bytes += align_up(bytes_of(block), kPageBytes);
    }
  }
  // The blocks are claimed, so nobody charges them in between.
  if (!charge.grow(bytes)) return std::nullopt;
  std::lock_guard lock(mutex_);
  for (uint64_t block = run.first; block < run.end; ++block) states_[block] |= kAllocated;
  return bytes;
}

void CachedFile::abandon(BlockRun run) {
  std::lock_guard lock(mutex_);
  for (uint64_t block = run.first; block < run.end; ++block) {
    states_[block] &= static_cast<uint8_t>(~kClaimed);
  }
}

bool CachedFile::publish(BlockRun run) {
  std::lock_guard lock(mutex_);
  for (uint64_t block = run.first; block < run.end; ++block) {
    states_[block] |= kPresent | kVerified;
    present_bytes_ += bytes_of(block);
  }
  present_blocks_ += run.count();
  verified_blocks_ += run.count();
  ++writes_;
  return present_blocks_ == blocks();
}

bool CachedFile::all(BlockRun run, uint8_t flags) const {
  if (run.end > blocks()) return false;
  for (uint64_t block = run.first; block < run.end; ++block) {
    if ((states_[block] & flags) != flags) return false;
  }
  return true;
}

bool CachedFile::present(BlockRun run) const {
  std::lock_guard lock(mutex_);
  return !doomed_ && all(run, kPresent);
}

bool CachedFile::verified(BlockRun run) const {
  std::lock_guard lock(mutex_);
  return !doomed_ && all(run, kPresent | kVerified);
}

void CachedFile::mark_verified(BlockRun run) {
  std::lock_guard lock(mutex_);
  for (uint64_t block = run.first; block < run.end; ++block) {
    if ((states_[block] & (kPresent | kVerified)) != kPresent) continue;
    states_[block] |= kVerified;
    ++verified_blocks_;
  }
  if (verified_blocks_ == present_blocks_) records_ = nullptr;
}

bool CachedFile::lose(BlockRun run) {
  std::lock_guard lock(mutex_);
  if (published_ || frozen_) return false;
  for (uint64_t block = run.first; block < run.end; ++block) {
    if ((states_[block] & kPresent) == 0) continue;
    --present_blocks_;
    present_bytes_ -= bytes_of(block);
    if ((states_[block] & kVerified) != 0) --verified_blocks_;
    states_[block] = kAllocated;
  }
  ++writes_;
  return true;
}

std::vector<ByteRange> CachedFile::missing(BlockRun run) const {
  std::lock_guard lock(mutex_);
  std::vector<ByteRange> ranges;
  for (uint64_t block = run.first; block < run.end; ++block) {
    if (!doomed_ && (states_[block] & kPresent) != 0) continue;
    ByteRange bytes = BlockRun{block, block + 1}.bytes(size_);
    if (!ranges.empty() && ranges.back().end() == bytes.offset) {
      ranges.back().size += bytes.size;
    } else {
      ranges.push_back(bytes);
    }
  }
  return ranges;
}

uint64_t CachedFile::present_bytes() const {
  std::lock_guard lock(mutex_);
  return present_bytes_;
}

void CachedFile::note_read(ByteRange range) {
  bool again = false;
  {
    std::lock_guard lock(mutex_);
    // Only blocks whose first byte is read count, so that a pass in small steps is one pass.
    uint64_t first = align_up(range.offset, kBlockBytes) / kBlockBytes;
    uint64_t end = std::min(block_count(range.end()), blocks());
    for (uint64_t block = first; block < end; ++block) {
      again = again || (states_[block] & kRead) != 0;
    }
    if (again) {
      for (uint8_t& state : states_) state &= static_cast<uint8_t>(~kRead);
    }
    for (uint64_t block = first; block < end; ++block) states_[block] |= kRead;
  }
  if (again) touch();
}

bool CachedFile::doom() {
  {
    std::lock_guard lock(mutex_);
    if (doomed_) return false;
    doomed_ = true;
  }
  charge.hold();
  return true;
}

bool CachedFile::doomed() const {
  std::lock_guard lock(mutex_);
  return doomed_;
}

CachedFile::SyncPoint CachedFile::sync_point() const {
  std::lock_guard lock(mutex_);
  return {writes_, present_blocks_ == blocks()};
}

bool CachedFile::synced() const {
  std::lock_guard lock(mutex_);
  bool complete = present_blocks_ == blocks();
  return synced_writes_ == writes_ && (published_ || !complete);
}

bool CachedFile::note_synced(SyncPoint point) {
  std::lock_guard lock(mutex_);
  synced_writes_ = std::max(synced_writes_, point.writes);
  bool complete = point.full && point.writes == writes_ && !published_ && !doomed_;
  if (complete) frozen_ = true;
  return complete;
}

void CachedFile::set_published() {
  std::lock_guard lock(mutex_);
  published_ = true;
}

bool CachedFile::published() const {
  std::lock_guard lock(mutex_);
  return published_ && !doomed_;
}

bool CachedFile::ready_for_kernel() const {
  std::lock_guard lock(mutex_);
  return published_ && !doomed_ && (trusted_ || verified_blocks_ == blocks());
}

CachedFile::Records CachedFile::records() const {
  std::lock_guard lock(mutex_);
  return records_;
}

void CachedFile::set_records(Records records) {
  std::lock_guard lock(mutex_);
  records_ = std::move(records);
}

}  // namespace leat
