// SPDX-License-Identifier: Apache-2.0
#include "peer/invalidation/invalidation_log.h"

#include <algorithm>

#include "base/check.h"
#include "base/id128.h"

namespace leat {
namespace {

// Below 2^52, so that every JSON reader has it exactly; above 2^40, more changes than a process
// makes in its life.
uint64_t first_number() {
  return (uint64_t{1} << 40) + (Id128::random().hash64() & ((uint64_t{1} << 51) - 1));
}

}  // namespace

InvalidationLog::InvalidationLog(InvalidationLogOptions options)
    : options_(std::move(options)), number_(first_number()) {
  LEAT_CHECK(options_.mounts != nullptr && options_.entries_max > 0);
}

uint64_t InvalidationLog::append(std::vector<Invalidation> invalidations) {
  Signal waiters;
  uint64_t number;
  {
    std::lock_guard lock(mutex_);
    if (invalidations.empty()) return number_;
    number = number_ += invalidations.size();
    std::ranges::move(invalidations, std::back_inserter(entries_));
    if (entries_.size() > options_.entries_max) {
      entries_.erase(entries_.begin(),
                     entries_.end() - static_cast<std::ptrdiff_t>(options_.entries_max));
    }
    waiters = std::exchange(changed_, SharedPromise<bool>::make());
  }
  waiters->set(true);
  return number;
}

uint64_t InvalidationLog::number() const {
  std::lock_guard lock(mutex_);
  return number_;
}

std::optional<Invalidations> InvalidationLog::after(uint64_t number, Signal& changed) const {
  Invalidations answer;
  {
    std::lock_guard lock(mutex_);
    const uint64_t oldest = number_ - entries_.size();  // the number before the oldest change
    if (number >= oldest && number <= number_) {
      if (number == number_) {
        changed = changed_;
        return std::nullopt;
      }
      const auto from = entries_.begin() + static_cast<std::ptrdiff_t>(number - oldest);
      const auto count = std::min<uint64_t>(number_ - number, kInvalidationsMax);
      answer.items.assign(from, from + static_cast<std::ptrdiff_t>(count));
      answer.number = number + count;
      return answer;
    }
    answer.number = number_;
  }
  for (std::string& mount : options_.mounts()) {
    answer.items.push_back({std::move(mount), {}, Invalidation::Kind::kAll});
  }
  return answer;
}

Task<Result<std::optional<Invalidations>>> InvalidationLog::wait_after(Context context,
                                                                       uint64_t number,
                                                                       Clock::duration wait) {
  Signal changed;
  std::optional<Invalidations> answer = after(number, changed);
  if (answer) co_return answer;
  const Context bounded = context.with_timeout(wait);
  Result<bool> changed_in_time = co_await changed->wait(bounded, "a change");
  if (changed_in_time) co_return after(number, changed);
  if (auto alive = context.check("a change"); !alive) co_return Error(alive.error());
  co_return std::nullopt;
}

}  // namespace leat
