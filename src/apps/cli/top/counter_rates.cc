// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/top/counter_rates.h"

#include <algorithm>

namespace leat {
namespace {

bool has_all(const Labels& labels, const Labels& wanted) {
  return std::ranges::all_of(wanted, [&](const auto& one) {
    auto found = labels.find(one.first);
    return found != labels.end() && found->second == one.second;
  });
}

// Returns the value after the quote before `at`, and moves `at` behind its closing quote.
std::string quoted(std::string_view text, size_t& at) {
  std::string value;
  for (; at < text.size() && text[at] != '"'; ++at) {
    char c = text[at];
    if (c == '\\' && at + 1 < text.size()) {
      c = text[++at];
      if (c == 'n') c = '\n';
    }
    value += c;
  }
  ++at;
  return value;
}

}  // namespace

Labels parse_labels(std::string_view text) {
  Labels labels;
  for (size_t at = 0; at < text.size();) {
    const size_t equals = text.find("=\"", at);
    if (equals == std::string_view::npos) break;
    std::string name(text.substr(at, equals - at));
    at = equals + 2;
    labels[std::move(name)] = quoted(text, at);
    if (at < text.size() && text[at] == ',') ++at;
  }
  return labels;
}

CounterRates::CounterRates(const Counters& before, const Counters& after, double seconds)
    : before_(before), after_(after), seconds_(seconds) {}

std::vector<CounterRates::Series> CounterRates::series(std::string_view name) const {
  std::vector<Series> found;
  for (auto at = after_.lower_bound(std::string(name)); at != after_.end(); ++at) {
    const std::string_view key = at->first;
    if (!key.starts_with(name)) break;
    std::string_view rest = key.substr(name.size());
    if (!rest.empty() && rest.front() != '{') continue;  // a longer name
    if (!rest.empty()) rest = rest.substr(1, rest.size() - 2);
    auto old = before_.find(at->first);
    const double then = old == before_.end() ? 0 : old->second;
    found.push_back({.labels = parse_labels(rest),
                     .growth = at->second >= then ? at->second - then : at->second,
                     .value = at->second});
  }
  return found;
}

double CounterRates::growth(std::string_view name, const Labels& wanted) const {
  double sum = 0;
  for (const Series& one : series(name)) {
    if (has_all(one.labels, wanted)) sum += one.growth;
  }
  return sum;
}

double CounterRates::value(std::string_view name, const Labels& wanted) const {
  double sum = 0;
  for (const Series& one : series(name)) {
    if (has_all(one.labels, wanted)) sum += one.value;
  }
  return sum;
}

std::map<std::string, double> CounterRates::growth_by(std::string_view name,
                                                      const std::string& label) const {
  std::map<std::string, double> sums;
  for (const Series& one : series(name)) {
    auto found = one.labels.find(label);
    if (found != one.labels.end()) sums[found->second] += one.growth;
  }
  return sums;
}

}  // namespace leat
