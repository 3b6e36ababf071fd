// SPDX-License-Identifier: Apache-2.0
#include "cache/access_pattern_meter.h"

#include <algorithm>

namespace leat {
namespace {

constexpr size_t kSamplesMax = 4096;
constexpr size_t kSamplesMin = 16;   // fewer are no evidence
constexpr uint64_t kRepeatsMin = 8;  // repeated uses of sampled objects before a verdict
// Between uniform draws (1 with sampling noise) and skewed ones (10 and more).
constexpr double kDispersionMax = 1.5;
// Mean uses of an object after which the counts restart, so that a change becomes visible.
constexpr uint64_t kWindowUses = 8;

}  // namespace

void AccessPatternMeter::note(const FileId& id, uint64_t pass) {
  // Uses another hash mix than the choice of shards and buckets.
  const uint64_t hash = id.hash64() * 0x9e3779b97f4a7c15ull;
  if (hash <= hash_max_.load(std::memory_order_relaxed)) note_sampled(hash, pass);
}

void AccessPatternMeter::note_sampled(uint64_t hash, uint64_t pass) {
  std::lock_guard lock(mutex_);
  Sample& sample = samples_[hash];
  if (sample.last != 0) longest_ = std::max(longest_, pass - std::min(pass, sample.last));
  if (sample.uses > 0) ++repeats_;
  sample.last = pass;
  ++uses_;
  squares_ += 2 * uint64_t{sample.uses} + 1;
  ++sample.uses;
  if (samples_.size() > kSamplesMax) halve_sample();

  const auto count = static_cast<double>(samples_.size());
  if (samples_.size() < kSamplesMin || repeats_ < kRepeatsMin) return;
  const double mean = static_cast<double>(uses_) / count;
  const double variance = static_cast<double>(squares_) / count - mean * mean;
  cyclic_ = variance <= kDispersionMax * mean;
  // With equal chances, one draw in 400 returns later than six times the mean. Epochs return within
  // twice the data set.
  const uint64_t longest = std::max(longest_, longest_before_);
  if (longest > 0) stale_after_ = longest + longest / 2;
  if (uses_ >= kWindowUses * samples_.size()) begin_window();
}

void AccessPatternMeter::halve_sample() {
  const uint64_t hash_max = hash_max_.load(std::memory_order_relaxed) / 2;
  hash_max_ = hash_max;
  boost::unordered::erase_if(samples_, [&](const auto& item) {
    if (item.first <= hash_max) return false;
    uses_ -= item.second.uses;
    squares_ -= uint64_t{item.second.uses} * item.second.uses;
    return true;
  });
}

// Drops objects that were not used in the whole window.
void AccessPatternMeter::begin_window() {
  boost::unordered::erase_if(samples_, [](const auto& item) { return item.second.uses == 0; });
  for (auto& [hash, sample] : samples_) sample.uses = 0;
  // The data set became smaller: enlarge the sample to keep enough objects.
  if (samples_.size() < kSamplesMax / 4 && hash_max_ < UINT64_MAX / 2) hash_max_ = hash_max_ * 2;
  uses_ = squares_ = repeats_ = 0;
  longest_before_ = longest_;
  longest_ = 0;
}

}  // namespace leat
