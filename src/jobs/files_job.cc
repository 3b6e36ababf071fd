// SPDX-License-Identifier: Apache-2.0
#include "jobs/files_job.h"

#include <fmt/format.h>

#include <stop_token>
#include <utility>

#include "base/counted.h"

namespace leat {
namespace {

// Counting millions of names takes a second.
constexpr uint64_t kCountedInPlace = 10'000;

}  // namespace

// ---- the queue of directories

// The caller holds the mutex.
FoundDirectories::Bell FoundDirectories::hang(Bell& bell) {
  if (!bell) bell = SharedResult<bool>::make();
  return bell;
}

void FoundDirectories::ring(Bell& bell) {
  if (const Bell rung = std::exchange(bell, nullptr)) rung->set(true);
}

Task<Result<>> FoundDirectories::put(Context context, Item item) {
  while (true) {
    Bell room;
    {
      std::lock_guard lock(mutex_);
      if (items_.size() < kDirectoriesMax) {
        const uint64_t names = item.listing->size_hint();
        if (names_held_ > 0 && names_held_ + names > kNamesHeldMax) {
          item.listing = nullptr;
        } else {
          names_held_ += names;
        }
        items_.push_back(std::move(item));
        ring(filled_);
        co_return Result<>();
      }
      room = hang(emptied_);
    }
    Result<bool> rung = co_await room->wait(context, "the walk of a job");
    if (!rung) co_return Error(rung.error());
  }
}

void FoundDirectories::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  ring(filled_);
}

Task<std::optional<FoundDirectories::Item>> FoundDirectories::take() {
  while (true) {
    Bell more;
    {
      std::lock_guard lock(mutex_);
      if (!items_.empty()) {
        Item item = std::move(items_.front());
        items_.pop_front();
        if (item.listing) names_held_ -= item.listing->size_hint();
        ring(emptied_);
        co_return item;
      }
      if (closed_) co_return std::nullopt;
      more = hang(filled_);
    }
    // The walk always ends, and then closes the queue.
    Result<bool> rung = co_await more->wait(Context::background(), "the walk of a job");
    LEAT_CHECK(rung.has_value());
  }
}

// ---- the job

Task<> FilesJob::walk(Context context, Activity& activity) {
  FoundDirectories found;
  Activity planning;
  std::stop_source enough;
  const std::stop_callback cancelled(context.cancel, [&enough] { enough.request_stop(); });
  const Context ahead = context.with_cancel(enough.get_token());
  executor_.spawn(plan(*planning.enter(), ahead, &activity, &found));
  planning.close();
  while (true) {
    std::optional<FoundDirectories::Item> next = co_await found.take();
    if (!next) break;
    if (enough.stop_requested()) continue;
    const bool goes_on = co_await begin(context, *std::move(next));
    if (!goes_on) enough.request_stop();
  }
  co_await planning.wait_idle();
}

Task<> FilesJob::plan(Activity::Token, Context context, Activity* activity,
                      FoundDirectories* found) {
  TreeWalk tree(catalog_, executor_, *activity, path(), filter_);
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
    Result<> kept =
        co_await found->put(context, {std::move(step->path), *std::move(step->listing)});
    if (!kept) break;
  }
  found->close();
}

Task<> FilesJob::add_to_totals(std::string directory, ListingPtr listing) {
  const ChosenFiles chosen(filter_, path(), directory);
  auto counting = [this, listing, &chosen] { return count(*listing, chosen); };
  JobProgress found;
  if (listing->size_hint() > kCountedInPlace) {
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
  const uint64_t unnameable = listing->left_out();
  if (unnameable == 0) co_return;
  if (unnameable_ == Unnameable::kSkipped) {
    note_skipped({directory, unnameable, std::string(listing->left_out_example())});
    co_return;
  }
  note_error(directory, Status(StatusCode::kUnsupported,
                               fmt::format("left out {} in '{}', which cannot be names of files",
                                           counted(unnameable, "key"), directory)));
}

Task<bool> FilesJob::begin(Context context, FoundDirectories::Item item) {
  if (!item.listing) {
    Result<ListingPtr> again = co_await catalog_.list(context, item.path);
    if (!again) {
      note_error(item.path, again.error());
      co_return !context.cancelled();
    }
    item.listing = *std::move(again);
  }
  const ChosenFiles chosen(filter_, path(), item.path);
  co_return co_await begin_files(context, item.path, std::move(item.listing), &chosen);
}

}  // namespace leat
