// SPDX-License-Identifier: Apache-2.0
// Lock order of the semaphores: a slot for the file, then one for the piece. Pieces wait for no
// other slot of the job, so that files with slots always make progress.
#include "jobs/load_job.h"
#include "base/pluralize.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

namespace leat {
namespace {

constexpr uint64_t kPieceBytes = 8 * kMiB;
// Files that are checked when all are loaded; of more, a sample by their ids.
constexpr size_t kCheckedMax = 100'000;
constexpr size_t kConcurrentChecks = 8;

std::vector<ByteRange> pieces_of(const FileRef& file) {
  std::vector<ByteRange> pieces;
  for (uint64_t at = 0; at < file.size; at += kPieceBytes) {
    pieces.push_back({at, std::min(kPieceBytes, file.size - at)});
  }
  return pieces;
}

// Returns whether the mount caches the file in the page store.
bool is_cached_on_disk(const NameView& file) {
  return !file.is_directory() && file.cache == CacheUse::kDisk;
}

}  // namespace

struct LoadJob::Version {
  explicit Version(FileRefPtr of) : ref(std::move(of)) {}

  const FileRefPtr ref;
  Gate pieces;
  std::mutex mutex;  // leaf
  uint64_t bytes_done = 0;
  std::optional<Status> failure;  // the first error

