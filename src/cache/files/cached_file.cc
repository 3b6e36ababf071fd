// SPDX-License-Identifier: Apache-2.0
#include "cache/files/cached_file.h"

#include <algorithm>

#include "base/check.h"

namespace leat {
namespace {

// An ext4 extent-tree block of 4 KiB maps (4096 − 12) / 12 = 340 extents; in the worst case each of
// our blocks is an extent.
constexpr uint64_t kExtentsPerTreeBlock = 340;

}  // namespace

CachedFile::CachedFile(const FileRef& ref, int64_t birth, PoolPtr of)
    : id(ref.id),
      birth_ns(birth),
      pool(std::move(of)),
      charge(pool->capacity),
      created(SharedPromise<bool>::make()),
      removed(SharedPromise<bool>::make()),
      size_(ref.size),
      header_bytes_(ObjectMeta::new_header_bytes(ref)),
      states_(block_count(ref.size), 0) {}

CachedFile::~CachedFile() {
  close_files();  // closes the unlinked files first: their bytes stay on disk until then
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

uint64_t CachedFile::overhead_bytes(const FileRef& ref) {
  uint64_t tree_blocks =
      align_up(block_count(ref.size), kExtentsPerTreeBlock) / kExtentsPerTreeBlock;
  return align_up(ObjectMeta::file_bytes(ref), kPageBytes) + tree_blocks * kPageBytes;
}

uint64_t CachedFile::bytes_of(uint64_t block) const {
  return BlockRun{block, block + 1}.bytes(size_).size;
}

void CachedFile::restore(const ObjectMeta& meta, uint64_t allocated_bytes, bool vouched) {
  header_bytes_ = meta.header_bytes;
  uint64_t charged = overhead_bytes(meta.ref);
  {
    std::lock_guard lock(mutex_);
    published_ = meta.state == ObjectMeta::State::kComplete;
    vouched_ = vouched && published_;
    for (uint64_t block = 0; block < blocks(); ++block) {
      if (!published_ && !meta.blocks[block]) continue;
      states_[block] = kPresent | kAllocated;
      ++present_blocks_;
      present_bytes_ += bytes_of(block);
      charged += align_up(bytes_of(block), kPageBytes);
    }
  }
  // Blocks without a record still take space; a new write of them is charged again.
  charge.count(std::max(charged, allocated_bytes + align_up(record_offset(blocks()), kPageBytes)));
}

Semaphore& CachedFile::write_semaphore() {
  std::lock_guard lock(mutex_);
  if (write_semaphore_ == nullptr) write_semaphore_ = std::make_unique<Semaphore>(1);
  return *write_semaphore_;
}

std::optional<BlockRun> CachedFile::next_missing(BlockRun from) const {
  std::lock_guard lock(mutex_);
  BlockRun run{from.first, from.first};
  while (run.first < from.end && (states_[run.first] & kPresent) != 0) ++run.first;
  run.end = run.first;
  while (run.end < from.end && (states_[run.end] & kPresent) == 0) ++run.end;
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
  // The caller holds write_semaphore(), so no other writer charges them in between.
  if (!charge.grow(bytes)) return std::nullopt;
  std::lock_guard lock(mutex_);
  for (uint64_t block = run.first; block < run.end; ++block) states_[block] |= kAllocated;
  return bytes;
}

bool CachedFile::publish(BlockRun run, std::span<const uint32_t> crcs) {
  std::lock_guard lock(mutex_);
  ++writes_;
  for (uint64_t block = run.first; block < run.end; ++block) {
    states_[block] |= kPresent;
    present_bytes_ += bytes_of(block);
    unverified_[block] = {crcs[block - run.first], writes_};
  }
  present_blocks_ += run.count();
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

void CachedFile::verify(uint64_t block) {
  states_[block] |= kVerified;
  ++verified_blocks_;
}

std::optional<CachedFile::Checks> CachedFile::checks(BlockRun run) const {
  std::lock_guard lock(mutex_);
  if (doomed_ || !all(run, kPresent)) return std::nullopt;
  Checks checks;
  for (uint64_t block = run.first; block < run.end; ++block) {
    if ((states_[block] & kVerified) != 0) continue;
    auto known = unverified_.find(block);
    if (known == unverified_.end()) return std::nullopt;
    checks.push_back({block, known->second.crc});
  }
  return checks;
}

bool CachedFile::load_checksums(const std::vector<std::optional<uint32_t>>& records) {
  std::lock_guard lock(mutex_);
  for (uint64_t block = 0; block < blocks(); ++block) {
    if ((states_[block] & (kPresent | kVerified)) != kPresent) continue;
    if (unverified_.contains(block)) continue;
    if (!records[block]) return false;
    unverified_[block] = {*records[block], 0};
  }
  return true;
}

bool CachedFile::note_matched(const Checks& checks) {
  std::lock_guard lock(mutex_);
  bool needs_sync = false;
  for (const Check& check : checks) {
    auto known = unverified_.find(check.block);
    if (known == unverified_.end()) continue;  // verified or lost meanwhile
    if (known->second.write > 0) {
      needs_sync = true;
      continue;
    }
    verify(check.block);
    unverified_.erase(known);
  }
  if (unverified_.empty()) unverified_ = {};  // frees the memory
  return needs_sync;
}

bool CachedFile::discard(BlockRun run) {
  std::lock_guard lock(mutex_);
  if (published_ || frozen_) return false;
  for (uint64_t block = run.first; block < run.end; ++block) {
    if ((states_[block] & kPresent) == 0) continue;
    --present_blocks_;
    present_bytes_ -= bytes_of(block);
    if ((states_[block] & kVerified) != 0) --verified_blocks_;
    unverified_.erase(block);
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
  bool begins = range.offset == 0;
  {
    std::lock_guard lock(mutex_);
    read_bytes_ += range.size;
    // Counts only blocks with their first byte in the range, so that a pass in small steps is one
    // pass.
    uint64_t first = align_up(range.offset, kBlockBytes) / kBlockBytes;
    uint64_t end = std::min(block_count(range.end()), blocks());
    for (uint64_t block = first; block < end; ++block) {
      begins = begins || (states_[block] & kRead) != 0;
    }
    if (begins) {
      for (uint8_t& state : states_) state &= static_cast<uint8_t>(~kRead);
    }
    for (uint64_t block = first; block < end; ++block) states_[block] |= kRead;
  }
  if (begins) note_pass();
}

uint64_t CachedFile::read_bytes() const {
  std::lock_guard lock(mutex_);
  return read_bytes_;
}

void CachedFile::note_pass() {
  touch();
  last_pass = pool->note_pass(id);
}

bool CachedFile::doom() {
  {
    std::lock_guard lock(mutex_);
    if (doomed_) return false;
    doomed_ = true;
  }
  charge.mark_unlinked();
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

void CachedFile::note_synced(SyncPoint point) {
  std::lock_guard lock(mutex_);
  synced_writes_ = std::max(synced_writes_, point.writes);
  boost::unordered::erase_if(unverified_, [&](const auto& item) {
    bool synced = item.second.write > 0 && item.second.write <= point.writes;
    if (synced) verify(item.first);
    return synced;
  });
  if (unverified_.empty()) unverified_ = {};
}

bool CachedFile::freeze(SyncPoint point) {
  std::lock_guard lock(mutex_);
  bool whole = point.full && verified_blocks_ == blocks();
  if (!whole || point.writes != writes_ || published_ || doomed_) return false;
  frozen_ = true;
  return true;
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
  return published_ && !doomed_ && verified_blocks_ == blocks();
}

bool CachedFile::vouched_for() const {
  std::lock_guard lock(mutex_);
  return doomed_ || !published_ || vouched_ || verified_blocks_ == blocks();
}

}  // namespace leat
