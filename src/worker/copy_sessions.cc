// SPDX-License-Identifier: Apache-2.0
#include "worker/copy_sessions.h"

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
constexpr Clock::duration kIdleTimeout = std::chrono::minutes(1);
constexpr Clock::duration kIdleCheckInterval = std::chrono::seconds(15);

// Store times are times of the write, possibly in whole seconds. So the target is the same file
// unless it is older.
bool same(const FileRef& file, const CopySpec& spec, const SourceObject& existing) {
  using std::chrono::seconds;
  return file.size == existing.size && spec.mtime && existing.mtime &&
         std::chrono::floor<seconds>(*existing.mtime) >= std::chrono::floor<seconds>(*spec.mtime);
}

std::string name_of(const Source& source, const std::string& key) {
  return fmt::format("{}/{}", source.name(), key);
}

}  // namespace

CopySessions::CopySessions(Source& files, ResolveDestination resolve, Executor& executor)
    : files_(files), resolve_(std::move(resolve)), executor_(executor) {
  executor_.spawn(abort_idle(*gate_.enter()));
}

Result<CopySessions::SessionPtr> CopySessions::admit(const CopySpec& spec, const ByteRange& range) {
  std::lock_guard lock(mutex_);
  auto found = waiting_.find(spec.copy);
  if (range.offset != 0) {
    if (found != waiting_.end() && found->second->next == range.offset) {
      SessionPtr session = std::move(found->second);
      waiting_.erase(found);
      return session;
    }
    return error(StatusCode::kUnavailable, "this copy is not in progress here (any more)");
  }
  if (found != waiting_.end() || sessions_ >= kSessionsMax) {
    return error(StatusCode::kBusy, "this worker copies too many files already");
  }
  ++sessions_;
  return std::make_shared<Session>();
}

Task<Result<CopyStep>> CopySessions::step(Context context, FileToRead file, ByteRange range,
                                          CopySpec spec) {
  const auto holder = gate_.enter();
  if (!holder) co_return error(StatusCode::kCancelled, "this worker is ending");
  Result<SessionPtr> admitted = admit(spec, range);
  if (!admitted) co_return Error(admitted.error());
  const SessionPtr session = *std::move(admitted);
  Result<CopyStep> done = CopyStep();
  bool writes = true;
  if (range.offset == 0) {
    Result<std::optional<CopyStep>> begun = co_await begin(context, file, spec, session.get());
    writes = begun && !*begun;
    if (!begun) done = Error(begun.error());
    if (begun && *begun) done = **begun;
  }
  if (writes) done = co_await append(context, file, range, session.get());
  if (!done && session->stream) {
    // the store's own cleanup removes further remains
    Result<> abandoned = co_await session->stream->abort(
        Context::background().with_timeout(std::chrono::seconds(10)));
    static_cast<void>(abandoned);
  }
  if (done) copied_bytes.add(done->bytes);
  if (done && done->state == CopyState::kWritten) copied_files.add();
  std::lock_guard lock(mutex_);
  if (done && done->state == CopyState::kMore) {
    session->last_step_at = Clock::now();
    waiting_[spec.copy] = session;
  } else {
    --sessions_;
  }
  co_return done;
}

// Sets `exists` if the target exists; returns true if it is the same file.
Task<Result<bool>> CopySessions::is_already_present(Context context, FileToRead file, CopySpec spec,
                                                    Destination destination, bool* exists) {
  Result<SourceObject> existing =
      co_await destination.source->stat(context, {.key = destination.key});
  if (existing) {
    *exists = true;
    if (spec.overwrite != OverwriteMode::kAlways && same(*file.ref, spec, *existing))
      co_return true;
    if (spec.overwrite != OverwriteMode::kNever) co_return false;
    co_return error(StatusCode::kExists,
                    fmt::format("{} exists and differs; --update replaces it",
                                name_of(*destination.source, destination.key)));
  }
  if (existing.error().code() != StatusCode::kNotFound) co_return Error(existing.error());
  if (!spec.name_is_guess) co_return false;
  Result<SourceObject> directory =
      co_await destination.source->stat(context, {.key = destination.key + "/"});
  if (!directory && directory.error().code() == StatusCode::kNotFound) co_return false;
  if (!directory) co_return Error(directory.error());
  co_return error(StatusCode::kIsDirectory,
                  fmt::format("{} is a directory; end it with '/' to copy into it",
                              name_of(*destination.source, destination.key)));
}

