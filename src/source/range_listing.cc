// SPDX-License-Identifier: Apache-2.0
// Invariant: the ranges (after, end] that wait or are listed are disjoint, and together with the
// listed keys they cover the prefix.
#include "source/range_listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include "runtime/semaphore.h"
#include "runtime/shared_promise.h"

namespace leat {
namespace {

// Positions of a name that are looked at, and keys that one page is divided by.
constexpr size_t kPositionsMax = 256;
constexpr size_t kSplitsMax = 64;

using Bytes256 = std::bitset<256>;

std::string_view name_of(std::string_view key, size_t prefix) {
  std::string_view name = key.substr(std::min(prefix, key.size()));
  if (name.ends_with('/')) name.remove_suffix(1);
  return name;
}

// Returns the bytes of all positions at which the names of the page differ.
Bytes256 varying_bytes(const ListPage& page, size_t prefix) {
  std::vector<Bytes256> at;
  for (const SourceObject& object : page.objects) {
    const std::string_view name = name_of(object.key, prefix).substr(0, kPositionsMax);
    if (at.size() < name.size()) at.resize(name.size());
    for (size_t i = 0; i < name.size(); ++i) at[i].set(static_cast<uint8_t>(name[i]));
  }
  Bytes256 varying;
  for (const Bytes256& bytes : at) {
    if (bytes.count() > 1) varying |= bytes;
  }
  return varying;
}

// The part of `page` up to `end`. Returns whether something was cut off.
bool cut(ListPage& page, const std::string& end) {
  if (end.empty()) return false;
  const auto behind = std::ranges::upper_bound(page.objects, end, {}, &SourceObject::key);
  if (behind == page.objects.end() && page.next_token <= end) return false;
  page.objects.erase(behind, page.objects.end());
  // The next range counts them, too.
  if (page.skipped_example > end) page.skipped = 0;
  return true;
}

class RangeListing : public std::enable_shared_from_this<RangeListing> {
 public:
  RangeListing(Context context, SourcePtr source, ListRequest request, Executor& executor,
               std::function<Task<Result<>>(ListPage)> add, RangeListingOptions options)
      : stop_(context.cancel, [this] { failed_.request_stop(); }),
        context_(context.with_cancel(failed_.get_token())),
        source_(std::move(source)),
        request_(std::move(request)),
        executor_(executor),
        add_(std::move(add)),
        options_(options) {}

  Task<Result<>> run() {
    Range rest;
    for (unsigned pages = 1;; ++pages) {
      LEAT_CO_TRY(ListPage page, co_await list(rest));
      rest.after = page.next_token;
      const bool splits =
          pages >= options_.pages_in_order && source_->capabilities().lists_from_any_key;
      if (splits && !rest.after.empty()) waiting_ = divide(rest, page);
      LEAT_CO_CHECK_OK(co_await add_(std::move(page)));
      if (rest.after.empty()) co_return Result<>();
      if (splits) break;
    }
    begin_more();
    Result<bool> ended = co_await ended_->wait(Context::background(), "a listing");
    if (!ended) co_return Error(ended.error());
    co_return Result<>();
  }

 private:
  struct Range {
    std::string after;
    std::string end;  // inclusive; empty: to the end of the prefix
  };

  Task<Result<ListPage>> list(const Range& range) {
    ListRequest request = request_;
    request.token = range.after;
    Result<ListPage> page = co_await source_->list(context_, std::move(request));
    if (page && !page->next_token.empty() && page->next_token == range.after) {
      co_return error(
          StatusCode::kInternal,
          fmt::format(
              "{} returned, for the listing of '{}', the same page token twice; the listing "
              "would never end",
              source_->name(), request_.prefix));
    }
    co_return page;
  }

  std::vector<Range> divide(const Range& range, const ListPage& page) const {
    std::vector<Range> parts;
    std::string after = range.after;
    for (std::string& key : split_keys(request_.prefix, page, range.end)) {
      parts.push_back({std::exchange(after, key), key});
    }
    parts.push_back({std::move(after), range.end});
    // Taken from the back.
    std::ranges::reverse(parts);
    return parts;
  }

