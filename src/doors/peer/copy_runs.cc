// SPDX-License-Identifier: Apache-2.0
#include "doors/peer/copy_runs.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter copied_bytes("leat_peer_copied_bytes_total",
                     "Bytes that this worker copied to stores for jobs of its cluster");
Counter copied_files("leat_peer_copied_files_total",
                     "Files that this worker copied to stores for jobs of its cluster");

// Without further steps the job or its leader has ended.
constexpr Clock::duration kForgotten = std::chrono::minutes(1);
constexpr Clock::duration kLookedAt = std::chrono::seconds(15);

// Store times are times of the write, possibly in whole seconds. So the target is the same file
// unless it is older.
bool same(const FileRef& file, const CopyGoal& goal, const SourceObject& there) {
  using std::chrono::seconds;
  return file.size == there.size && goal.mtime && there.mtime &&
         std::chrono::floor<seconds>(*there.mtime) >= std::chrono::floor<seconds>(*goal.mtime);
}

std::string name_of(const Source& source, const std::string& key) {
  return fmt::format("{}/{}", source.name(), key);
}

}  // namespace

CopyRuns::CopyRuns(Source& files, FindPlace find_place, Executor& executor)
    : files_(files), find_place_(std::move(find_place)), executor_(executor) {
  executor_.spawn(give_up_forgotten(*activity_.enter()));
}

Result<CopyRuns::RunPtr> CopyRuns::admit(const CopyGoal& goal, const ByteRange& range) {
  std::lock_guard lock(mutex_);
  auto found = waiting_.find(goal.copy);
  if (range.offset != 0) {
    if (found != waiting_.end() && found->second->next == range.offset) {
      RunPtr run = std::move(found->second);
      waiting_.erase(found);
      return run;
    }
    return error(StatusCode::kUnavailable, "this copy is not under way here (any more)");
  }
  if (found != waiting_.end() || runs_ >= kRunsMax) {
    return error(StatusCode::kBusy, "this worker copies too many files already");
  }
  ++runs_;
  return std::make_shared<Run>();
}

Task<Result<CopyStep>> CopyRuns::step(Context context, FileToRead file, ByteRange range,
                                      CopyGoal goal) {
  const auto token = activity_.enter();
  if (!token) co_return error(StatusCode::kCancelled, "this worker is ending");
  Result<RunPtr> admitted = admit(goal, range);
  if (!admitted) co_return Error(admitted.error());
  const RunPtr run = *std::move(admitted);
  Result<CopyStep> done = CopyStep();
  bool writes = true;
  if (range.offset == 0) {
    Result<std::optional<CopyStep>> begun = co_await begin(context, file, goal, run.get());
    writes = begun && !*begun;
    if (!begun) done = Error(begun.error());
    if (begun && *begun) done = **begun;
  }
  if (writes) done = co_await go_on(context, file, range, run.get());
  if (!done && run->stream) {
    // the store's own cleanup removes further remains
    Result<> abandoned =
        co_await run->stream->abandon(Context::background().with_timeout(std::chrono::seconds(10)));
    static_cast<void>(abandoned);
  }
  if (done) copied_bytes.add(done->bytes);
  if (done && done->state == CopyState::kWritten) copied_files.add();
  std::lock_guard lock(mutex_);
  if (done && done->state == CopyState::kMore) {
    run->asked = Clock::now();
    waiting_[goal.copy] = run;
  } else {
    --runs_;
  }
  co_return done;
}

// Sets `something` if the target exists; returns true if it is the same file.
Task<Result<bool>> CopyRuns::is_there(Context context, FileToRead file, CopyGoal goal, Place place,
                                      bool* something) {
  Result<SourceObject> there = co_await place.source->stat(context, {.key = place.key});
  if (there) {
    *something = true;
    if (goal.over != CopyOver::kAll && same(*file.ref, goal, *there)) co_return true;
    if (goal.over != CopyOver::kNothing) co_return false;
    co_return error(StatusCode::kExists,
                    fmt::format("{} is there and is another; --update replaces it",
                                name_of(*place.source, place.key)));
  }
  if (there.error().code() != StatusCode::kNotFound) co_return Error(there.error());
  if (!goal.alone) co_return false;
  Result<SourceObject> directory = co_await place.source->stat(context, {.key = place.key + "/"});
  if (!directory && directory.error().code() == StatusCode::kNotFound) co_return false;
  if (!directory) co_return Error(directory.error());
  co_return error(StatusCode::kIsDirectory,
                  fmt::format("{} is a directory; end it with '/' to copy into it",
                              name_of(*place.source, place.key)));
}

