// SPDX-License-Identifier: Apache-2.0
// FaultSchedule: the events of one run of fault_schedules_test.cc, all decided by a seed before the
// run: the objects, the store's faults, and the requests with their deadlines. Which request gets
// which fault depends on its content and count, not on the order of arrival.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "source/bad_store_test.h"

namespace leat::testing {

struct FaultSchedule {
  using Kind = StoreFault::Kind;
  using Milliseconds = std::chrono::milliseconds;

  struct Operation {
    enum class Kind : uint8_t { kRead, kStat, kList };
    Kind kind = Kind::kRead;
    std::string key;  // or the prefix of a listing
    uint64_t offset = 0, size = 0;
    bool demands_version = false;
    bool stale = false;  // a version that the store never had
    bool recursive = false;
    std::optional<Milliseconds> deadline, cancel;
    Milliseconds pause{};  // before it
  };

  explicit FaultSchedule(uint64_t seed);

  uint64_t seed;
  std::map<std::string, std::string> objects;
  BadStore::Terms terms;
  std::vector<Kind> kinds;                                       // of the occurring faults
  unsigned faulty = 0;                                           // of a hundred requests
  unsigned heals_after = 0;                                      // number of identical requests
  std::optional<std::pair<Milliseconds, Milliseconds>> refuses;  // from, for
  std::vector<std::vector<Operation>> callers;

  StoreFault fault_of(const S3Request& request, unsigned nth) const;
  bool ever(Kind kind) const { return std::ranges::find(kinds, kind) != kinds.end(); }
  // Text for the message of a failure.
  std::string described() const {
    std::string names;
    for (Kind kind : kinds) names += fmt::format("{}, ", StoreFault{.kind = kind}.name());
    return fmt::format("{}in {} % of the first {} requests of a kind; {} objects, {} callers",
                       names, faulty, heals_after, objects.size(), callers.size());
  }

 private:
  uint64_t pick(uint64_t below) { return random_() % below; }
  bool one_in(uint64_t count) { return pick(count) == 0; }
  void choose_objects();
  void choose_faults();
  void choose_terms();
  Operation choose_operation();

  std::mt19937_64 random_;
  bool patient_ = false;  // no caller has a deadline or gives up
};

inline FaultSchedule::FaultSchedule(uint64_t seed) : seed(seed), random_(seed) {
  patient_ = one_in(8);
  choose_objects();
  choose_faults();
  choose_terms();
  callers.resize(2 + pick(4));
  for (auto& operations : callers) {
    const size_t count = 2 + pick(6);
    for (size_t i = 0; i < count; ++i) operations.push_back(choose_operation());
  }
  if (terms.during_pause_max > 0) terms.during_pause_max = static_cast<unsigned>(callers.size());
}

inline void FaultSchedule::choose_objects() {
  static constexpr const char* kNames[] = {"a", "b/1", "b/2 and+more", "b/c/3", "d/ü&<4>", "e"};
  static constexpr size_t kSizes[] = {1, 7, 4095, 4096, 30'000, 100'000, 300'000};
  const size_t count = 2 + pick(5);
  for (size_t i = 0; i < count; ++i) {
    objects[kNames[i]] = bytes_of(random_(), kSizes[pick(std::size(kSizes))]);
  }
}

inline void FaultSchedule::choose_faults() {
  const uint64_t all = static_cast<uint64_t>(Kind::kCount) - 1;
  const size_t count = one_in(6) ? 12 : 1 + pick(4);
  for (size_t i = 0; i < count; ++i) kinds.push_back(static_cast<Kind>(1 + pick(all)));
  faulty = static_cast<unsigned>(one_in(10) ? 100 : 5 + pick(60));
  heals_after = static_cast<unsigned>(!patient_ && one_in(10) ? 1'000'000 : 1 + pick(4));
  // A listing's silence takes 5 s.
  if (ever(Kind::kStall) && heals_after < 1000) heals_after = std::min(heals_after, 2u);
  if (one_in(8)) refuses = {Milliseconds(pick(300)), Milliseconds(50 + pick(700))};
}

inline void FaultSchedule::choose_terms() {
  terms.is_signed = !one_in(3);
  terms.demands_versions = one_in(3);
  terms.closes = one_in(6);
  terms.page_entries = 2 + pick(5);
  if (one_in(6)) {
    terms.requests_per_second = static_cast<double>(20 + pick(100));
    terms.burst = static_cast<double>(1 + pick(10));
    terms.throttle.kind = one_in(2) ? Kind::kTooMany : Kind::kSlowDown;
    if (one_in(4)) terms.throttle.time = std::chrono::seconds(1);
  }
  // A request is sent again if its connection has just died, and an abandoned one reports no pause.
  const bool once = !ever(Kind::kHangUp) && !ever(Kind::kTrailing) && !ever(Kind::kCut) &&
                    !ever(Kind::kReset) && !ever(Kind::kLongLength) && !refuses;
  if (once && patient_) terms.during_pause_max = 1;
  if (once && one_in(4)) terms.client_ceiling = static_cast<double>(20 + pick(200));
}

inline FaultSchedule::Operation FaultSchedule::choose_operation() {
  using Is = Operation::Kind;
  Operation one;
  const uint64_t die = pick(10);
  one.kind = die < 6 ? Is::kRead : die < 8 ? Is::kStat : Is::kList;
  if (one.kind == Is::kList) {
    static constexpr const char* kPrefixes[] = {"", "", "b/", "b/c/", "none/"};
    one.key = kPrefixes[pick(std::size(kPrefixes))];
    one.recursive = one_in(2);
  } else {
    auto object = std::next(objects.begin(), static_cast<ptrdiff_t>(pick(objects.size())));
    one.key = object->first;
    const uint64_t whole = object->second.size();
    one.offset = one_in(3) ? 0 : pick(whole);
    one.size = one_in(3) ? whole - one.offset : 1 + pick(whole - one.offset);
    one.demands_version = terms.demands_versions || one_in(2);
    one.stale = one.demands_version && one_in(10);
    if (one_in(12)) one.key += ".missing";
  }
  if (!patient_) {
    if (heals_after > 1000 || !one_in(6)) one.deadline = Milliseconds(20 + pick(2500));
    if (one_in(6)) one.cancel = Milliseconds(pick(400));
  }
  one.pause = Milliseconds(pick(60));
  return one;
}

inline StoreFault FaultSchedule::fault_of(const S3Request& request, unsigned nth) const {
  if (nth >= heals_after) return {};
  uint64_t state = seed ^ 0xA0761D6478BD642F;
  for (char c : request.identity()) {
    state = (state ^ static_cast<unsigned char>(c)) * 0x100000001B3;  // FNV-1a
  }
  std::mt19937_64 random(state + nth);
  if (random() % 100 >= faulty) return {};
  StoreFault fault{.kind = kinds[random() % kinds.size()], .salt = random()};
  const bool throttles = fault.kind == Kind::kSlowDown || fault.kind == Kind::kTooMany;
  if (throttles && random() % 4 == 0) fault.time = std::chrono::seconds(1);
  return fault;
}

}  // namespace leat::testing
