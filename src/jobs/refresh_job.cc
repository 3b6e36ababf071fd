// SPDX-License-Identifier: Apache-2.0
#include "jobs/refresh_job.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "model/mount_entry.h"

namespace leat {
namespace {

constexpr size_t kConcurrentRequests = 16;

size_t depth_of(const std::string& path) {
  return path == "/" ? 0 : static_cast<size_t>(std::ranges::count(path, '/'));
}

}  // namespace

Task<> RefreshJob::work(Context context) {
  const bool there = co_await refresh_itself(context);
  if (there) {
    std::vector<std::string> known = catalog_.cached_directories(path());
    update([&](JobProgress& progress) { progress.files_total = known.size(); });
    std::map<size_t, std::vector<std::string>> by_depth;
    for (std::string& directory : known) {
      by_depth[depth_of(directory)].push_back(std::move(directory));
    }
    for (auto& [depth, paths] : by_depth) {
      if (context.cancelled()) break;
      // The catalog has dropped everything below a removed directory.
      const std::vector<std::string> now = catalog_.cached_directories(path());
      const std::set<std::string> left(now.begin(), now.end());
      const size_t before = paths.size();
      std::erase_if(paths, [&](const std::string& one) { return !left.contains(one); });
      update([&](JobProgress& progress) { progress.files_total -= before - paths.size(); });
      co_await refresh_all(context, std::move(paths));
    }
  }
  update([](JobProgress& progress) { progress.planned = true; });
  if (on_refreshed_ && !context.cancelled()) co_await on_refreshed_(path());
}

// Returns false if nothing below it can be refreshed.
Task<bool> RefreshJob::refresh_itself(Context context) {
  Result<RefreshResult> result = co_await catalog_.refresh_name(context, path());
  if (!result) {
    note_error(path(), result.error());
    co_return false;
  }
  const size_t slash = path().rfind('/');
  note_changes(path().substr(0, std::max<size_t>(slash, 1)), *result);
  Result<CatalogEntry> entry = co_await catalog_.lookup(context, path());
  if (entry) co_return entry->info.is_directory();
  // Its removal is a valid result; a path that was unknown before is a mistake.
  if (result->removed == 0) note_error(path(), entry.error());
  co_return false;
}

Task<> RefreshJob::refresh_all(Context context, std::vector<std::string> paths) {
  Wave wave;
  wave.paths = std::move(paths);
  Gate requests;
  for (size_t i = 0; i < std::min(kConcurrentRequests, wave.paths.size()); ++i) {
    executor_.spawn(refresh_wave(*requests.enter(), context, &wave));
  }
  requests.close();
  co_await requests.wait_idle();
}

Task<> RefreshJob::refresh_wave(Gate::Holder, Context context, Wave* wave) {
  for (size_t at; (at = wave->next.fetch_add(1)) < wave->paths.size();) {
    if (context.cancelled()) co_return;
    const std::string& directory = wave->paths[at];
    Result<RefreshResult> result = co_await catalog_.refresh(context, directory);
    if (result) {
      note_changes(directory, *result);
      update([](JobProgress& progress) { ++progress.files_done; });
    } else {
      note_failed_file(directory, result.error());
    }
  }
}

}  // namespace leat
