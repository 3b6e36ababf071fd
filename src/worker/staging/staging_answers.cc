// SPDX-License-Identifier: Apache-2.0
// StagingService: requests of other workers.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "worker/staging/staging_service.h"

namespace leat {
namespace {

template <class T>
PeerReply<T> answered(Result<T> result) {
  return {PeerOutcome::kAnswered, std::move(result), 0};
}

template <class T>
PeerReply<T> not_primary() {
  return {PeerOutcome::kNotOwner,
          error(StatusCode::kBusy, "another worker has the staged writes of this mount"), 0};
}

template <class T>
PeerReply<T> ending() {
  return {PeerOutcome::kRejected, error(StatusCode::kCancelled, "this worker is ending"), 0};
}

}  // namespace

// --- requests of other workers -------------------------------------------------------------------

Task<PeerReply<SourceObject>> StagingService::append(Context context, StagedAppend request) {
  const auto holder = gate_.enter();
  if (!holder) co_return ending<SourceObject>();
  const auto primary = primary_of(request.mount);
  if (primary == nullptr) co_return not_primary<SourceObject>();
  Result<SourceObject> appended =
      co_await primary->append(std::move(context), std::move(request.change), request.until_sent);
  if (!appended && appended.error().code() == StatusCode::kBusy) {
    co_return not_primary<SourceObject>();
  }
  co_return answered(std::move(appended));
}

Task<PeerReply<StagedEvents>> StagingService::events(Context context, StagedEventsRequest request) {
  const auto holder = gate_.enter();
  if (!holder) co_return ending<StagedEvents>();
  const auto primary = primary_of(request.mount);
  if (primary == nullptr || primary->is_over()) co_return not_primary<StagedEvents>();
  co_await primary->wait_renames(std::move(context));
  co_return answered<StagedEvents>(primary->events_after(request.log, request.after));
}

Task<PeerReply<uint64_t>> StagingService::wait_sent(Context context, StagedWait request) {
  const auto holder = gate_.enter();
  if (!holder) co_return ending<uint64_t>();
  const auto primary = primary_of(request.mount);
  if (primary == nullptr) co_return not_primary<uint64_t>();
  const uint64_t left =
      co_await primary->wait_sent(std::move(context), std::move(request.key), request.number);
  if (left > 0 && primary->is_over()) co_return not_primary<uint64_t>();
  co_return answered<uint64_t>(left);
}

Task<PeerReply<uint64_t>> StagingService::replicate(Context context, StagedReplicate request) {
  const auto holder = gate_.enter();
  if (!holder) co_return ending<uint64_t>();
  const MountedPtr at = mounted(request.mount);
  StagedEvents& events = request.events;
  auto permit = co_await at->changing.acquire(context, 1, "a staging log");
  if (!permit) co_return answered<uint64_t>(Error(permit.error()));
  const ClusterViewPtr view = deps_.views.view();
  const auto record = view->staging.find(request.mount);
  const bool is_former = record != view->staging.end() && record->second.log == events.log &&
                         record->second.term > events.term;
  const bool is_old = at->view->log() == events.log && at->view->term() > events.term;
  const auto primary = primary_of(request.mount);
  if (is_former || is_old || (primary != nullptr && primary->term() >= events.term)) {
    co_return not_primary<uint64_t>();
  }
  if (primary != nullptr) {
    co_return answered<uint64_t>(
        error(StatusCode::kBusy, "this worker does not know its successor yet"));
  }
  if (!events.is_whole && !events.is_part) {
    const uint64_t have = at->view->position();
    std::erase_if(events.events, [&](const StagedEvent& one) { return one.position <= have; });
    const bool fits = at->view->log() == events.log &&
                      (events.events.empty() || events.events.front().position == have + 1);
    if (!fits || !at->has_log) {
      co_return answered<uint64_t>(
          error(StatusCode::kOutOfRange, "this worker lacks earlier events of the log"));
    }
  }
  if (events.is_whole) at->has_log = false;
  at->replicated_at = Clock::now();
  const Result<> written = co_await executor_.blocking(
      [this, &request] { return log_->append(request.mount, request.store, request.events); });
  if (!written) co_return answered<uint64_t>(Error(written.error()));
  const Result<> applied = at->view->apply(events);
  if (!applied) co_return answered<uint64_t>(Error(applied.error()));
  if (events.is_whole || events.is_part) {
    at->has_log = events.position > 0 || events.events.empty();
  }
  co_return answered<uint64_t>(at->view->position());
}

Task<PeerReply<uint64_t>> StagingService::put_content(Context, StagedPiece piece,
                                                      std::span<const std::byte> bytes) {
  const auto holder = gate_.enter();
  if (!holder) co_return ending<uint64_t>();
  const Result<> written = co_await executor_.blocking([this, piece, bytes] {
    return contents_->write(piece.content, piece.offset, bytes, piece.is_last);
  });
  if (!written) co_return answered<uint64_t>(Error(written.error()));
  co_return answered<uint64_t>(bytes.size());
}

Task<PeerReply<uint64_t>> StagingService::drop_content(Context, Id128 content) {
  co_return answered<uint64_t>(co_await executor_.blocking([this, content]() -> uint64_t {
    contents_->remove(content);
    return 0;
  }));
}

Task<PeerReply<std::string>> StagingService::read_content(Context, Id128 content, ByteRange range) {
  if (!contents_->has(content)) {
    co_return answered<std::string>(
        error(StatusCode::kNotFound, "this worker does not hold that content"));
  }
  co_return answered<std::string>(co_await executor_.blocking(
      [this, content, range] { return contents_->read(content, range); }));
}

Task<PeerReply<SourceObject>> StagingService::send_content(Context context, StagedSend request) {
  const auto holder = gate_.enter();
  if (!holder) co_return ending<SourceObject>();
  auto change = std::make_shared<const StagedChange>(std::move(request.change));
  co_return answered(co_await send_own(std::move(context), request.mount, std::move(change)));
}

Task<Result<SourceObject>> StagingService::send_own(Context context, std::string mount,
                                                    StagedChangePtr change) {
  const SourcePtr source = source_of(mount);
  if (source == nullptr) {
    co_return error(StatusCode::kUnavailable,
                    fmt::format("the mount at {} is not served by this worker", mount));
  }
  if (!change->content.is_zero() && !contents_->has(change->content)) {
    co_return error(StatusCode::kNotFound, "this worker does not hold that content");
  }
  ReadContent read = [this, change](Context of_read, ByteRange range) {
    return copies_.read(std::move(of_read), change, range);
  };
  co_return co_await send_staged_content(std::move(context), source, change, std::move(read));
}

}  // namespace leat
