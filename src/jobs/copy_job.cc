// SPDX-License-Identifier: Apache-2.0
#include "jobs/copy_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "model/mount_entry.h"
#include "model/store_url.h"

namespace leat {
namespace {

constexpr uint64_t kPieceBytes = 8 * kMiB;
// Attempts for one file if its worker is lost.
constexpr int kAttempts = 4;
constexpr Clock::duration kBackoff = std::chrono::milliseconds(500);

std::string_view without_slash(std::string_view path) {
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

}  // namespace

Result<std::string> check_copy(const std::string& from, std::string_view to) {
  if (!to.starts_with('/')) {
    LEAT_TRY(const StoreUrl url, StoreUrl::parse(to));
    if (url.scheme != "leat") return std::string(to);
    return error(StatusCode::kInvalidArgument,
                 fmt::format("a cluster copies to stores and to its own namespace, not to {}", to));
  }
  LEAT_TRY(std::string path, normalise_path(without_slash(to)));
  if (is_at_or_below(path, from)) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("{} lies in {}, which would be copied into itself", path, from));
  }
  if (to.ends_with('/') && !path.ends_with('/')) path += '/';
  return path;
}

CopyJob::CopyJob(uint64_t id, std::string path, FileFilter filter, Catalog& catalog,
                 FileCopier& copier, Executor& executor, CopyJobOptions options)
    : PerFileJob(id, JobKind::kCopy, std::move(path), std::move(filter), catalog, executor,
                 Unnameable::kErrors),
      copier_(copier),
      options_(std::move(options)),
      files_(options_.files_max),
      limiter_(options_.bandwidth) {}

Task<> CopyJob::work(Context context) {
  Result<> sound = co_await check_endpoints(context);
  if (!sound) note_error(path(), sound.error());
  if (sound) co_await walk(context, gate_);
  gate_.close();
  co_await gate_.wait_idle();
  if (sound && in_namespace() && !context.cancelled()) co_await publish_names(context);
  names_gate_.close();
  co_await names_gate_.wait_idle();
}

Task<Result<>> CopyJob::check_endpoints(Context context) {
  Result<CatalogEntry> entry = co_await catalog().lookup(context, path());
  if (!entry) co_return Error(entry.error());
  of_one_file_ = !entry->info.is_directory();
  if (!in_namespace()) co_return Result<>();
  const std::string_view to = without_slash(options_.to);
  for (const MountPtr& mount : catalog().mounts()) {
    if (is_at_or_below(to, mount->entry.path)) co_return Result<>();
  }
  co_return error(StatusCode::kNotFound,
                  fmt::format("cannot copy to {}: nothing is mounted there", options_.to));
}

JobProgress CopyJob::count(const Listing& listing, const FileSelector& selector) const {
  JobProgress found;
  for (Listing::Cursor cursor = listing.from(0); cursor.next();) {
    const NameView& file = cursor.view();
    if (file.is_directory() || !selector.matches(file.name)) continue;
    ++found.files_total;
    found.bytes_total += file.size;
  }
  return found;
}

Task<bool> CopyJob::begin_files(Context context, std::string directory, ListingPtr listing,
                                const FileSelector* selector) {
  for (Listing::Cursor cursor = listing->from(0); cursor.next();) {
    const NameView& view = cursor.view();
    if (view.is_directory() || !selector->matches(view.name)) continue;
    auto slot = co_await files_.acquire(context, 1, "a copy");
    if (!slot || context.cancelled()) co_return false;
    const CatalogEntry entry = cursor.entry();
    executor().spawn(
        copy_file(*gate_.enter(), *std::move(slot), context,
                  {join_path(directory, entry.info.name), entry.ref, entry.info.mtime}));
  }
  co_return true;
}

Task<> CopyJob::copy_file(Gate::Holder, Semaphore::Permit, Context context, SelectedFile file) {
  std::string path = file.path;
  Result<CopyState> copied = co_await copy_version(context, file);
  if (!copied && copied.error().code() == StatusCode::kVersionChanged) {
    Result<SelectedFile> now = co_await refresh_file(context, file);
    if (now) {
      copied = co_await copy_version(context, *std::move(now));
    } else {
      copied = Error(now.error());
    }
  }
  if (!copied) {
    note_failed_file(std::move(path), std::move(copied).error());
    co_return;
  }
  update([&](JobProgress& progress) {
    ++progress.files_done;
    if (*copied == CopyState::kAlreadyPresent) ++progress.files_already_present;
  });
}

// The file changed during the copy: retries once with its present version.
Task<Result<CopyJob::SelectedFile>> CopyJob::refresh_file(Context context, SelectedFile file) {
  catalog().report_changed(file.path);
  Result<CatalogEntry> entry = co_await catalog().lookup_for_open(context, file.path);
  if (!entry) co_return Error(entry.error());
  if (entry->ref == nullptr) {
    co_return error(StatusCode::kIsDirectory,
                    fmt::format("'{}' was a file when the copy began and is a directory now; copy "
                                "it again",
                                file.path));
  }
  update([&](JobProgress& progress) { progress.bytes_total += entry->ref->size - file.ref->size; });
  file.ref = entry->ref;
  file.mtime = entry->info.mtime;
  co_return file;
}