Task<Result<std::optional<CopyStep>>> CopySessions::begin(Context context, FileToRead file,
                                                          CopySpec spec, Session* session) {
  Result<Destination> destination = resolve_(spec);
  if (!destination) co_return Error(destination.error());
  session->destination = *std::move(destination);
  Source& target = *session->destination.source;
  const std::string& key = session->destination.key;
  const bool in_one_store = file.ref->store == target.id();
  if (in_one_store && file.ref->key == key) {
    co_return error(StatusCode::kInvalidArgument,
                    fmt::format("{} would be copied onto itself", name_of(target, key)));
  }
  bool exists = false;
  Result<bool> existing =
      co_await is_already_present(context, file, spec, session->destination, &exists);
  if (!existing) co_return Error(existing.error());
  if (*existing) co_return CopyStep{.state = CopyState::kAlreadyPresent};
  const bool absent =
      !exists && spec.overwrite == OverwriteMode::kNever && target.capabilities().write_if_absent;
  if (in_one_store && target.capabilities().copies) {
    CopyRequest request{.from = file.ref->key, .to = key, .if_absent = absent};
    Result<SourceObject> copied = co_await target.copy(context, std::move(request));
    if (!copied) co_return Error(copied.error());
    co_return CopyStep{.state = CopyState::kWritten};
  }
  WriteRequest request{.key = key, .condition = {.absent = absent}};
  Result<PartWriter> stream = PartWriter::begin(target, std::move(request), file.ref->size);
  if (!stream) co_return Error(stream.error());
  session->stream.emplace(*std::move(stream));
  co_return std::nullopt;
}

Task<Result<CopyStep>> CopySessions::append(Context context, FileToRead file, ByteRange range,
                                            Session* session) {
  std::vector<std::byte> bytes(range.size);
  if (!range.empty()) {
    ReadRequest read{.key = file.key,
                     .range = range,
                     .if_version = file.ref->version,
                     .object_size = file.ref->size};
    Result<> got = co_await files_.read(context, std::move(read), bytes);
    if (!got) co_return Error(got.error());
    Result<> taken = co_await session->stream->append(context, bytes);
    if (!taken) co_return Error(taken.error());
  }
  session->next = range.end();
  if (session->next < file.ref->size) {
    co_return CopyStep{.state = CopyState::kMore, .bytes = range.size};
  }
  Result<SourceObject> written = co_await session->stream->complete(context);
  if (!written) co_return Error(written.error());
  co_return CopyStep{.state = CopyState::kWritten, .bytes = range.size};
}

Task<> CopySessions::abort_idle(Gate::Holder) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  bool ending = false;
  while (!ending) {
    Result<> slept = co_await sleep_for(context, kIdleCheckInterval);
    ending = !slept;
    std::vector<SessionPtr> idle;
    {
      std::lock_guard lock(mutex_);
      for (auto at = waiting_.begin(); at != waiting_.end();) {
        if (!ending && Clock::now() - at->second->last_step_at < kIdleTimeout) {
          ++at;
          continue;
        }
        idle.push_back(std::move(at->second));
        at = waiting_.erase(at);
        --sessions_;
      }
    }
    for (const SessionPtr& session : idle) {
      log::info("copy to {} abandoned: no job requested its next part",
                name_of(*session->destination.source, session->destination.key));
      Result<> abandoned = co_await session->stream->abort(
          Context::background().with_timeout(std::chrono::seconds(10)));
      static_cast<void>(abandoned);
    }
  }
}

// Waits for running steps; their copies and all waiting ones are dropped.
Task<> CopySessions::stop() {
  gate_.close();
  stopping_.request_stop();
  co_await gate_.wait_idle();
  std::lock_guard lock(mutex_);
  waiting_.clear();
}

}  // namespace leat
