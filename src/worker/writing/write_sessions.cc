// SPDX-License-Identifier: Apache-2.0
#include "worker/writing/write_sessions.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "telemetry/log.h"

namespace leat {
namespace {

// Without further pieces the client has ended.
constexpr Clock::duration kIdleTimeout = std::chrono::minutes(1);
constexpr Clock::duration kIdleCheckInterval = std::chrono::seconds(15);
constexpr Clock::duration kAbortTimeout = std::chrono::seconds(10);

using Step = WritePiece::Step;

}  // namespace

WriteSessions::WriteSessions(Executor& executor) : executor_(executor) {
  executor_.spawn(abort_idle(*gate_.enter()));
}

Result<WriteSessions::SessionPtr> WriteSessions::admit(const SourcePtr& source,
                                                       const PeerWrite& request) {
  const WritePiece& piece = *request.piece;
  std::lock_guard lock(mutex_);
  if (auto found = waiting_.find(piece.write); found != waiting_.end()) {
    SessionPtr session = found->second;
    if (session->mount != request.mount || session->key != request.key) {
      return error(StatusCode::kInvalidArgument, "a piece is of another object than its write");
    }
    waiting_.erase(found);
    return session;
  }
  if (piece.offset != 0 || piece.step == Step::kAbort) {
    return error(StatusCode::kUnavailable,
                 fmt::format("a write of '{}' is not in progress here (any more)", request.key));
  }
  if (sessions_ >= kSessionsMax) {
    return error(StatusCode::kThrottled, "this worker writes too many objects already");
  }
  LEAT_TRY(PartWriter writer, PartWriter::begin(*source, {.key = request.key,
                                                          .condition = request.condition,
                                                          .attributes = request.attributes}));
  ++sessions_;
  auto session = std::make_shared<Session>();
  session->source = source;
  session->mount = request.mount;
  session->key = request.key;
  session->writer.emplace(std::move(writer));
  return session;
}

Task<Result<std::optional<SourceObject>>> WriteSessions::step(Context context, SourcePtr source,
                                                              PeerWrite request,
                                                              std::span<const std::byte> content) {
  const auto holder = gate_.enter();
  if (!holder) co_return error(StatusCode::kCancelled, "this worker is ending");
  const WritePiece piece = *request.piece;
  Result<SessionPtr> admitted = admit(source, request);
  if (!admitted && piece.step == Step::kAbort) co_return std::nullopt;
  if (!admitted) co_return Error(admitted.error());
  const SessionPtr session = *std::move(admitted);
  Result<std::optional<SourceObject>> done =
      co_await run(std::move(context), session, piece, content);
  const bool goes_on = done && piece.step == Step::kAppend;
  if (!done || piece.step == Step::kAbort) co_await abandon(session);
  std::lock_guard lock(mutex_);
  if (goes_on) {
    session->last_at = Clock::now();
    waiting_[piece.write] = session;
  } else {
    --sessions_;
  }
  co_return done;
}

Task<Result<std::optional<SourceObject>>> WriteSessions::run(Context context, SessionPtr session,
                                                             WritePiece piece,
                                                             std::span<const std::byte> content) {
  if (piece.step == Step::kAbort) co_return std::nullopt;
  const bool is_repeated = session->next != 0 && piece.offset == session->last_piece &&
                           piece.offset + content.size() == session->next && !content.empty();
  if (!is_repeated && piece.offset != session->next) {
    co_return error(StatusCode::kUnavailable,
                    fmt::format("a piece of '{}' at {} is missing", session->key, session->next));
  }
  if (!is_repeated) {
    LEAT_CO_CHECK_OK(co_await session->writer->append(context, content));
    session->last_piece = piece.offset;
    session->next += content.size();
  }
  if (piece.step == Step::kAppend) co_return std::nullopt;
  LEAT_CO_TRY(SourceObject written, co_await session->writer->complete(context));
  co_return std::optional<SourceObject>(std::move(written));
}

Task<> WriteSessions::abandon(SessionPtr session) {
  // the store's own cleanup removes further remains
  Result<> abandoned =
      co_await session->writer->abort(Context::background().with_timeout(kAbortTimeout));
  static_cast<void>(abandoned);
}

Task<> WriteSessions::abort_idle(Gate::Holder) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  bool ending = false;
  while (!ending) {
    Result<> slept = co_await sleep_for(context, kIdleCheckInterval);
    ending = !slept;
    std::vector<SessionPtr> idle;
    {
      std::lock_guard lock(mutex_);
      for (auto at = waiting_.begin(); at != waiting_.end();) {
        if (!ending && Clock::now() - at->second->last_at < kIdleTimeout) {
          ++at;
          continue;
        }
        idle.push_back(std::move(at->second));
        at = waiting_.erase(at);
        --sessions_;
      }
    }
    for (const SessionPtr& session : idle) {
      log::info("write of {}/{} abandoned: its client sent no further piece",
                session->source->name(), session->key);
      co_await abandon(session);
    }
  }
}

// Waits for running pieces; their writes and all waiting ones are dropped.
Task<> WriteSessions::stop() {
  gate_.close();
  stopping_.request_stop();
  co_await gate_.wait_idle();
  std::lock_guard lock(mutex_);
  waiting_.clear();
}

}  // namespace leat
