// SPDX-License-Identifier: Apache-2.0
#include "jobs/snapshot_job.h"

#include <fmt/format.h>

namespace leat {

Task<> SnapshotJob::work(Context context) {
  Result<> built = co_await build(context);
  if (!built) note_error(path(), built.error());
}

Task<Result<>> SnapshotJob::build(Context context) {
  LEAT_CO_TRY(CatalogEntry folder, co_await catalog_.lookup(context, path()));
  if (!folder.info.is_directory()) {
    co_return error(StatusCode::kNotDirectory,
                    fmt::format("cannot make a snapshot of {}: it is a file", path()));
  }
  if (!folder.mount) {
    co_return error(StatusCode::kInvalidArgument,
                    fmt::format("cannot make a snapshot of {}: no store is mounted there; name a "
                                "folder of a mount",
                                path()));
  }
  StoreUrl url = folder.mount->entry.source;
  url.prefix = folder.key();
  auto progress = [this](const SnapshotProgress& now) {
    update([&](JobProgress& job) {
      job.files_total = job.files_done = now.files;
      job.bytes_total = job.bytes_done = now.bytes;
    });
  };
  std::optional<SnapshotHead> made;
  if (remote_builder_) {
    LEAT_CO_TRY(made, co_await remote_builder_(context, folder, output_, progress));
  }
  if (!made) {
    SnapshotBuildOptions options{.path = output_, .progress = progress};
    LEAT_CO_TRY(made, co_await build_snapshot(context, folder.mount->source, url, executor_,
                                              std::move(options)));
  }
  const SnapshotHead& head = *made;
  update([&](JobProgress& progress) {
    progress.planned = true;
    progress.files_total = progress.files_done = head.files;
    progress.bytes_total = progress.bytes_done = head.bytes;
  });
  co_return Result<>();
}

}  // namespace leat