  bool failed() {
    std::lock_guard lock(mutex);
    return failure.has_value();
  }
};

LoadJob::LoadJob(uint64_t id, std::string path, FileFilter filter, Catalog& catalog,
                 JobCache& cache, Executor& executor, LoadOptions options)
    : PerFileJob(id, JobKind::kLoad, std::move(path), std::move(filter), catalog, executor),
      cache_(cache),
      options_(options),
      files_(options.files_max),
      pieces_(options.pieces_max),
      verified_(options.verified_max),
      limiter_(options.bandwidth) {
  update([&](JobProgress& progress) { progress.background = options_.background; });
}

Task<> LoadJob::work(Context context) {
  for (unsigned round = 1;; ++round) {
    co_await load_all(context);
    if (context.cancelled() || full_.stop_requested() || options_.background) co_return;
    const JobProgress evicted = co_await count_evicted(context);
    if (evicted.files_total == 0 || context.cancelled()) co_return;
    if (round >= options_.rounds_max) {
      note_evicted(evicted);
      co_return;
    }
    clear_findings();
    update([](JobProgress& progress) {
      progress.planned = false;
      progress.files_total = progress.files_done = progress.files_uncached = 0;
      progress.bytes_total = progress.bytes_done = progress.bytes_uncached = 0;
    });
  }
}

Task<> LoadJob::load_all(Context context) {
  gate_ = std::make_unique<Gate>();
  co_await walk(context, *gate_);
  gate_->close();
  co_await gate_->wait_idle();
}

// The cache evicts rather than rejects. So a load of more than it holds causes no error until this
// check.
Task<JobProgress> LoadJob::count_evicted(Context context) {
  JobProgress evicted;
  Gate checks;
  for (size_t first = 0; first < kConcurrentChecks; ++first) {
    executor().spawn(check_loaded(*checks.enter(), context, first, &evicted));
  }
  checks.close();
  co_await checks.wait_idle();
  evicted.files_total *= loaded_share_;
  evicted.bytes_total *= loaded_share_;
  loaded_.clear();
  co_return evicted;
}

void LoadJob::note_evicted(const JobProgress& evicted) {
  update([&](JobProgress& progress) {
    progress.files_done -= std::min(evicted.files_total, progress.files_done);
    progress.bytes_done -= std::min(evicted.bytes_total, progress.bytes_done);
  });
  note_error(path(), Status(StatusCode::kNoSpace,
                            fmt::format("the cache does not hold all of '{}': of {}{} {} are "
                                        "missing again; make it larger, or load less",
                                        path(), loaded_share_ > 1 ? "about " : "",
                                        pluralize(evicted.files_total, "file"),
                                        format_bytes(evicted.bytes_total))));
}

// Checks every kConcurrentChecks-th of the loaded files.
Task<> LoadJob::check_loaded(Gate::Holder, Context context, size_t first, JobProgress* evicted) {
  for (size_t at = first; at < loaded_.size() && !context.cancelled(); at += kConcurrentChecks) {
    const FileRefPtr ref = loaded_[at];
    uint64_t missing = 0;
    for (ByteRange piece : pieces_of(*ref)) {
      Result<uint64_t> bytes = co_await cache_.missing(context, ref, piece);
      if (bytes) missing += *bytes;
    }
    if (missing == 0) continue;
    std::lock_guard lock(mutex_);
    ++evicted->files_total;
    evicted->bytes_total += missing;
  }
}

JobProgress LoadJob::count(const Listing& listing, const FileSelector& selector) const {
  JobProgress found;
  for (Listing::Cursor cursor = listing.from(0); cursor.next();) {
    const NameView& file = cursor.view();
    if (file.is_directory() || !selector.matches(file.name)) continue;
    const bool kept = is_cached_on_disk(file);
    ++(kept ? found.files_total : found.files_uncached);
    (kept ? found.bytes_total : found.bytes_uncached) += file.size;
  }
  return found;
}

Task<bool> LoadJob::begin_files(Context context, std::string directory, ListingPtr listing,
                                const FileSelector* selector) {
  for (Listing::Cursor cursor = listing->from(0); cursor.next();) {
    if (!is_cached_on_disk(cursor.view()) || !selector->matches(cursor.view().name)) continue;
    if (options_.background) {
      // The capacity follows the free space of the disks.
      const uint64_t capacity = cache_.capacity_bytes(), size = cursor.view().size;
      if (begun_bytes_ + size > capacity - capacity / 10) {
        // Near the end the walk over the names that are left is in vain.
        if (begun_bytes_ >= capacity - capacity / 8) co_return false;
        continue;
      }
      begun_bytes_ += size;
    }
    auto slot = co_await files_.acquire(context, 1, "a load");
    if (!slot || context.cancelled() || full_.stop_requested()) co_return false;
    auto holder = gate_->enter();
    executor().spawn(load_file(*std::move(holder), *std::move(slot), context,
                               join_path(directory, cursor.view().name), cursor.entry().ref));
  }
  co_return true;
}

Task<> LoadJob::load_file(Gate::Holder holder, Semaphore::Permit slot, Context context,
                          std::string path, FileRefPtr ref) {
  FileRefPtr now = ref;
  Result<> loaded = co_await load_version(context, now);
  if (!loaded && loaded.error().code() == StatusCode::kVersionChanged) {
    loaded = co_await load_again(context, path, now);
  }
  if (loaded && options_.verify) loaded = co_await verify_version(context, now);
  if (loaded) {
    update([](JobProgress& progress) { ++progress.files_done; });
  } else if (options_.background && loaded.error().code() == StatusCode::kNoSpace) {
    // Another load, or the readers, need the space.
  } else if (loaded.error().code() != StatusCode::kCancelled || !full_.stop_requested()) {
    note_failed_file(std::move(path), std::move(loaded).error());
  }
}

// The file changed during the load: retries once with its present version, and stores that in
// `ref`.
Task<Result<>> LoadJob::load_again(Context context, std::string path, FileRefPtr& ref) {
  catalog().report_changed(path);
  Result<CatalogEntry> entry = co_await catalog().lookup_for_open(context, path);
  if (!entry) co_return Error(entry.error());
  if (entry->ref == nullptr) {
    co_return error(StatusCode::kIsDirectory,
                    fmt::format("'{}' was a file when the load began and is a directory now; load "
                                "it again",
                                path));
  }
  update([&](JobProgress& progress) { progress.bytes_total += entry->ref->size - ref->size; });
  ref = entry->ref;
  co_return co_await load_version(context, ref);
}

Task<Result<>> LoadJob::load_version(Context context, FileRefPtr ref) {
  Version version(ref);
  Result<> admitted;
  for (const ByteRange piece : pieces_of(*ref)) {
    if (version.failed()) break;
    auto slot = co_await pieces_.acquire(context, 1, "a load");
    if (!slot) {
      admitted = Error(slot.error());
      break;
    }
    auto holder = version.pieces.enter();
    Task<> loading = load_piece(*std::move(holder), *std::move(slot), context, &version, piece);
    if (piece.end() == ref->size) {
      co_await std::move(loading);  // small files need no second task
    } else {
      executor().spawn(std::move(loading));
    }
  }
  version.pieces.close();
  co_await version.pieces.wait_idle();
  if (admitted && !version.failure) {
    note_loaded(std::move(ref));
    co_return Result<>();
  }
  // A file of which a part is missing does not count as done.
  update([&](JobProgress& progress) { progress.bytes_done -= version.bytes_done; });
  if (version.failure) co_return Error(*version.failure);
  co_return admitted;
}

Task<Result<>> LoadJob::verify_version(Context context, FileRefPtr ref) {
  for (const ByteRange piece : pieces_of(*ref)) {
    auto slot = co_await verified_.acquire(context, 1, "a load");
    if (!slot) co_return Error(slot.error());
    Result<uint64_t> fetched = co_await cache_.verify_range(context, ref, piece);
    if (!fetched) co_return Error(fetched.error());
    update([&](JobProgress& progress) {
      progress.bytes_fetched += *fetched;
      progress.bytes_verified += piece.size;
    });
  }
  co_return Result<>();
}

// Waits until the missing bytes of the pieces before have passed.
Task<Result<>> LoadJob::wait_for_bandwidth(Context context, FileRefPtr ref, ByteRange piece) {
  if (!limiter_.limited()) co_return Result<>();
  Result<uint64_t> missing = co_await cache_.missing(context, ref, piece);
  if (!missing) co_return Error(missing.error());
  co_return co_await limiter_.acquire(context, *missing);
}

void LoadJob::note_loaded(FileRefPtr ref) {
  std::lock_guard lock(mutex_);
  auto drawn = [this](const FileRefPtr& one) { return one->id.hash64() % loaded_share_ == 0; };
  if (drawn(ref)) loaded_.push_back(std::move(ref));
  if (loaded_.size() < kCheckedMax) return;
  loaded_share_ *= 2;
  std::erase_if(loaded_, [&](const FileRefPtr& one) { return !drawn(one); });
}

Task<> LoadJob::load_piece(Gate::Holder holder, Semaphore::Permit slot, Context context,
                           Version* version, ByteRange piece) {
  Result<uint64_t> fetched = error(StatusCode::kCancelled, "the cache is full");
  if (!full_.stop_requested()) {
    Result<> admitted = co_await wait_for_bandwidth(context, version->ref, piece);
    if (admitted) {
      fetched = co_await cache_.ensure(context, version->ref, piece);
    } else {
      fetched = Error(admitted.error());
    }
  }
  if (!fetched) {
    if (fetched.error().code() == StatusCode::kNoSpace) note_rejection();
    std::lock_guard lock(version->mutex);
    if (!version->failure) version->failure = std::move(fetched).error();
    co_return;
  }
  rejections_ = 0;
  update([&](JobProgress& progress) {
    progress.bytes_done += piece.size;
    progress.bytes_fetched += *fetched;
  });
  std::lock_guard lock(version->mutex);
  version->bytes_done += piece.size;
}

void LoadJob::note_rejection() {
  if (++rejections_ < options_.rejections_max || !full_.request_stop()) return;
  if (options_.background) return;
  note_error(path(),
             Status(StatusCode::kNoSpace,
                    fmt::format("the load of '{}' was ended: the cache had no space {} times "
                                "in a row; make it larger, free something, or load less",
                                path(), options_.rejections_max)));
}

}  // namespace leat
