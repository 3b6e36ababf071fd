// SPDX-License-Identifier: Apache-2.0
#include "catalog/snapshot/snapshot_builder.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "catalog/snapshot/snapshot_writer.h"
#include "runtime/semaphore.h"
#include "runtime/shared_promise.h"
#include "source/range_listing.h"

namespace leat {
namespace {

int64_t wall_time_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Shared with blocking calls, which may end after the task.
struct Build {
  Build(SnapshotWriterOptions options, SnapshotHead head, std::string listed)
      : prefix(std::move(listed)), writer(std::move(options), std::move(head)) {}

  Result<> add(const ListPage& page);
  Result<> add(const SourceObject& object);

  const std::string prefix;
  SnapshotProgress progress;
  SnapshotWriter writer;
};

Result<> Build::add(const ListPage& page) {
  writer.add_skipped(page.skipped);
  for (const SourceObject& object : page.objects) LEAT_CHECK_OK(add(object));
  return {};
}

Result<> Build::add(const SourceObject& object) {
  if (object.key == prefix) return {};  // the marker of the root
  if (!object.key.starts_with(prefix)) {
    writer.add_skipped(1);
    return {};
  }
  SnapshotEntry entry;
  entry.path = object.key.substr(prefix.size());
  if (object.mtime) entry.mtime_ns = object.mtime->time_since_epoch().count();
  // A marker makes its directory, whatever its kind in the store.
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

struct Survey {
  const Context context;
  const SourcePtr source;
  const StoreUrl url;
  Executor& executor;
  const std::function<void(const SnapshotProgress&)> progress;
  const std::shared_ptr<Build> build;
  Semaphore adding{1};
};
using SurveyPtr = std::shared_ptr<Survey>;

Task<Result<>> add_page(SurveyPtr survey, ListPage page) {
  Result<Semaphore::Permit> turn =
      co_await survey->adding.acquire(survey->context, 1, "making a snapshot");
  if (!turn) co_return Error(turn.error());
  auto add = [build = survey->build, page = std::move(page)] { return build->add(page); };
  Result<> added = co_await survey->executor.blocking(std::move(add));
  if (added && survey->progress) survey->progress(survey->build->progress);
  if (added) added = survey->context.check("making a snapshot");
  co_return added;
}

// Lists one prefix; `found` receives each page before it is added.
Task<Result<>> list_prefix(SurveyPtr survey, std::string prefix, bool recursive,
                           std::function<void(const ListPage&)> found) {
  auto add = [&](ListPage page) {
    if (found) found(page);
    return add_page(survey, std::move(page));
  };
  co_return co_await list_in_ranges(
      survey->context, survey->source,
      {.prefix = std::move(prefix), .recursive = recursive, .token = {}}, survey->executor,
      std::move(add));
}

// Lists directory by directory, several at once. Pending directories are a stack: a path of a tree
// has far fewer of them than the whole tree.
class DirectoryWalk : public std::enable_shared_from_this<DirectoryWalk> {
 public:
  explicit DirectoryWalk(SurveyPtr survey) : survey_(std::move(survey)) {
    waiting_.push_back(survey_->url.prefix);
  }

  Task<Result<>> run(unsigned at_once) {
    at_once_ = at_once;
    begin_more();
    Result<bool> ended = co_await ended_->wait(Context::background(), "a walk");
    if (!ended) co_return Error(ended.error());
    co_return Result<>();
  }

 private:
  // Starts as many listings as allowed; the last one to end completes the walk.
  void begin_more() {
    std::vector<std::string> begun;
    std::optional<Result<bool>> end;
    {
      std::lock_guard lock(mutex_);
      while (!failed_ && running_ < at_once_ && !waiting_.empty()) {
        begun.push_back(std::move(waiting_.back()));
        waiting_.pop_back();
        ++running_;
      }
      if (running_ == 0 && !std::exchange(told_, true))
        end = failed_ ? Result<bool>(Error(*failed_)) : Result<bool>(true);
    }
    for (std::string& prefix : begun) {
      survey_->executor.spawn(list(shared_from_this(), std::move(prefix)));
    }
    if (end) ended_->set(*std::move(end));
  }

  static Task<> list(std::shared_ptr<DirectoryWalk> walk, std::string prefix) {
    auto found = [walk](const ListPage& page) { walk->note(page); };
    Result<> listed = co_await list_prefix(walk->survey_, prefix, false, std::move(found));
    walk->note_end(prefix, std::move(listed));
    walk->begin_more();
  }

  void note(const ListPage& page) {
    std::lock_guard lock(mutex_);
    for (const SourceObject& object : page.objects) {
      if (object.kind == FileKind::kDirectory) waiting_.push_back(object.key);
    }
  }

  // A directory removed since its parent was listed is a normal concurrent change.
  void note_end(const std::string& prefix, Result<> listed) {
    const bool gone =
        !listed && listed.error().code() == StatusCode::kNotFound && prefix != survey_->url.prefix;
    std::lock_guard lock(mutex_);
    --running_;
    if (!listed && !gone && !failed_) failed_ = listed.error();
  }

  const SurveyPtr survey_;
  unsigned at_once_ = 1;
  const std::shared_ptr<SharedPromise<bool>> ended_ = SharedPromise<bool>::make();
  std::mutex mutex_;  // leaf
  std::vector<std::string> waiting_;
  size_t running_ = 0;
  std::optional<Status> failed_;
  bool told_ = false;
};

}  // namespace

Task<Result<SnapshotHead>> build_snapshot(Context context, SourcePtr source, StoreUrl url,
                                          Executor& executor, SnapshotBuildOptions options) {
  const SnapshotIdentity identity =
      options.identity.value_or(SnapshotIdentity{source->id(), url.to_string(), url.prefix});
  SnapshotHead head;
  head.store = identity.store;
  head.source = identity.source;
  head.prefix = identity.prefix;
  head.created_ns = wall_time_ns();
  SnapshotWriterOptions writing{
      .path = options.path, .memory_bytes = options.memory_bytes, .names_max = options.names_max};
  auto build = std::make_shared<Build>(std::move(writing), std::move(head), url.prefix);
  auto survey = std::make_shared<Survey>(context, std::move(source), url, executor,
                                         std::move(options.progress), build);
  Result<> listed = error(StatusCode::kInternal, "not listed");
  if (options.directories_max > 0) {
    listed = co_await std::make_shared<DirectoryWalk>(survey)->run(options.directories_max);
  } else {
    listed = co_await list_prefix(survey, url.prefix, true, {});
  }
  if (!listed) co_return explain(listed.error(), url);
  auto finish = [build] { return build->writer.finish(); };
  Result<SnapshotHead> finished = co_await executor.blocking(std::move(finish));
  if (!finished) co_return explain(finished.error(), url);
  co_return finished;
}

}  // namespace leat
