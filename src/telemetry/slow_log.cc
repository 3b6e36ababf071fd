// SPDX-License-Identifier: Apache-2.0
#include "telemetry/slow_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <string_view>

#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// Omits parts that explain less than a twentieth of the time.
constexpr int kShareMin = 20;
constexpr size_t kReasonsMax = 3;

Counter slow_total("leat_slow_operations_total",
                   "Operations of programs that took longer than log.slow_threshold");

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

std::string SlowOperation::reason() const {
  // Count only the time within this operation: a shared span may begin earlier or end later.
  auto length = [this](const Span& span) {
    const auto within = std::min(span.end, end) - std::max(span.begin, end - took);
    return std::max<std::chrono::nanoseconds>(within, std::chrono::nanoseconds(0));
  };
  std::vector<std::chrono::nanoseconds> own;
  for (const Span& part : parts) own.push_back(length(part));
  for (const Span& part : parts) {
    if (part.parent != Span::kTop) own[part.parent] -= length(part);
  }
  std::map<std::string_view, std::chrono::nanoseconds> sums;
  for (size_t i = 0; i < parts.size(); ++i) sums[parts[i].what] += own[i];
  std::vector<std::pair<std::chrono::nanoseconds, std::string_view>> longest;
  for (const auto& [what, sum] : sums) {
    if (sum * kShareMin >= took) longest.emplace_back(sum, what);
  }
  std::ranges::sort(longest, std::greater());
  std::string text;
  for (const auto& [sum, what] : longest | std::views::take(kReasonsMax)) {
    text += fmt::format("{}{} {:.2f} s", text.empty() ? "" : ", ", what, seconds(sum));
  }
  return text;
}

void SlowLog::add(SlowOperation operation) {
  slow_total.add();
  bool tell = false;
  {
    std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now - second_ >= std::chrono::seconds(1)) {
      second_ = now;
      lines_ = 0;
    }
    tell = lines_++ < kLinesMax;
    operations_.push_back(operation);
    if (operations_.size() > kOperationsMax) operations_.pop_front();
  }
  if (!tell) return;
  const std::string reason = operation.reason();
  log::event(log::Level::kWarning,
             fmt::format("slow {} of {}: {:.2f} s{}{}", operation.operation, operation.path,
                         seconds(operation.took), reason.empty() ? "" : ": ", reason),
             {{"operation", operation.operation},
              {"path", operation.path},
              {"seconds", seconds(operation.took)},
              {"offset", operation.offset},
              {"bytes", operation.bytes},
              {"failure", operation.failure}});
}

std::vector<SlowOperation> SlowLog::operations() const {
  std::lock_guard lock(mutex_);
  return {operations_.rbegin(), operations_.rend()};
}

SlowLog& slow_log() {
  static SlowLog instance;
  return instance;
}

}  // namespace leat
