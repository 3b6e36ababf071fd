// SPDX-License-Identifier: Apache-2.0
#include "jobs/tree_walk.h"

#include <algorithm>
#include <memory>
#include <ranges>
#include <utility>

namespace leat {
namespace {

constexpr size_t kListingsAhead = 4;

// The catalog keeps the listing; here it is dropped.
Task<> list_ahead(Activity::Token token, Catalog* catalog, Context context, std::string path) {
  auto listing = co_await catalog->list(std::move(context), std::move(path));
  token = {};
}

}  // namespace

std::string join_path(const std::string& directory, const std::string& name) {
  return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

TreeWalk::TreeWalk(Catalog& catalog, Executor& executor, Activity& activity, std::string root)
    : catalog_(catalog), executor_(executor), activity_(activity), root_(std::move(root)) {}

Task<std::optional<TreeWalk::Step>> TreeWalk::next(Context context) {
  if (!begun_) {
    begun_ = true;
    std::optional<Step> first = co_await begin(context);
    if (first) co_return first;
  }
  if (pending_.empty()) co_return std::nullopt;
  ask_ahead(context);
  std::string path = std::move(pending_.back().path);
  pending_.pop_back();
  Result<ListingPtr> listing = co_await catalog_.list(context, path);
  if (listing) {
    for (const CatalogEntry& entry : std::views::reverse((*listing)->entries)) {
      if (entry.info.is_directory()) pending_.push_back({join_path(path, entry.info.name)});
    }
  }
  co_return Step{std::move(path), std::move(listing)};
}

// A step when `root_` is no directory.
Task<std::optional<TreeWalk::Step>> TreeWalk::begin(Context context) {
  Result<CatalogEntry> entry = co_await catalog_.lookup(context, root_);
  if (!entry) co_return Step{root_, Error(entry.error())};
  if (entry->info.is_directory()) {
    pending_.push_back({root_});
    co_return std::nullopt;
  }
  size_t slash = root_.rfind('/');
  auto alone = std::make_shared<Listing>();
  alone->fresh_until = entry->fresh_until;
  entry->info.name = root_.substr(slash + 1);
  alone->entries.push_back(*std::move(entry));
  co_return Step{root_.substr(0, std::max<size_t>(slash, 1)), ListingPtr(std::move(alone))};
}

void TreeWalk::ask_ahead(const Context& context) {
  const size_t ahead = std::min(kListingsAhead, pending_.size() - 1);
  for (Pending& next : std::views::reverse(pending_) | std::views::drop(1) |
                           std::views::take(static_cast<ptrdiff_t>(ahead))) {
    if (next.asked) continue;
    next.asked = true;
    auto token = activity_.enter();
    if (!token) return;
    executor_.spawn(list_ahead(*std::move(token), &catalog_, context, next.path));
  }
}

}  // namespace leat
