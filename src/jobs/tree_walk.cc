// SPDX-License-Identifier: Apache-2.0
#include "jobs/tree_walk.h"

#include <algorithm>
#include <memory>
#include <ranges>
#include <utility>

#include "model/mount_entry.h"

namespace leat {
namespace {

constexpr size_t kListingsAhead = 32;
// Names searched for the next directory without leaving the thread.
constexpr uint64_t kInlineSearchMax = 10'000;

// The catalog caches the listing; the result is dropped here.
Task<> list_ahead(Gate::Holder holder, Catalog* catalog, Context context, std::string path) {
  auto listing = co_await catalog->list(std::move(context), std::move(path));
  holder = {};
}

}  // namespace

TreeWalk::TreeWalk(Catalog& catalog, Executor& executor, Gate& gate, std::string root,
                   FileFilter filter)
    : catalog_(catalog),
      executor_(executor),
      gate_(gate),
      root_(std::move(root)),
      filter_(std::move(filter)) {}

void TreeWalk::Level::fill(const FileFilter& filter, std::string_view root) {
  while (next.size() <= kListingsAhead && cursor.next()) {
    if (!cursor.view().is_directory()) continue;
    std::string below = join_path(path, cursor.view().name);
    if (filter.may_hold(path_below(below, root))) next.push_back({std::move(below)});
  }
}

FileSelector::FileSelector(const FileFilter& filter, std::string_view root,
                           std::string_view directory)
    : filter_(filter) {
  // A root that is a file is alone in its directory's listing, and keeps its own name.
  if (is_at_or_below(directory, root)) prefix_ = path_below(directory, root);
  if (!prefix_.empty()) prefix_ += '/';
}

bool FileSelector::matches(std::string_view name) const {
  return filter_.everything() || filter_.matches(prefix_ + std::string(name));
}

Task<std::optional<TreeWalk::Step>> TreeWalk::next(Context context) {
  if (!begun_) {
    begun_ = true;
    std::optional<Step> first = co_await begin(context);
    if (first) co_return first;
  }
  const bool another = co_await more();
  if (!another) co_return std::nullopt;
  std::string path = take_next();
  start_listings_ahead(context);
  Result<ListingPtr> listing = co_await catalog_.list(context, path);
  if (listing) levels_.push_back({path, *listing, (*listing)->from(0), {}});
  co_return Step{std::move(path), std::move(listing)};
}

Task<bool> TreeWalk::more() {
  auto seek_next = [this] { return seek(); };
  if (!levels_.empty() && levels_.back().listing->size_hint() > kInlineSearchMax) {
    co_return co_await executor_.blocking(std::move(seek_next));
  }
  co_return seek_next();
}

// Returns a step if `root_` is no directory.
Task<std::optional<TreeWalk::Step>> TreeWalk::begin(Context context) {
  Result<CatalogEntry> entry = co_await catalog_.lookup(context, root_);
  if (!entry) co_return Step{root_, Error(entry.error())};
  if (entry->info.is_directory()) {
    first_.push_back({root_});
    co_return std::nullopt;
  }
  size_t slash = root_.rfind('/');
  const Clock::time_point fresh_until = entry->fresh_until;
  entry->info.name = root_.substr(slash + 1);
  std::vector<CatalogEntry> itself;
  itself.push_back(*std::move(entry));
  co_return Step{root_.substr(0, std::max<size_t>(slash, 1)),
                 Listing::of(std::move(itself), fresh_until)};
}

// Returns whether a directory is next.
bool TreeWalk::seek() {
  while (first_.empty() && !levels_.empty()) {
    Level& level = levels_.back();
    level.fill(filter_, root_);
    if (!level.next.empty()) return true;
    levels_.pop_back();
  }
  return !first_.empty();
}

std::string TreeWalk::take_next() {
  std::deque<Pending>& all = first_.empty() ? levels_.back().next : first_;
  std::string path = std::move(all.front().path);
  all.pop_front();
  return path;
}

void TreeWalk::start_listings_ahead(const Context& context) {
  size_t ahead = 0;
  for (Level& level : levels_ | std::views::reverse) {
    for (Pending& next : level.next) {
      if (ahead++ == kListingsAhead) return;
      if (next.requested) continue;
      next.requested = true;
      auto holder = gate_.enter();
      if (!holder) return;
      executor_.spawn(list_ahead(*std::move(holder), &catalog_, context, next.path));
    }
  }
}

}  // namespace leat
