// SPDX-License-Identifier: Apache-2.0
#include "peer/replicas/stripe_heat.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace leat {
namespace {

// Minimum share of this worker's load: replicas of a smaller stripe would spread little.
constexpr double kShareMin = 0.25;
// Share of `hot_bytes_s`; below it all replicas are dropped at once.
constexpr double kCold = 1.0 / 16;

double seconds_of(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void StripeHeat::age(Stripe& stripe, Clock::time_point now) const {
  const double factor = std::exp2(-seconds_of(now - stripe.at) / seconds_of(options_.half_life));
  stripe.bytes *= factor;
  stripe.over *= factor;
  stripe.at = now;
}

// At a steady rate `bytes` converges to rate × half-life ÷ ln 2.
double StripeHeat::rate(double bytes) const {
  return bytes * std::numbers::ln2 / seconds_of(options_.half_life);
}

// A new stripe replaces the coldest one and inherits its count (space-saving).
StripeHeat::Stripe& StripeHeat::find(uint64_t hash, Clock::time_point now) {
  if (auto found = stripes_.find(hash); found != stripes_.end()) return found->second;
  Stripe fresh{.at = now, .settled = now - options_.settle};
  if (stripes_.size() >= options_.stripes_max) {
    for (auto& [other, stripe] : stripes_) age(stripe, now);
    const auto least = std::ranges::min_element(
        stripes_, {}, [](const auto& known) { return known.second.bytes; });
    fresh.bytes = fresh.over = least->second.bytes;
    stripes_.erase(least);
  }
  return stripes_.emplace(hash, fresh).first->second;
}

void StripeHeat::settle(Stripe& stripe, uint32_t least, Clock::time_point now) const {
  const double hot = static_cast<double>(options_.hot_bytes_s);
  const double here = rate(stripe.bytes - stripe.over);
  const double everywhere = here * stripe.replicas;
  if (now - stripe.settled < options_.settle) return;
  const uint32_t before = stripe.replicas;
  if (here > hot && here >= kShareMin * rate(all_.bytes)) {
    const auto wanted = std::min(std::ceil(everywhere / hot), double(options_.replicas_max));
    stripe.replicas = std::max(stripe.replicas, static_cast<uint32_t>(wanted));
  } else if (everywhere < hot * kCold) {
    stripe.replicas = least;
  } else if (stripe.replicas > least && everywhere < hot / 2 * (stripe.replicas - 1)) {
    --stripe.replicas;
  }
  if (stripe.replicas == before) return;
  // Expected load here after readers have received the change.
  const double part = double(before) / stripe.replicas;
  stripe.bytes *= part;
  stripe.over *= part;
  stripe.settled = now;
}

uint32_t StripeHeat::note(PlacementKey key, uint64_t bytes, uint32_t least) {
  if (options_.hot_bytes_s == 0) return least;
  const Clock::time_point now = options_.now();
  const double cost = static_cast<double>(bytes + options_.read_bytes);
  std::lock_guard lock(mutex_);
  Stripe& stripe = find(key.hash, now);
  for (Stripe* one : {&all_, &stripe}) {
    age(*one, now);
    one->bytes += cost;
  }
  stripe.replicas = std::max(stripe.replicas, least);
  settle(stripe, least, now);
  return stripe.replicas;
}

size_t StripeHeat::hot() const {
  std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::ranges::count_if(stripes_, [](const auto& one) { return one.second.replicas > 1; }));
}

}  // namespace leat
