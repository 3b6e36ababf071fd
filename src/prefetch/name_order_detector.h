// SPDX-License-Identifier: Apache-2.0
// NameOrderDetector: detects whether the files of a directory are opened in the order of their
// names, by one reader or by several concurrent ones. It returns the places to prefetch. A place is
// a name's number in the sorted listing. Pure bookkeeping, no I/O. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace leat {

// Places `first`, `first + stride`, …: `count` of them.
struct PlaceRun {
  uint64_t first = 0;
  uint32_t stride = 1;
  uint32_t count = 0;

  friend bool operator==(const PlaceRun&, const PlaceRun&) = default;
};

struct NameOrderDetectorOptions {
  uint32_t window_min = 4;  // files ahead
  uint32_t window_max = 256;
};

class NameOrderDetector {
 public:
  // Maximum n for readers that take every n-th name.
  static constexpr uint32_t kStrideMax = 32;

  explicit NameOrderDetector(NameOrderDetectorOptions options = {});

  // Records an open; returns the places to prefetch now. A place is returned once until it was
  // opened.
  std::optional<PlaceRun> observe(uint64_t place);
  // The readers come from a directory that they read in order with `window`, and its prefetch
  // continued in this one: its first `count` places are in flight.
  void follow(uint32_t window, uint32_t count);

  // The directory has no name at `place` or behind it: no such place is returned any more, and
  // those returned before do not count.
  void end_at(uint64_t place);

  // Bounds the window from now on, for larger files: at least one.
  void limit(uint32_t window_max);

  // Whether the latest opens were in order.
  bool ordered() const { return ordered_; }
  uint32_t window() const { return window_; }

  // Number of places returned by observe() that were opened; that were passed over, or forgotten
  // before an open; in all.
  uint64_t used() const { return used_; }
  uint64_t wasted() const { return wasted_; }
  uint64_t planned() const { return planned_; }

 private:
  // A block of 64 places, as bits.
  struct Block {
    uint64_t number = UINT64_MAX;
    uint64_t opened = 0;
    uint64_t ahead = 0;  // returned by observe()
  };
  // Enough for the windows of some readers that are far apart; a power of two.
  static constexpr uint64_t kBlocks = 128;

  const Block* find(uint64_t number) const;
  Block& block_of(uint64_t place);
  void retire(Block& block);
  void check_waste(uint64_t number);
  bool is_ahead(uint64_t place) const;
  uint32_t opened_below(uint64_t place) const;
  uint32_t opened_above(uint64_t place) const;
  bool update_order(uint64_t place, bool predicted);
  void reset_order();
  void restart(uint64_t place);
  void grow();
  std::optional<PlaceRun> plan(uint64_t place);

  const NameOrderDetectorOptions options_;
  std::array<Block, kBlocks> blocks_;
  uint32_t history_ = 0;  // the last 32 opens, newest in bit 0; 1: forward
  uint32_t streak_ = 0;   // consecutive forward opens near each other
  uint32_t reopens_ = 0;  // consecutive reopens
  uint32_t chain_ = 0;    // consecutive opens at equal distances
  uint64_t end_ = UINT64_MAX;
  uint64_t last_ = 0;      // place
  uint64_t distance_ = 0;  // from the one before
  bool any_ = false;       // open was noted
  bool ordered_ = false;
  uint32_t window_ = 0;
  uint32_t window_max_ = 0;
  uint32_t used_since_growth_ = 0;
  uint64_t in_order_ = 0;  // opens since the order was detected
  uint64_t planned_ = 0, used_ = 0, wasted_ = 0;
};

}  // namespace leat
