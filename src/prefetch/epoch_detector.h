// SPDX-License-Identifier: Apache-2.0
// EpochDetector: detects that the files of a directory tree are read in an order that nobody can
// foresee, as a training epoch does. Then all of the tree is worth fetching. It gets the files that
// had to wait for the store, and returns the deepest directory that is read that way.
//
// It looks at trials: in each directory a number of such files in a row, one file in 250, 40 to
// 400. A trial counts the 64ths of the tree that these files lie in, in name order. At random it
// has nearly as many as 64 boxes into which so many balls are thrown; readers in name order stay in
// a few. It also counts steps backwards: half of them at random, none for a reader in name order.
// Such a reader's files that were not prefetched in time may lie anywhere. Trees of fewer than 320
// files are too small for a trial.
//
// Pure bookkeeping, no I/O. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>

namespace leat {

struct EpochDetectorOptions {
  uint32_t trial_min = 40;  // files
  uint32_t trial_max = 400;
  uint32_t trial_share = 250;  // of the tree's files, one in so many
  // A trial without a file for this time is dropped.
  std::chrono::steady_clock::duration pause_max = std::chrono::seconds(30);
  size_t directories_max = 1024;
};

class EpochDetector {
 public:
  using Clock = std::chrono::steady_clock;

  // A directory that the file lies in or below.
  struct Level {
    uint64_t directory = 0;  // its id
    double position = 0;     // of the file among the names of its tree, in [0, 1)
    uint64_t files = 0;      // of its tree, as far as known
  };

  explicit EpochDetector(EpochDetectorOptions options = {}) : options_(options) {}

  // A file had to wait for the store. `levels`: from its directory upwards. Returns the index of
  // the level of a tree that is read at random, if a trial has just shown that.
  std::optional<size_t> observe(Clock::time_point now, std::span<const Level> levels);

 private:
  struct Trial {
    Clock::time_point last;
    uint32_t files = 0;
    uint64_t boxes = 0;     // a bit for each 64th of the tree
    uint32_t descents = 0;  // files before the previous one, in name order
    double position = 0;    // of the previous one
  };

  void make_room(Clock::time_point now);

  EpochDetectorOptions options_;
  std::unordered_map<uint64_t, Trial> trials_;  // by directory
};

}  // namespace leat