// Restarts from the file's beginning if the worker that copied it is lost.
Task<Result<CopyState>> CopyJob::copy_version(Context context, SelectedFile file) {
  for (int attempt = 1;; ++attempt) {
    Result<CopyState> copied = co_await copy_once(context, file);
    const bool lost = !copied && (copied.error().code() == StatusCode::kUnavailable ||
                                  copied.error().code() == StatusCode::kBusy);
    if (!lost || attempt == kAttempts) co_return copied;
    Result<> slept = co_await sleep_for(context, kBackoff * attempt);
    if (!slept) co_return Error(slept.error());
  }
}

Task<Result<CopyState>> CopyJob::copy_once(Context context, SelectedFile file) {
  const std::unique_ptr<FileCopy> copy = copier_.begin(file.ref, spec_of(file));
  const uint64_t size = file.ref->size;
  uint64_t went = 0, through = 0;
  Result<CopyStep> step = CopyStep();
  while (step && step->state == CopyState::kMore) {
    const ByteRange piece{went, std::min(kPieceBytes, size - went)};
    Result<> admitted = context.check("a copy");
    if (limiter_.limited()) admitted = co_await limiter_.acquire(context, piece.size);
    if (admitted) {
      step = co_await copy->step(context, piece);
    } else {
      step = Error(admitted.error());
    }
    if (!step) break;
    limiter_.return_unused(piece.size - std::min(step->bytes, piece.size));
    // A file that the store copied itself, or that exists already, is complete.
    const uint64_t further = step->state == CopyState::kMore ? piece.size : size - went;
    went += further;
    through += step->bytes;
    update([&](JobProgress& progress) {
      progress.bytes_done += further;
      progress.bytes_fetched += step->bytes;
    });
    if (step->state == CopyState::kMore && went == size) {
      step = error(StatusCode::kInternal, "a worker waits for more than the file has");
    }
  }
  if (step) co_return step->state;
  update([&](JobProgress& progress) {
    progress.bytes_done -= went;
    progress.bytes_fetched -= through;
  });
  co_return Error(step.error());
}

CopySpec CopyJob::spec_of(const SelectedFile& file) const {
  CopySpec spec{.overwrite = options_.overwrite};
  spec.mtime = file.mtime;
  const std::string_view name = std::string_view(file.path).substr(file.path.rfind('/') + 1);
  if (!in_namespace()) {
    spec.to = options_.to;
    // A bucket's name alone cannot name a file in it.
    const std::string_view plain = std::string_view(spec.to).substr(0, spec.to.find('?'));
    const Result<StoreUrl> url = StoreUrl::parse(spec.to);
    spec.name_is_guess = of_one_file_ && !plain.ends_with('/') && url && !url->prefix.empty();
    if (!of_one_file_) spec.key = path_below(file.path, path());
    if (of_one_file_ && !spec.name_is_guess) spec.key = name;
    return spec;
  }
  const std::string to(without_slash(options_.to));
  spec.name_is_guess = of_one_file_ && !options_.to.ends_with('/');
  if (spec.name_is_guess) {
    spec.to = to;
  } else {
    spec.to = join_path(to, of_one_file_ ? name : path_below(file.path, path()));
  }
  return spec;
}

// Refreshes listings, so that all processes with cached names are notified. Order: from the mount's
// root down to the destination, then all directories that received files.
Task<> CopyJob::publish_names(Context context) {
  const std::string to(without_slash(options_.to));
  std::string root = "/";
  for (const MountPtr& mount : catalog().mounts()) {
    const std::string& at = mount->entry.path;
    if (is_at_or_below(to, at) && at.size() >= root.size()) root = at;
  }
  std::string directory = root;
  Result<RefreshResult> result = co_await catalog().refresh(context, directory);
  for (std::string_view rest = path_below(to, root); !rest.empty();) {
    const size_t slash = rest.find('/');
    directory = join_path(directory, rest.substr(0, slash));
    rest = slash == rest.npos ? "" : rest.substr(slash + 1);
    result = co_await catalog().refresh(context, directory);
  }
  if (of_one_file_) co_return;
  TreeWalk tree(catalog(), executor(), names_gate_, path(), filter());
  while (!context.cancelled()) {
    std::optional<TreeWalk::Step> step = co_await tree.next(context);
    if (!step) co_return;
    if (!step->listing || step->path == path()) continue;
    // Missing if the filter selected none of its files.
    result = co_await catalog().refresh(context, join_path(to, path_below(step->path, path())));
  }
}

}  // namespace leat
