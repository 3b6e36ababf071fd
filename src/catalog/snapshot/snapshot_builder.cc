// SPDX-License-Identifier: Apache-2.0
#include "catalog/snapshot/snapshot_builder.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "catalog/snapshot/snapshot_writer.h"

namespace leat {
namespace {

int64_t wall_time_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Lives in the calls that block as well, which may end after the task.
struct Build {
  Build(SnapshotWriterOptions options, SnapshotHead head)
      : prefix(head.prefix), writer(std::move(options), std::move(head)) {}

  Result<> add(const ListPage& page);
  Result<> add(const SourceObject& object);

  const std::string prefix;
  SnapshotProgress progress;
  SnapshotWriter writer;
};

Result<> Build::add(const ListPage& page) {
  writer.leave_out(page.left_out);
  for (const SourceObject& object : page.objects) LEAT_CHECK_OK(add(object));
  return {};
}

Result<> Build::add(const SourceObject& object) {
  if (object.key == prefix) return {};  // the marker of the root
  if (!object.key.starts_with(prefix)) {
    writer.leave_out(1);
    return {};
  }
  SnapshotEntry entry;
  entry.path = object.key.substr(prefix.size());
  if (object.mtime) entry.mtime_ns = object.mtime->time_since_epoch().count();
  // A marker makes its directory, whatever the store takes it for.
  const bool marker = entry.path.ends_with('/');
  if (marker) entry.path.pop_back();
  if (marker || object.kind == FileKind::kDirectory) {
    entry.kind = FileKind::kDirectory;
    return writer.add(entry);
  }
  entry.size = object.size;
  entry.version = object.version;
  entry.local = object.local;
  ++progress.files;
  progress.bytes += object.size;
  return writer.add(entry);
}

Error explain(const Status& status, const StoreUrl& url) {
  return error(status.with_context(fmt::format("cannot make a snapshot of {}", url.to_string())));
}

}  // namespace

Task<Result<SnapshotHead>> build_snapshot(Context context, SourcePtr source, StoreUrl url,
                                          Executor& executor, SnapshotBuildOptions options) {
  SnapshotHead head;
  head.store = source->id();
  head.source = url.to_string();
  head.prefix = url.prefix;
  head.created_ns = wall_time_ns();
  SnapshotWriterOptions writing{.path = options.path, .memory_bytes = options.memory_bytes};
  auto build = std::make_shared<Build>(std::move(writing), std::move(head));
  std::string token;
  do {
    ListRequest request{.prefix = url.prefix, .recursive = true, .token = token};
    Result<ListPage> page = co_await source->list(context, std::move(request));
    if (!page) co_return explain(page.error(), url);
    if (!page->next_token.empty() && page->next_token == token) {
      co_return error(StatusCode::kInternal,
                      fmt::format("{} answered the listing of '{}' with the same page token twice; "
                                  "the listing would never end",
                                  source->name(), url.prefix));
    }
    token = page->next_token;
    auto add = [build, page = *std::move(page)] { return build->add(page); };
    Result<> added = co_await executor.blocking(std::move(add));
    if (!added) co_return explain(added.error(), url);
    if (options.progress) options.progress(build->progress);
    Result<> goes_on = context.check("making a snapshot");
    if (!goes_on) co_return explain(goes_on.error(), url);
  } while (!token.empty());
  auto finish = [build] { return build->writer.finish(); };
  Result<SnapshotHead> finished = co_await executor.blocking(std::move(finish));
  if (!finished) co_return explain(finished.error(), url);
  co_return finished;
}

}  // namespace leat
