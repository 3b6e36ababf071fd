// SPDX-License-Identifier: Apache-2.0
#include "jobs/per_file_job.h"

#include <fmt/format.h>

#include <stop_token>
#include <utility>

#include "base/pluralize.h"

namespace leat {
namespace {

// Counting millions of names takes a second.
constexpr uint64_t kInlineCountMax = 10'000;

}  // namespace

// ---- the queue of directories

// The caller holds the mutex.
DirectoryQueue::WaiterPtr DirectoryQueue::add_waiter(WaiterPtr& waiter) {
  if (!waiter) waiter = SharedPromise<bool>::make();
  return waiter;
}

void DirectoryQueue::wake(WaiterPtr& waiter) {
  if (const WaiterPtr woken = std::exchange(waiter, nullptr)) woken->set(true);
}

Task<Result<>> DirectoryQueue::put(Context context, Item item) {
  while (true) {
    WaiterPtr waiter;
    {
      std::lock_guard lock(mutex_);
      if (items_.size() < kDirectoriesMax) {
        const uint64_t names = item.listing->size_hint();
        if (names_ > 0 && names_ + names > kNamesMax) {
          item.listing = nullptr;
        } else {
          names_ += names;
        }
        items_.push_back(std::move(item));
        wake(not_empty_);
        co_return Result<>();
      }
      waiter = add_waiter(not_full_);
    }
    Result<bool> woken = co_await waiter->wait(context, "the walk of a job");
    if (!woken) co_return Error(woken.error());
  }
}

void DirectoryQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  wake(not_empty_);
}

Task<std::optional<DirectoryQueue::Item>> DirectoryQueue::take() {
  while (true) {
    WaiterPtr more;
    {
      std::lock_guard lock(mutex_);
      if (!items_.empty()) {
        Item item = std::move(items_.front());
        items_.pop_front();
        if (item.listing) names_ -= item.listing->size_hint();
        wake(not_full_);
        co_return item;
      }
      if (closed_) co_return std::nullopt;
      more = add_waiter(not_empty_);
    }
    // The walk always ends, and then closes the queue.
    Result<bool> woken = co_await more->wait(Context::background(), "the walk of a job");
    LEAT_CHECK(woken.has_value());
  }
}

// ---- the job

Task<> PerFileJob::walk(Context context, Gate& gate) {
  DirectoryQueue queue;
  Gate planning;
  std::stop_source enough;
  const std::stop_callback cancelled(context.cancel, [&enough] { enough.request_stop(); });
  const Context ahead = context.with_cancel(enough.get_token());
  executor_.spawn(plan(*planning.enter(), ahead, &gate, &queue));
  planning.close();
  while (true) {
    std::optional<DirectoryQueue::Item> next = co_await queue.take();
    if (!next) break;
    if (enough.stop_requested()) continue;
    const bool continues = co_await begin(context, *std::move(next));
    if (!continues) enough.request_stop();
  }
  co_await planning.wait_idle();
}

Task<> PerFileJob::plan(Gate::Holder, Context context, Gate* gate, DirectoryQueue* queue) {
  TreeWalk tree(catalog_, executor_, *gate, path(), filter_);
  while (!context.cancelled()) {
    std::optional<TreeWalk::Step> step = co_await tree.next(context);
    if (!step) {
      update([](JobProgress& progress) { progress.planned = true; });
      break;
    }
    if (context.cancelled()) break;
    if (!step->listing) {
      note_error(step->path, step->listing.error());
      continue;
    }
    co_await add_to_totals(step->path, *step->listing);
    Result<> queued =
        co_await queue->put(context, {std::move(step->path), *std::move(step->listing)});
    if (!queued) break;
  }
  queue->close();
}

Task<> PerFileJob::add_to_totals(std::string directory, ListingPtr listing) {
  const FileSelector selector(filter_, path(), directory);
  auto counting = [this, listing, &selector] { return count(*listing, selector); };
  JobProgress found;
  if (listing->size_hint() > kInlineCountMax) {
    found = co_await executor_.blocking(std::move(counting));
  } else {
    found = counting();
  }
  update([&](JobProgress& progress) {
    progress.files_total += found.files_total;
    progress.bytes_total += found.bytes_total;
    progress.files_uncached += found.files_uncached;
    progress.bytes_uncached += found.bytes_uncached;
  });
  const uint64_t unnameable = listing->skipped();
  if (unnameable == 0) co_return;
  if (unnameable_ == Unnameable::kSkipped) {
    note_skipped({directory, unnameable, std::string(listing->skipped_example())});
    co_return;
  }
  note_error(directory, Status(StatusCode::kUnsupported,
                               fmt::format("skipped {} in '{}', which cannot be names of files",
                                           pluralize(unnameable, "key"), directory)));
}

Task<bool> PerFileJob::begin(Context context, DirectoryQueue::Item item) {
  if (!item.listing) {
    Result<ListingPtr> again = co_await catalog_.list(context, item.path);
    if (!again) {
      note_error(item.path, again.error());
      co_return !context.cancelled();
    }
    item.listing = *std::move(again);
  }
  const FileSelector selector(filter_, path(), item.path);
  co_return co_await begin_files(context, item.path, std::move(item.listing), &selector);
}

}  // namespace leat
