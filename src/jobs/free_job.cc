// SPDX-License-Identifier: Apache-2.0
#include "jobs/free_job.h"

#include <optional>
#include <utility>

#include "jobs/tree_walk.h"

namespace leat {
namespace {

// Dropped in one go on the blocking pool, since each may unlink a file.
constexpr size_t kBatchFiles = 256;

}  // namespace

FreeJob::FreeJob(uint64_t id, std::string path, FileFilter filter, Catalog& catalog,
                 Fetcher& fetcher, PageStore& store, Executor& executor)
    : Job(id, JobKind::kFree, std::move(path)),
      filter_(std::move(filter)),
      catalog_(catalog),
      fetcher_(fetcher),
      store_(store),
      executor_(executor) {}

Task<> FreeJob::work(Context context) {
  TreeWalk walk(catalog_, executor_, activity_, path(), filter_);
  while (!context.cancelled()) {
    std::optional<TreeWalk::Step> step = co_await walk.next(context);
    if (!step) {
      update([](JobProgress& progress) { progress.planned = true; });
      break;
    }
    if (step->listing) {
      co_await free_listing(context, step->path, *step->listing);
    } else {
      note_error(step->path, step->listing.error());
    }
  }
  activity_.close();
  co_await activity_.wait_idle();
}

Task<> FreeJob::free_listing(Context context, std::string directory, ListingPtr listing) {
  const ChosenFiles chosen(filter_, path(), directory);
  auto wanted = [&chosen](const NameView& name) {
    return !name.is_directory() && chosen.contain(name.name);
  };
  auto count = [listing, &wanted] {
    uint64_t files = 0;
    for (Listing::Cursor cursor = listing->from(0); cursor.next();) {
      files += wanted(cursor.view()) ? 1 : 0;
    }
    return files;
  };
  const uint64_t files = co_await executor_.blocking(std::move(count));
  update([&](JobProgress& progress) { progress.files_total += files; });
  Listing::Cursor cursor = listing->from(0);
  for (bool more = true; more && !context.cancelled();) {
    auto drop_batch = [this, &cursor, &more, &wanted] {
      JobProgress done;
      while (done.files_done < kBatchFiles && (more = cursor.next())) {
        if (!wanted(cursor.view())) continue;
        const FileRefPtr ref = cursor.entry().ref;
        // Memory last: a reader in between finds the bytes there rather than fetching them.
        done.bytes_done += store_.drop(ref->id);
        fetcher_.forget(ref->id);
        ++done.files_done;
      }
      return done;
    };
    JobProgress done = co_await executor_.blocking(std::move(drop_batch));
    update([&](JobProgress& progress) {
      progress.files_done += done.files_done;
      progress.bytes_done += done.bytes_done;
      progress.bytes_total = progress.bytes_done;
    });
  }
}

}  // namespace leat
