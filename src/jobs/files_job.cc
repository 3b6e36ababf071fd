// SPDX-License-Identifier: Apache-2.0
#include "jobs/files_job.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/counted.h"

namespace leat {
namespace {

// Millions of names take a second to count.
constexpr uint64_t kCountedInPlace = 10'000;

}  // namespace

Task<> FilesJob::walk(Context context, Activity& activity) {
  TreeWalk tree(catalog_, executor_, activity, path(), filter_);
  bool goes_on = true;
  while (goes_on) {
    std::optional<TreeWalk::Step> step = co_await tree.next(context);
    if (!step) {
      update([](JobProgress& progress) { progress.planned = true; });
      co_return;
    }
    const bool more = co_await tree.more();
    if (!step->listing) {
      note_error(step->path, step->listing.error());
      goes_on = !context.cancelled();
      continue;
    }
    goes_on = co_await take(context, step->path, *step->listing, !more);
  }
}

Task<bool> FilesJob::take(Context context, std::string directory, ListingPtr listing, bool last) {
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
    progress.planned = last;
  });
  if (listing->left_out() != 0) {
    note_error(directory, Status(StatusCode::kUnsupported,
                                 fmt::format("left out {} in '{}', which cannot be shown as files",
                                             counted(listing->left_out(), "name"), directory)));
  }
  co_return co_await begin_files(context, std::move(directory), std::move(listing), &chosen);
}

}  // namespace leat
