// SPDX-License-Identifier: Apache-2.0
// CounterRates: growth of a daemon's counters between two samples, per second and by labels.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace leat {

using Counters = std::map<std::string, double>;  // name{labels} → value, as /v1/status has them
using Labels = std::map<std::string, std::string>;

// Parses `name="value",other="…"` in the exposition format. Omits malformed parts.
Labels parse_labels(std::string_view text);

class CounterRates {
 public:
  struct Series {
    Labels labels{};
    double growth = 0;  // since the previous sample
    double value = 0;
  };

  // `seconds`: between the samples, more than 0. A value that is smaller than before was reset (a
  // mount returned) and counts from 0.
  CounterRates(const Counters& before, const Counters& after, double seconds);

  // Returns all series of a name, sorted by their labels.
  std::vector<Series> series(std::string_view name) const;
  // Sums over all series that have the labels of `wanted`.
  double growth(std::string_view name, const Labels& wanted = {}) const;
  double rate(std::string_view name, const Labels& wanted = {}) const {
    return growth(name, wanted) / seconds_;
  }
  double value(std::string_view name, const Labels& wanted = {}) const;
  // Groups by the values of one label; sums over the others.
  std::map<std::string, double> growth_by(std::string_view name, const std::string& label) const;
  double seconds() const { return seconds_; }

 private:
  const Counters& before_;
  const Counters& after_;
  const double seconds_;
};

}  // namespace leat
