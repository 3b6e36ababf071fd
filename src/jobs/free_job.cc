// SPDX-License-Identifier: Apache-2.0
#include "jobs/free_job.h"

#include <optional>
#include <utility>

#include "jobs/tree_walk.h"

namespace leat {
namespace {

// Dropped in one call.
constexpr size_t kBatchFiles = 256;

}  // namespace

FreeJob::FreeJob(uint64_t id, std::string path, FileFilter filter, Catalog& catalog,
                 JobCache& cache, Executor& executor)
    : Job(id, JobKind::kFree, std::move(path)),
      filter_(std::move(filter)),
      catalog_(catalog),
      cache_(cache),
      executor_(executor) {}

Task<> FreeJob::work(Context context) {
  TreeWalk walk(catalog_, executor_, gate_, path(), filter_);
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
  gate_.close();
  co_await gate_.wait_idle();
}

Task<> FreeJob::free_listing(Context context, std::string directory, ListingPtr listing) {
  const FileSelector selector(filter_, path(), directory);
  auto wanted = [&selector](const NameView& name) {
    return !name.is_directory() && selector.matches(name.name);
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
    auto take_batch = [&cursor, &more, &wanted] {
      std::vector<FileRefPtr> files;
      while (files.size() < kBatchFiles && (more = cursor.next())) {
        if (wanted(cursor.view())) files.push_back(cursor.entry().ref);
      }
      return files;
    };
    std::vector<FileRefPtr> batch = co_await executor_.blocking(std::move(take_batch));
    const size_t dropped = batch.size();
    if (dropped == 0) continue;
    Result<uint64_t> bytes = co_await cache_.drop(context, std::move(batch));
    if (!bytes) {
      // An error of a worker would repeat for each directory, so it is noted for the job's path.
      note_error(path(), bytes.error());
      continue;
    }
    update([&](JobProgress& progress) {
      progress.files_done += dropped;
      progress.bytes_done += *bytes;
      progress.bytes_total = progress.bytes_done;
    });
  }
}

}  // namespace leat
