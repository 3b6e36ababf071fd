// SPDX-License-Identifier: Apache-2.0
// Lock order: the table's mutex, then a store's.
#include "source/retry/store_health.h"

#include <map>

#include "base/units.h"
#include "telemetry/log.h"

namespace leat {
namespace {

const MetricFamily kUnavailable(
    MetricType::kGauge, "leat_source_unavailable",
    "1 while a store answers no request: it fails, hangs, is unreachable or throttles all",
    "store,store_id");
const MetricFamily kWaiting(MetricType::kGauge, "leat_source_waiting_requests",
                            "Requests that wait for a store that does not respond",
                            "store,store_id");

struct HealthTable {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<StoreHealth>> by_labels;
};

// Never destroyed: stores may end after main().
HealthTable& table() {
  static auto* all = new HealthTable();
  return *all;
}

std::string seconds(Clock::duration time) {
  return format_duration(std::chrono::ceil<std::chrono::seconds>(time));
}

}  // namespace

std::shared_ptr<StoreHealth> StoreHealth::of(const std::string& store, const std::string& labels) {
  HealthTable& all = table();
  std::lock_guard lock(all.mutex);
  std::weak_ptr<StoreHealth>& known = all.by_labels[labels];
  if (auto found = known.lock()) return found;
  auto made = std::make_shared<StoreHealth>(store, labels);
  known = made;
  return made;
}

StoreHealth::StoreHealth(std::string store, std::string labels)
    : store_(std::move(store)),
      unavailable_gauge_(
          kUnavailable, [this] { return unavailable() ? 1.0 : 0.0; }, labels),
      waiting_gauge_(kWaiting, [this] { return static_cast<double>(waiting_.load()); }, labels) {}

StoreHealth::~StoreHealth() = default;

void StoreHealth::responded(Clock::time_point now) {
  if (!failing()) return;
  Clock::duration lasted{};
  {
    std::lock_guard lock(mutex_);
    failing_ = false;
    failures_ = 0;
    unavailable_ = false;
    if (!std::exchange(logged_, false)) return;
    lasted = now - since_;
  }
  log::info("{} answers again after {}", store_, seconds(lasted));
}

void StoreHealth::failed(Clock::time_point began, Clock::time_point now, const Status& why,
                         const std::string& waits) {
  {
    std::lock_guard lock(mutex_);
    failing_ = true;
    if (failures_++ == 0) since_ = began;
    reason_ = why.to_string();
    const Clock::duration lasting = now - since_;
    const bool enough = failures_ >= kFailuresMin && lasting >= kFailingMin;
    if (enough || lasting >= kLongOutage) unavailable_ = true;
    if (!unavailable_ || logged_ || waits.empty()) return;
    logged_ = true;
  }
  log::warning("{} does not answer; reads and lookups wait for it {}: {}", store_, waits,
               why.to_string());
}

std::optional<StoreOutage> StoreHealth::outage(Clock::time_point now) const {
  std::lock_guard lock(mutex_);
  if (!unavailable_) return std::nullopt;
  return StoreOutage{
      .store = store_, .lasting = now - since_, .waiting = waiting_, .reason = reason_};
}

std::vector<StoreOutage> store_outages(Clock::time_point now) {
  std::vector<std::shared_ptr<StoreHealth>> all;
  {
    std::lock_guard lock(table().mutex);
    for (const auto& [labels, health] : table().by_labels) {
      if (auto alive = health.lock()) all.push_back(std::move(alive));
    }
  }
  std::vector<StoreOutage> outages;
  for (const auto& health : all) {
    if (auto outage = health->outage(now)) outages.push_back(*std::move(outage));
  }
  return outages;
}

}  // namespace leat
