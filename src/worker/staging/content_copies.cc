// SPDX-License-Identifier: Apache-2.0
#include "worker/staging/content_copies.h"

#include <algorithm>
#include <set>
#include <utility>

#include "telemetry/log.h"

namespace leat {
namespace {

// A holder that does not take a piece in this time is left out.
constexpr Clock::duration kPieceTimeout = std::chrono::seconds(10);

template <class T>
PeerReply<T> no_staging() {
  return {PeerOutcome::kRejected,
          error(StatusCode::kUnsupported, "this worker keeps no staged writes"), 0};
}

}  // namespace

std::vector<WorkerId> choose_workers(const ClusterView& view, const WorkerId& first,
                                     const Id128& key, uint32_t count, bool in_any_domain) {
  std::vector<WorkerId> chosen{first};
  std::set<std::string> domains;
  if (const WorkerInfo* info = view.worker(first)) domains.insert(info->domain());
  const auto key_text = key.to_hex();
  const PlacementKey place = PlacementKey::listing(StoreId(), "staged " + key_text);
  for (const WorkerId& next : view.ring.candidates(place, view.ring.members().size())) {
    if (chosen.size() >= count) break;
    const WorkerInfo* info = view.worker(next);
    const bool can = info != nullptr && next != first && info->supports_staging() &&
                     info->state == WorkerState::kActive;
    if (!can) continue;
    const bool is_apart = domains.insert(info->domain()).second;
    if (is_apart || in_any_domain) chosen.push_back(next);
  }
  return chosen;
}

Task<PeerReply<uint64_t>> ContentCopies::put_at(Context context, WorkerId holder, StagedPiece piece,
                                                std::span<const std::byte> bytes) {
  if (holder == self_) {
    Result<> written = co_await executor_.blocking([this, piece, bytes] {
      return contents_.write(piece.content, piece.offset, bytes, piece.is_last);
    });
    PeerReply<uint64_t> reply{.outcome = PeerOutcome::kAnswered, .result = bytes.size()};
    if (!written) reply.result = Error(written.error());
    co_return reply;
  }
  const PeerPtr peer = peers_.find(holder);
  StagingPeer* const staging = peer == nullptr ? nullptr : peer->staging();
  if (staging == nullptr) co_return no_staging<uint64_t>();
  co_return co_await staging->put_content(context.with_timeout(kPieceTimeout), piece, bytes);
}

Task<Result<std::vector<WorkerId>>> ContentCopies::put(Context context, StagedPiece piece,
                                                       std::vector<WorkerId> holders,
                                                       std::span<const std::byte> bytes) {
  std::vector<std::shared_ptr<SharedPromise<PeerReply<uint64_t>>>> puts;
  for (const WorkerId& holder : holders) {
    puts.push_back(start(executor_, put_at(context, holder, piece, bytes)));
  }
  std::vector<WorkerId> have;
  std::optional<Status> own;
  for (size_t i = 0; i < holders.size(); ++i) {
    // The bytes are the caller's, so each one is waited for.
    Result<PeerReply<uint64_t>> reply = co_await puts[i]->wait(Context::background(), "a copy");
    const bool has = reply && reply->result;
    if (has) {
      have.push_back(holders[i]);
      continue;
    }
    const Status why = reply ? reply->result.error() : reply.error();
    if (holders[i] == self_) own = why;
    log::warning("{} does not take a copy of a staged write: {}", peers_.name_of(holders[i]),
                 why.to_string());
  }
  if (own) co_return error(*own);
  co_return have;
}

Task<Result<>> ContentCopies::copy_to(Context context, WorkerId holder, Id128 content,
                                      uint64_t size) {
  StagedPiece piece{.content = content};
  do {
    const ByteRange range{piece.offset, std::min(kStagedPieceBytesMax, size - piece.offset)};
    LEAT_CO_TRY(const std::string bytes, co_await executor_.blocking([this, content, range] {
      return contents_.read(content, range);
    }));
    piece.is_last = range.offset + range.size == size;
    PeerReply<uint64_t> reply =
        co_await put_at(context, holder, piece, std::as_bytes(std::span(bytes)));
    if (!reply.result) co_return Error(reply.result.error());
    piece.offset += range.size;
  } while (!piece.is_last);
  co_return Result<>();
}

Task<std::vector<WorkerId>> ContentCopies::add_copies(Context context, ClusterViewPtr view,
                                                      Id128 content, uint64_t size,
                                                      std::vector<WorkerId> holders,
                                                      uint32_t copies) {
  std::set<std::string> domains;
  for (const WorkerId& holder : holders) {
    if (const WorkerInfo* info = view->worker(holder)) domains.insert(info->domain());
  }
  for (const auto& [id, info] : view->workers) {
    if (holders.size() >= copies) break;
    const bool can = info.supports_staging() && info.state == WorkerState::kActive;
    const PeerPtr peer = peers_.find(id);
    if (!can || domains.contains(info.domain()) || !peer || !peer->usable()) continue;
    if (!co_await copy_to(context, id, content, size)) continue;
    domains.insert(info.domain());
    holders.push_back(id);
  }
  co_return holders;
}

Task<Result<std::string>> ContentCopies::read(Context context, StagedChangePtr change,
                                              ByteRange range) {
  if (contents_.has(change->content)) {
    Result<std::string> bytes = co_await executor_.blocking(
        [this, change, range] { return contents_.read(change->content, range); });
    if (bytes) co_return bytes;
    log::warning("a staged content is asked of another worker: {}", bytes.error().to_string());
  }
  Status why(StatusCode::kNotFound, "no worker has the content of this staged write");
  for (const WorkerId& holder : change->holders) {
    const PeerPtr peer = holder == self_ ? nullptr : peers_.find(holder);
    StagingPeer* const staging = peer == nullptr ? nullptr : peer->staging();
    if (staging == nullptr) continue;
    PeerReply<std::string> reply = co_await staging->read_content(context, change->content, range);
    if (reply.result) co_return std::move(reply.result);
    const bool is_gone = reply.outcome == PeerOutcome::kAnswered &&
                         reply.result.error().code() == StatusCode::kNotFound;
    if (!is_gone) why = Status(StatusCode::kUnavailable, "a staged write", reply.result.error());
  }
  co_return error(why);
}

Task<> ContentCopies::drop(Context context, StagedChangePtr change) {
  for (const WorkerId& holder : change->holders) {
    if (holder == self_) {
      co_await executor_.blocking([this, change] {
        contents_.remove(change->content);
        return true;
      });
      continue;
    }
    const PeerPtr peer = peers_.find(holder);
    StagingPeer* const staging = peer == nullptr ? nullptr : peer->staging();
    if (staging == nullptr || !peer->usable()) continue;
    PeerReply<uint64_t> dropped = co_await staging->drop_content(context, change->content);
    static_cast<void>(dropped);
  }
}

}  // namespace leat
