// SPDX-License-Identifier: Apache-2.0
// CounterRates: what a daemon's counters grew by between two looks, a second, by their labels.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace leat {

using Counters = std::map<std::string, double>;  // name{labels} → value, as /v1/status has them
using Labels = std::map<std::string, std::string>;

// Of `name="value",other="…"`, escaped as the exposition format has it. What is broken is left out.
Labels parse_labels(std::string_view text);

class CounterRates {
 public:
  struct Series {
    Labels labels{};
    double growth = 0;  // since the look before
    double value = 0;
  };

  // `seconds`: between the two looks, more than 0. What is smaller than before was begun anew (a
  // mount came back) and has grown from 0.
  CounterRates(const Counters& before, const Counters& after, double seconds);

  // All of a name, in the order of their labels.
  std::vector<Series> series(std::string_view name) const;
  // Sums over those that have the labels of `wanted`.
  double growth(std::string_view name, const Labels& wanted = {}) const;
  double rate(std::string_view name, const Labels& wanted = {}) const {
    return growth(name, wanted) / seconds_;
  }
  double value(std::string_view name, const Labels& wanted = {}) const;
  // By the values of one label, summed over the others.
  std::map<std::string, double> growth_by(std::string_view name, const std::string& label) const;
  double seconds() const { return seconds_; }

 private:
  const Counters& before_;
  const Counters& after_;
  const double seconds_;
};

}  // namespace leat
