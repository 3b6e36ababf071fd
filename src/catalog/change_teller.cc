// SPDX-License-Identifier: Apache-2.0
#include "catalog/change_teller.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "model/mount_entry.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr Clock::duration kPatience = std::chrono::seconds(30);

// Returns the cached directories that a batch of changes names, in order of use.
std::vector<std::string> concerned(const std::vector<std::string>& known,
                                   const std::vector<ToldChange>& changes) {
  std::set<std::string_view> alone, whole;
  for (const ToldChange& change : changes) (change.all ? whole : alone).insert(change.path);
  std::vector<std::string> all;
  for (const std::string& path : known) {
    const bool below = std::ranges::any_of(
        whole, [&](std::string_view above) { return is_at_or_below(path, above); });
    if (below || alone.contains(path)) all.push_back(path);
  }
  return all;
}

}  // namespace

void ChangeTeller::take(const std::vector<ToldChange>& changes) {
  if (changes.empty()) return;
  // One pass over all cached directories, however many changes there are.
  const std::vector<std::string> batch = concerned(catalog_.directories_by_use("/"), changes);
  for (const ToldChange& change : changes) {
    if (change.all) {
      catalog_.invalidate(change.path);
    } else {
      catalog_.expire(change.path);
    }
  }
  const std::optional<Activity::Token> token = activity_.enter();
  if (!token) return;
  size_t begun = 0;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    std::deque<std::string> first;
    std::set<std::string_view> again;
    for (const std::string& path : batch) {
      first.push_back(path);
      if (!known_waiting_.insert(path).second) again.insert(path);
    }
    std::erase_if(waiting_, [&](const std::string& path) { return again.contains(path); });
    waiting_.insert(waiting_.begin(), first.begin(), first.end());
    begun = std::min(kListedAtOnce - listing_, waiting_.size());
    listing_ += begun;
  }
  for (; begun > 0; --begun) executor_.spawn(list_waiting(token->another(), this));
}

std::optional<std::string> ChangeTeller::next() {
  std::lock_guard lock(mutex_);
  if (waiting_.empty()) {
    --listing_;
    return std::nullopt;
  }
  std::string path = std::move(waiting_.front());
  waiting_.pop_front();
  known_waiting_.erase(path);
  return path;
}

Task<> ChangeTeller::list_waiting(Activity::Token, ChangeTeller* self) {
  const Context context = Context::background().with_cancel(self->stopping_.get_token());
  while (std::optional<std::string> path = self->next()) {
    Result<ListingPtr> listed =
        co_await self->catalog_.list(context.with_timeout(kPatience), *path);
    if (!listed && !context.cancelled()) {
      log::info("{}: {}", *path, listed.error().to_string());
    }
  }
}

void ChangeTeller::close() {
  activity_.close();
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    waiting_.clear();
    known_waiting_.clear();
  }
  stopping_.request_stop();  // last: a woken task finds nothing more to list
}

Task<> ChangeTeller::stop() {
  close();
  co_await activity_.wait_idle();
}

}  // namespace leat
