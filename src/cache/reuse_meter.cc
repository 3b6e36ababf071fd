// SPDX-License-Identifier: Apache-2.0
#include "cache/reuse_meter.h"

#include <algorithm>

namespace leat {
namespace {

constexpr size_t kSamplesMax = 4096;
constexpr size_t kSamplesMin = 16;   // fewer say nothing
constexpr uint64_t kRepeatsMin = 8;  // of sampled objects, before a verdict
// Between uniform draws (1, give or take the sample's noise) and skewed ones (10 and more).
constexpr double kDispersionMax = 1.5;
// Counts begin anew when an object was used so often in the mean, so that a change shows.
constexpr uint64_t kWindowUses = 8;

}  // namespace

void ReuseMeter::note(const FileId& id, uint64_t pass) {
  // Another mix than the one that chooses shards and places.
  const uint64_t hash = id.hash64() * 0x9e3779b97f4a7c15ull;
  if (hash <= hash_max_.load(std::memory_order_relaxed)) note_sampled(hash, pass);
}

void ReuseMeter::note_sampled(uint64_t hash, uint64_t pass) {
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
  even_ = variance <= kDispersionMax * mean;
  // Of draws with equal chances one in 400 comes later than six times the mean; what an epoch
  // leaves out comes within two.
  const uint64_t longest = std::max(longest_, longest_before_);
  if (longest > 0) stale_after_ = longest + longest / 2;
  if (uses_ >= kWindowUses * samples_.size()) begin_window();
}

void ReuseMeter::halve_sample() {
  const uint64_t hash_max = hash_max_.load(std::memory_order_relaxed) / 2;
  hash_max_ = hash_max;
  boost::unordered::erase_if(samples_, [&](const auto& item) {
    if (item.first <= hash_max) return false;
    uses_ -= item.second.uses;
    squares_ -= uint64_t{item.second.uses} * item.second.uses;
    return true;
  });
}

// Objects that were not used in the whole window are no longer part of it.
void ReuseMeter::begin_window() {
  boost::unordered::erase_if(samples_, [](const auto& item) { return item.second.uses == 0; });
  for (auto& [hash, sample] : samples_) sample.uses = 0;
  // A smaller data set than before: more of it, so that enough is known of it.
  if (samples_.size() < kSamplesMax / 4 && hash_max_ < UINT64_MAX / 2) hash_max_ = hash_max_ * 2;
  uses_ = squares_ = repeats_ = 0;
  longest_before_ = longest_;
  longest_ = 0;
}

}  // namespace leat
