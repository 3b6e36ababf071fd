// SPDX-License-Identifier: Apache-2.0
#include "prefetch/epoch_detector.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace leat {
namespace {

constexpr double kBoxes = 64;
// A tree is at least so many trials large: with fewer, readers in name order would fill the boxes.
constexpr uint64_t kTrialsMin = 8;
// Share of the boxes that random files fill on average; the standard deviation is below a tenth.
constexpr double kFilledMin = 0.7;

// Share of the files that come before the previous one; half of them at random.
constexpr double kDescentsMin = 0.25;

// Mean number of boxes that are hit by `balls` thrown at random.
double filled_at_random(uint32_t balls) {
  return kBoxes * (1 - std::pow(1 - 1 / kBoxes, balls));
}

}  // namespace

std::optional<size_t> EpochDetector::observe(Clock::time_point now, std::span<const Level> levels) {
  std::optional<size_t> detected;
  for (size_t at = 0; at < levels.size(); ++at) {
    const Level& level = levels[at];
    const auto wanted = static_cast<uint32_t>(std::clamp<uint64_t>(
        level.files / options_.trial_share, options_.trial_min, options_.trial_max));
    if (level.files < kTrialsMin * wanted) continue;
    if (trials_.size() >= options_.directories_max && !trials_.contains(level.directory)) {
      make_room(now);
    }
    Trial& trial = trials_[level.directory];
    if (now - trial.last > options_.pause_max) trial = {};
    trial.last = now;
    const double box = std::clamp(level.position * kBoxes, 0.0, kBoxes - 1);
    trial.boxes |= uint64_t{1} << static_cast<unsigned>(box);
    if (level.position < trial.position) ++trial.descents;
    trial.position = level.position;
    if (++trial.files < wanted) continue;
    const bool spread = std::popcount(trial.boxes) >= kFilledMin * filled_at_random(trial.files);
    const bool random = spread && trial.descents >= kDescentsMin * trial.files;
    trial = Trial();
    trial.last = now;
    if (random && !detected) detected = at;
  }
  return detected;
}

void EpochDetector::make_room(Clock::time_point now) {
  std::erase_if(trials_,
                [&](const auto& one) { return now - one.second.last > options_.pause_max; });
  if (trials_.size() < options_.directories_max) return;
  const auto oldest =
      std::ranges::min_element(trials_, {}, [](const auto& one) { return one.second.last; });
  trials_.erase(oldest);
}

}  // namespace leat
