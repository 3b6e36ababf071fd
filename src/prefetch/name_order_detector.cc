// SPDX-License-Identifier: Apache-2.0
// An open goes *forward* if more of the 32 places below it were opened lately than of the 32 above
// it. In a random order that holds for less than half of the opens, whatever share of the directory
// was read. In name order it holds for nearly all. Several readers may share the names: one after
// the other, every n-th, or in batches.
//
// Opens are in order after three at distance 1, or five at an equal one up to kStrideMax. They also
// are after eight forward ones in a row, each within 32 places of the one before, and when 29 of
// the last 32 went forward. The order ends when fewer than 22 of the last 32 did. Over 10,000 names
// in random order, the chance that this opens the smallest window once is less than 1 in 300 per
// epoch.
#include "prefetch/name_order_detector.h"

#include <algorithm>
#include <bit>

namespace leat {
namespace {

constexpr uint32_t kNear = 32;
constexpr unsigned kChainDense = 2, kChainStrided = 4;
constexpr unsigned kStreak = 8;
// Consecutive opens of files that were opened before. Fewer may come from several readers that all
// read all names at the same time.
constexpr unsigned kReopens = 16;
constexpr int kForwardEnter = 29, kForwardStay = 22;
// A returned place that lies this many blocks of 64 behind an open has been passed over. Threads
// that take every n-th name get thousands apart when each waits for its own reads.
constexpr uint64_t kPassedBlocks = 64;

uint64_t bit(uint64_t place) {
  return uint64_t{1} << (place % 64);
}

}  // namespace

NameOrderDetector::NameOrderDetector(NameOrderDetectorOptions options)
    : options_(options), window_(options.window_min), window_max_(options.window_max) {}

void NameOrderDetector::limit(uint32_t window_max) {
  window_max_ = std::clamp(window_max, 1u, options_.window_max);
  window_ = std::min(window_, window_max_);
}

const NameOrderDetector::Block* NameOrderDetector::find(uint64_t number) const {
  const Block& block = blocks_[number % kBlocks];
  return block.number == number ? &block : nullptr;
}

NameOrderDetector::Block& NameOrderDetector::block_of(uint64_t place) {
  const uint64_t number = place / 64;
  Block& block = blocks_[number % kBlocks];
  if (block.number != number) {
    retire(block);
    block = {.number = number};
  }
  return block;
}

void NameOrderDetector::retire(Block& block) {
  wasted_ += static_cast<uint64_t>(std::popcount(block.ahead & ~block.opened));
  block.ahead &= block.opened;
}

// If half of the returned places were unused, some names are skipped. If more were, the window was
// a mistake.
void NameOrderDetector::check_waste(uint64_t number) {
  Block& block = blocks_[number % kBlocks];
  if (block.number != number || block.ahead == 0) return;
  const int returned = std::popcount(block.ahead);
  const int unused = std::popcount(block.ahead & ~block.opened);
  retire(block);
  if (unused * 4 > returned * 3) {
    reset_order();
  } else if (unused * 2 > returned) {
    window_ = std::max(window_ / 2, std::min(options_.window_min, window_max_));
    used_since_growth_ = 0;
  }
}

bool NameOrderDetector::is_ahead(uint64_t place) const {
  const Block* block = find(place / 64);
  return block != nullptr && ((block->ahead | block->opened) & bit(place)) != 0;
}

// Bit i: place − 1 − i.
uint32_t NameOrderDetector::opened_below(uint64_t place) const {
  const uint64_t at = place % 64;
  uint64_t bits = 0;  // bit 63: place − 1
  if (const Block* block = find(place / 64); block != nullptr && at > 0) {
    bits = block->opened << (64 - at);
  }
  if (place >= 64 && at < kNear) {
    if (const Block* block = find(place / 64 - 1)) {
      bits |= at == 0 ? block->opened : block->opened >> at;
    }
  }
  // Reversed: the nearest place first.
  auto upper = static_cast<uint32_t>(bits >> 32);
  uint32_t near = 0;
  for (unsigned i = 0; i < kNear; ++i, upper <<= 1) near |= (upper >> 31) << i;
  return near;
}

// Bit i: place + 1 + i.
uint32_t NameOrderDetector::opened_above(uint64_t place) const {
  const uint64_t at = place % 64;
  uint64_t bits = 0;
  if (const Block* block = find(place / 64); block != nullptr && at < 63) {
    bits = block->opened >> (at + 1);
  }
  if (at >= 64 - kNear - 1) {
    if (const Block* block = find(place / 64 + 1)) bits |= block->opened << (63 - at);
  }
  return static_cast<uint32_t>(bits);
}

// Records whether the open went forward; returns whether opens are in order now.
bool NameOrderDetector::update_order(uint64_t place, bool predicted) {
  const int below = std::popcount(opened_below(place)), above = std::popcount(opened_above(place));
  const bool forward = below > above || (predicted && above == 0);
  history_ = history_ << 1 | static_cast<uint32_t>(forward);
  const uint64_t distance = place - last_;  // huge if it went back
  const bool near = any_ && (distance <= kNear || last_ - place <= kNear);
  streak_ = forward && near ? streak_ + 1 : 0;
  const bool ahead = any_ && distance > 0 && distance <= kStrideMax;
  chain_ = !ahead ? 0 : distance == distance_ ? chain_ + 1 : 1;
  distance_ = distance;
  last_ = place;
  any_ = true;
  const int forwards = std::popcount(history_);
  if (ordered_) return forwards >= kForwardStay;
  return chain_ >= (distance == 1 ? kChainDense : kChainStrided) || streak_ >= kStreak ||
         forwards >= kForwardEnter;
}

void NameOrderDetector::reset_order() {
  ordered_ = false;
  window_ = std::min(options_.window_min, window_max_);
  used_since_growth_ = 0;
  in_order_ = 0;
  history_ = 0;
  streak_ = chain_ = 0;
}

// The files are read again: earlier opens belong to the previous pass.
void NameOrderDetector::restart(uint64_t place) {
  for (Block& block : blocks_) {
    retire(block);
    block = {};
  }
  block_of(place).opened = bit(place);
}

void NameOrderDetector::grow() {
  if (++used_since_growth_ < window_) return;
  window_ = std::min(window_ * 2, window_max_);
  used_since_growth_ = 0;
}

std::optional<PlaceRun> NameOrderDetector::observe(uint64_t place) {
  Block& block = block_of(place);
  const uint64_t own = bit(place);
  if (block.opened == 0) check_waste(place / 64 - kPassedBlocks);
  const bool reopened = (block.opened & own) != 0;
  const bool predicted = !reopened && (block.ahead & own) != 0;
  block.opened |= own;
  reopens_ = reopened ? reopens_ + 1 : 0;
  // From the last name back to an earlier one, or many that were opened before.
  const bool wrapped = reopened && last_ + 1 == end_ && last_ - place > kNear;
  if (reopens_ == kReopens || wrapped) restart(place);
  if (predicted) ++used_;
  const bool ordered = update_order(place, predicted), forward = (history_ & 1) != 0;
  if (!ordered) {
    if (ordered_) reset_order();
    return std::nullopt;
  }
  if (!ordered_) {
    ordered_ = true;
    history_ = UINT32_MAX;  // assumed forward until opens show otherwise
  }
  ++in_order_;
  if (predicted) grow();
  // An open elsewhere has to be followed by others there.
  return forward ? plan(place) : std::nullopt;
}

std::optional<PlaceRun> NameOrderDetector::plan(uint64_t place) {
  const uint32_t below = opened_below(place);
  // Among several readers some place near below is still pending; if most are opened, all will be.
  const bool dense = below == 0 || std::popcount(below) >= 24;
  const uint32_t stride = dense ? 1 : static_cast<uint32_t>(std::countr_zero(below)) + 1;
  // Prefetches a quarter of the window at a time.
  const uint64_t due = place + uint64_t{stride} * (window_ - window_ / 4);
  if (is_ahead(std::min(due, end_ - 1))) return std::nullopt;
  uint64_t first = place + stride;
  uint32_t left = window_;
  for (; left > 0 && is_ahead(first); --left) first += stride;
  // Unused places in flight are at most the opens in order plus the smallest window.
  const uint64_t out = planned_ - used_ - wasted_, most = in_order_ + options_.window_min;
  left = static_cast<uint32_t>(std::min<uint64_t>(left, most > out ? most - out : 0));
  PlaceRun run{.first = first, .stride = stride, .count = 0};
  for (uint64_t at = first; run.count < left && at < end_ && !is_ahead(at);
       at += stride, ++run.count) {
    block_of(at).ahead |= bit(at);
  }
  if (run.count == 0) return std::nullopt;
  planned_ += run.count;
  return run;
}

void NameOrderDetector::end_at(uint64_t place) {
  end_ = place;
  for (Block& block : blocks_) {
    if (block.number == UINT64_MAX || block.number < place / 64) continue;
    const uint64_t behind = block.number == place / 64 ? ~(bit(place) - 1) : UINT64_MAX;
    planned_ -= static_cast<uint64_t>(std::popcount(block.ahead & ~block.opened & behind));
    block.ahead &= ~behind;
  }
}

void NameOrderDetector::follow(uint32_t window, uint32_t count) {
  ordered_ = true;
  history_ = UINT32_MAX;
  window_ = std::min(std::max(window, options_.window_min), window_max_);
  in_order_ = window_;
  for (uint64_t at = 0; at < count; ++at) block_of(at).ahead |= bit(at);
  planned_ += count;
}

}  // namespace leat