  // Starts as many ranges as allowed; the last one to end completes the listing.
  void begin_more() {
    std::vector<Range> begun;
    std::optional<Result<bool>> end;
    {
      std::lock_guard lock(mutex_);
      while (!error_ && running_ < options_.requests_max && !waiting_.empty()) {
        begun.push_back(std::move(waiting_.back()));
        waiting_.pop_back();
        ++running_;
      }
      if (running_ == 0 && !std::exchange(told_, true))
        end = error_ ? Result<bool>(Error(*error_)) : Result<bool>(true);
    }
    for (Range& range : begun) executor_.spawn(walk(shared_from_this(), std::move(range)));
    if (end) ended_->set(*std::move(end));
  }

  static Task<> walk(std::shared_ptr<RangeListing> all, Range range) {
    Result<> listed = co_await all->walk_range(std::move(range));
    {
      std::lock_guard lock(all->mutex_);
      --all->running_;
      if (!listed && !all->error_) all->error_ = listed.error();
    }
    if (!listed) all->failed_.request_stop();
    all->begin_more();
  }

  Task<Result<>> walk_range(Range range) {
    for (;;) {
      LEAT_CO_TRY(ListPage page, co_await list(range));
      const bool last = cut(page, range.end) || page.next_token.empty();
      range.after = page.next_token;
      if (!last) share(range, page);
      Result<Semaphore::Permit> turn = co_await adding_.acquire(context_, 1, "a listing");
      if (!turn) co_return Error(turn.error());
      LEAT_CO_CHECK_OK(co_await add_(std::move(page)));
      if (last) co_return Result<>();
    }
  }

  // Gives all but the first part of the range to others, if these have nothing to do.
  void share(Range& range, const ListPage& page) {
    {
      std::lock_guard lock(mutex_);
      if (running_ >= options_.requests_max || !waiting_.empty()) return;
    }
    std::vector<Range> parts = divide(range, page);
    range = std::move(parts.back());
    parts.pop_back();
    if (parts.empty()) return;
    {
      std::lock_guard lock(mutex_);
      waiting_.insert(waiting_.end(), std::make_move_iterator(parts.begin()),
                      std::make_move_iterator(parts.end()));
    }
    begin_more();
  }

  std::stop_source failed_;
  const std::stop_callback<std::function<void()>> stop_;
  const Context context_;
  const SourcePtr source_;
  const ListRequest request_;
  Executor& executor_;
  const std::function<Task<Result<>>(ListPage)> add_;
  const RangeListingOptions options_;
  Semaphore adding_{1};
  const std::shared_ptr<SharedPromise<bool>> ended_ = SharedPromise<bool>::make();
  std::mutex mutex_;  // leaf
  std::vector<Range> waiting_;
  unsigned running_ = 0;
  std::optional<Status> error_;
  bool told_ = false;
};

}  // namespace

std::vector<std::string> split_keys(const std::string& prefix, const ListPage& page,
                                    const std::string& end) {
  std::vector<std::string> keys;
  if (page.objects.empty() || page.next_token.empty()) return keys;
  const std::string_view first = name_of(page.objects.front().key, prefix.size());
  const std::string_view last = name_of(page.next_token, prefix.size());
  const Bytes256 bytes = varying_bytes(page, prefix.size());
  const auto [in_first, in_last] = std::ranges::mismatch(first, last);
  for (auto at = static_cast<size_t>(in_last - last.begin()) + 1; at-- > 0;) {
    if (at >= last.size()) continue;
    for (unsigned byte = static_cast<uint8_t>(last[at]) + 1u; byte < 256; ++byte) {
      if (!bytes.test(byte)) continue;
      std::string key = prefix + std::string(last.substr(0, at)) + static_cast<char>(byte);
      if (key <= page.next_token) continue;
      if (!end.empty() && key >= end) return keys;
      keys.push_back(std::move(key));
    }
  }
  // The last ones divide the largest part.
  if (keys.size() > kSplitsMax) keys.erase(keys.begin(), keys.end() - kSplitsMax);
  return keys;
}

Task<Result<>> list_in_ranges(Context context, SourcePtr source, ListRequest request,
                              Executor& executor, std::function<Task<Result<>>(ListPage)> add,
                              RangeListingOptions options) {
  auto listing = std::make_shared<RangeListing>(
      std::move(context), std::move(source), std::move(request), executor, std::move(add), options);
  Result<> listed = co_await listing->run();
  co_return listed;
}

}  // namespace leat
