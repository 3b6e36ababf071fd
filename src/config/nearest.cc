// SPDX-License-Identifier: Apache-2.0
#include "config/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace leat {
namespace {

// People type short words; the cost grows with the square of the length.
constexpr size_t kWordBytesMax = 200;

std::string folded(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return out;
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the usual table: two back (for swaps), the previous one, the current one.
  std::vector<size_t> back(b.size() + 1), before(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) before[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = before[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({before[j] + 1, now[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        now[j] = std::min(now[j], back[j - 2] + 1);
      }
    }
    std::swap(back, before);
    std::swap(before, now);
  }
  return before[b.size()];
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  if (word.size() > kWordBytesMax) return std::nullopt;
  std::string wanted = folded(word);
  const std::string* best = nullptr;
  // Up to a third of the letters wrong counts as a typing error; more is another word.
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    size_t distance = edit_distance(wanted, folded(candidate));
    if (distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  std::optional<std::string> found = nearest(word, candidates);
  return found ? fmt::format("; did you mean '{}'?", *found) : std::string();
}

}  // namespace leat
