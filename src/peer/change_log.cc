// SPDX-License-Identifier: Apache-2.0
#include "peer/change_log.h"

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

ChangeLog::ChangeLog(ChangeLogOptions options)
    : options_(std::move(options)), number_(first_number()) {
  LEAT_CHECK(options_.mounts != nullptr && options_.changes_max > 0);
}

uint64_t ChangeLog::append(std::vector<PeerChange> changes) {
  Signal told;
  uint64_t number;
  {
    std::lock_guard lock(mutex_);
    if (changes.empty()) return number_;
    number = number_ += changes.size();
    std::ranges::move(changes, std::back_inserter(changes_));
    if (changes_.size() > options_.changes_max) {
      changes_.erase(changes_.begin(),
                     changes_.end() - static_cast<std::ptrdiff_t>(options_.changes_max));
    }
    told = std::exchange(changed_, SharedResult<bool>::make());
  }
  told->set(true);
  return number;
}

uint64_t ChangeLog::number() const {
  std::lock_guard lock(mutex_);
  return number_;
}

std::optional<PeerChanges> ChangeLog::after(uint64_t number, Signal& changed) const {
  PeerChanges answer;
  {
    std::lock_guard lock(mutex_);
    const uint64_t known = number_ - changes_.size();  // the number before the oldest change
    if (number >= known && number <= number_) {
      if (number == number_) {
        changed = changed_;
        return std::nullopt;
      }
      const auto from = changes_.begin() + static_cast<std::ptrdiff_t>(number - known);
      const auto count = std::min<uint64_t>(number_ - number, kChangesMax);
      answer.changes.assign(from, from + static_cast<std::ptrdiff_t>(count));
      answer.number = number + count;
      return answer;
    }
    answer.number = number_;
  }
  for (std::string& mount : options_.mounts()) {
    answer.changes.push_back({std::move(mount), {}, PeerChange::Kind::kAll});
  }
  return answer;
}

Task<Result<std::optional<PeerChanges>>> ChangeLog::wait_after(Context context, uint64_t number,
                                                               Clock::duration wait) {
  Signal changed;
  std::optional<PeerChanges> answer = after(number, changed);
  if (answer) co_return answer;
  const Context patience = context.with_timeout(wait);
  Result<bool> told = co_await changed->wait(patience, "a change");
  if (told) co_return after(number, changed);
  if (auto alive = context.check("a change"); !alive) co_return Error(alive.error());
  co_return std::nullopt;
}

}  // namespace leat
