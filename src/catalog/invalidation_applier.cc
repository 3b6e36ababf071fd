// SPDX-License-Identifier: Apache-2.0
#include "catalog/invalidation_applier.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "model/mount_entry.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr Clock::duration kListTimeout = std::chrono::seconds(30);

// Returns the cached directories that a batch of changes names, in order of use.
std::vector<std::string> affected_directories(const std::vector<std::string>& known,
                                              const std::vector<InvalidatedPath>& changes) {
  std::set<std::string_view> alone, whole;
  for (const InvalidatedPath& change : changes) (change.all ? whole : alone).insert(change.path);
  std::vector<std::string> all;
  for (const std::string& path : known) {
    const bool below = std::ranges::any_of(
        whole, [&](std::string_view above) { return is_at_or_below(path, above); });
    if (below || alone.contains(path)) all.push_back(path);
  }
  return all;
}

}  // namespace

void InvalidationApplier::apply(const std::vector<InvalidatedPath>& changes) {
  if (changes.empty()) return;
  // One pass over all cached directories, however many changes there are.
  const std::vector<std::string> batch =
      affected_directories(catalog_.directories_by_use("/"), changes);
  for (const InvalidatedPath& change : changes) {
    if (change.all) {
      catalog_.invalidate(change.path);
    } else {
      catalog_.expire(change.path);
    }
  }
  const std::optional<Gate::Holder> token = gate_.enter();
  if (!token) return;
  size_t started = 0;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    std::deque<std::string> first;
    std::set<std::string_view> again;
    for (const std::string& path : batch) {
      first.push_back(path);
      if (!pending_set_.insert(path).second) again.insert(path);
    }
    std::erase_if(pending_, [&](const std::string& path) { return again.contains(path); });
    pending_.insert(pending_.begin(), first.begin(), first.end());
    started = std::min(kConcurrentListings - listings_in_flight_, pending_.size());
    listings_in_flight_ += started;
  }
  for (; started > 0; --started) executor_.spawn(list_pending(token->another(), this));
}

std::optional<std::string> InvalidationApplier::next() {
  std::lock_guard lock(mutex_);
  if (pending_.empty()) {
    --listings_in_flight_;
    return std::nullopt;
  }
  std::string path = std::move(pending_.front());
  pending_.pop_front();
  pending_set_.erase(path);
  return path;
}

Task<> InvalidationApplier::list_pending(Gate::Holder, InvalidationApplier* self) {
  const Context context = Context::background().with_cancel(self->stopping_.get_token());
  while (std::optional<std::string> path = self->next()) {
    Result<ListingPtr> listed =
        co_await self->catalog_.list(context.with_timeout(kListTimeout), *path);
    if (!listed && !context.cancelled()) {
      log::info("{}: {}", *path, listed.error().to_string());
    }
  }
}

void InvalidationApplier::close() {
  gate_.close();
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    pending_.clear();
    pending_set_.clear();
  }
  stopping_.request_stop();  // last: a woken task finds nothing more to list
}

Task<> InvalidationApplier::stop() {
  close();
  co_await gate_.wait_idle();
}

}  // namespace leat