Task<Result<std::optional<CopyStep>>> CopyRuns::begin(Context context, FileToRead file,
                                                      CopyGoal goal, Run* run) {
  Result<Place> place = find_place_(goal);
  if (!place) co_return Error(place.error());
  run->place = *std::move(place);
  Source& target = *run->place.source;
  const std::string& key = run->place.key;
  const bool in_one_store = file.ref->store == target.id();
  if (in_one_store && file.ref->key == key) {
    co_return error(StatusCode::kInvalidArgument,
                    fmt::format("{} would be copied onto itself", name_of(target, key)));
  }
  bool something = false;
  Result<bool> there = co_await is_there(context, file, goal, run->place, &something);
  if (!there) co_return Error(there.error());
  if (*there) co_return CopyStep{.state = CopyState::kThere};
  const bool absent =
      !something && goal.over == CopyOver::kNothing && target.capabilities().write_if_absent;
  if (in_one_store && target.capabilities().copies) {
    CopyRequest request{.from = file.ref->key, .to = key, .if_absent = absent};
    Result<SourceObject> copied = co_await target.copy(context, std::move(request));
    if (!copied) co_return Error(copied.error());
    co_return CopyStep{.state = CopyState::kWritten};
  }
  WriteRequest request{.key = key, .condition = {.absent = absent}};
  Result<ObjectStream> stream = ObjectStream::begin(target, std::move(request), file.ref->size);
  if (!stream) co_return Error(stream.error());
  run->stream.emplace(*std::move(stream));
  co_return std::nullopt;
}

Task<Result<CopyStep>> CopyRuns::go_on(Context context, FileToRead file, ByteRange range,
                                       Run* run) {
  std::vector<std::byte> bytes(range.size);
  if (!range.empty()) {
    ReadRequest read{.key = file.key,
                     .range = range,
                     .if_version = file.ref->version,
                     .object_size = file.ref->size};
    Result<> got = co_await files_.read(context, std::move(read), bytes);
    if (!got) co_return Error(got.error());
    Result<> taken = co_await run->stream->append(context, bytes);
    if (!taken) co_return Error(taken.error());
  }
  run->next = range.end();
  if (run->next < file.ref->size) {
    co_return CopyStep{.state = CopyState::kMore, .bytes = range.size};
  }
  Result<SourceObject> written = co_await run->stream->finish(context);
  if (!written) co_return Error(written.error());
  co_return CopyStep{.state = CopyState::kWritten, .bytes = range.size};
}

Task<> CopyRuns::give_up_forgotten(Activity::Token) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  bool ending = false;
  while (!ending) {
    Result<> slept = co_await sleep_for(context, kLookedAt);
    ending = !slept;
    std::vector<RunPtr> forgotten;
    {
      std::lock_guard lock(mutex_);
      for (auto at = waiting_.begin(); at != waiting_.end();) {
        if (!ending && Clock::now() - at->second->asked < kForgotten) {
          ++at;
          continue;
        }
        forgotten.push_back(std::move(at->second));
        at = waiting_.erase(at);
        --runs_;
      }
    }
    for (const RunPtr& run : forgotten) {
      log::info("the copy to {} is given up: no job asks for its next part",
                name_of(*run->place.source, run->place.key));
      Result<> abandoned = co_await run->stream->abandon(
          Context::background().with_timeout(std::chrono::seconds(10)));
      static_cast<void>(abandoned);
    }
  }
}

// Waits for running steps; their copies and all waiting ones are dropped.
Task<> CopyRuns::stop() {
  activity_.close();
  stopping_.request_stop();
  co_await activity_.wait_idle();
  std::lock_guard lock(mutex_);
  waiting_.clear();
}

}  // namespace leat
