// SPDX-License-Identifier: Apache-2.0
#include "peer/replication/hot_stripe_tracker.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace leat {
namespace {

// Minimum share of this worker's load: replicas of a smaller stripe would spread little.
constexpr double kShareMin = 0.25;
// Share of `hot_stripe_bandwidth`; below it all replicas are dropped at once.
constexpr double kColdShare = 1.0 / 16;

double seconds_of(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void HotStripeTracker::decay(Stripe& stripe, Clock::time_point now) const {
  const double factor = std::exp2(-seconds_of(now - stripe.at) / seconds_of(options_.half_life));
  stripe.bytes *= factor;
  stripe.overestimate *= factor;
  stripe.at = now;
}

// At a steady rate `bytes` converges to rate × half-life ÷ ln 2.
double HotStripeTracker::rate(double bytes) const {
  return bytes * std::numbers::ln2 / seconds_of(options_.half_life);
}

// A new stripe replaces the coldest one and inherits its count (space-saving).
HotStripeTracker::Stripe& HotStripeTracker::find(uint64_t hash, Clock::time_point now) {
  if (auto found = stripes_.find(hash); found != stripes_.end()) return found->second;
  Stripe fresh{.at = now, .changed_at = now - options_.change_interval};
  if (stripes_.size() >= options_.stripes_max) {
    for (auto& [other, stripe] : stripes_) decay(stripe, now);
    const auto least = std::ranges::min_element(
        stripes_, {}, [](const auto& known) { return known.second.bytes; });
    fresh.bytes = fresh.overestimate = least->second.bytes;
    stripes_.erase(least);
  }
  return stripes_.emplace(hash, fresh).first->second;
}

void HotStripeTracker::update_replicas(Stripe& stripe, uint32_t least,
                                       Clock::time_point now) const {
  const double hot = static_cast<double>(options_.hot_stripe_bandwidth);
  const double here = rate(stripe.bytes - stripe.overestimate);
  const double everywhere = here * stripe.replicas;
  if (now - stripe.changed_at < options_.change_interval) return;
  const uint32_t before = stripe.replicas;
  if (here > hot && here >= kShareMin * rate(all_.bytes)) {
    const auto wanted = std::min(std::ceil(everywhere / hot), double(options_.replicas_max));
    stripe.replicas = std::max(stripe.replicas, static_cast<uint32_t>(wanted));
  } else if (everywhere < hot * kColdShare) {
    stripe.replicas = least;
  } else if (stripe.replicas > least && everywhere < hot / 2 * (stripe.replicas - 1)) {
    --stripe.replicas;
  }
  if (stripe.replicas == before) return;
  // Expected load here after readers have received the change.
  const double part = double(before) / stripe.replicas;
  stripe.bytes *= part;
  stripe.overestimate *= part;
  stripe.changed_at = now;
}

uint32_t HotStripeTracker::record(PlacementKey key, uint64_t bytes, uint32_t least) {
  if (options_.hot_stripe_bandwidth == 0) return least;
  const Clock::time_point now = options_.now();
  const double cost = static_cast<double>(bytes + options_.read_bytes);
  std::lock_guard lock(mutex_);
  Stripe& stripe = find(key.hash, now);
  for (Stripe* one : {&all_, &stripe}) {
    decay(*one, now);
    one->bytes += cost;
  }
  stripe.replicas = std::max(stripe.replicas, least);
  update_replicas(stripe, least, now);
  return stripe.replicas;
}

size_t HotStripeTracker::hot_stripes() const {
  std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::ranges::count_if(stripes_, [](const auto& one) { return one.second.replicas > 1; }));
}

}  // namespace leat
