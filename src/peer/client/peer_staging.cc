// SPDX-License-Identifier: Apache-2.0
#include "peer/client/peer_staging.h"

#include <fmt/format.h>

#include <utility>

#include "peer/client/peer_client.h"
#include "wire/cache_op.h"
#include "wire/read_request.h"
#include "wire/write_request.h"

namespace leat {
namespace {

// A member writes its log, or a holder its content, to a disk that may be busy.
constexpr Clock::duration kDiskGrace = std::chrono::seconds(2);
// The worker asks its store, or waits for changes to be sent.
constexpr Clock::duration kStoreGrace = std::chrono::seconds(5);

class PeerStaging : public StagingPeer {
 public:
  explicit PeerStaging(PeerClient& client) : client_(client) {}

  Task<PeerReply<SourceObject>> append(Context context, StagedAppend request) override {
    return call(std::move(context), to_http(request), kStoreGrace, &decode_change_answer);
  }
  Task<PeerReply<StagedEvents>> events(Context context, StagedEventsRequest request) override {
    return call(std::move(context), to_http(request), {}, &decode_staged_events);
  }
  Task<PeerReply<uint64_t>> wait_sent(Context context, StagedWait request) override {
    return call(std::move(context), to_http(request), kStoreGrace, &decode_bytes_answer);
  }
  Task<PeerReply<uint64_t>> replicate(Context context, StagedReplicate request) override {
    return call(std::move(context), to_http(request), kDiskGrace, &decode_bytes_answer);
  }
  Task<PeerReply<uint64_t>> put_content(Context context, StagedPiece piece,
                                        std::span<const std::byte> bytes) override {
    return call(std::move(context), to_http(piece, bytes), kDiskGrace, &decode_bytes_answer);
  }
  Task<PeerReply<uint64_t>> drop_content(Context context, Id128 content) override {
    HttpRequest request{.method = "DELETE", .path = kStagedContentPath};
    request.query["id"] = content.to_hex();
    return call(std::move(context), std::move(request), kDiskGrace, &decode_bytes_answer);
  }
  Task<PeerReply<std::string>> read_content(Context context, Id128 content,
                                            ByteRange range) override {
    HttpRequest request{.path = kStagedContentPath};
    request.query["id"] = content.to_hex();
    request.headers.set("Range", range_text(range));
    PeerReply<HttpResponse> reply =
        co_await client_.call(std::move(context), std::move(request), {}, Clock::duration(0));
    if (!reply.result) {
      co_return PeerReply<std::string>{reply.outcome, Error(reply.result.error()), reply.epoch};
    }
    if (reply.result->body.size() != range.size) {
      Status wrong(StatusCode::kUnavailable,
                   fmt::format("a worker answered {} bytes in place of {} of a staged content",
                               reply.result->body.size(), range.size));
      co_return PeerReply<std::string>{PeerOutcome::kUnreachable, Error(std::move(wrong)), 0};
    }
    co_return PeerReply<std::string>{reply.outcome, std::move(reply.result->body), reply.epoch};
  }
  Task<PeerReply<SourceObject>> send_content(Context context, StagedSend request) override {
    return call(std::move(context), to_http(request), kStoreGrace, &decode_change_answer);
  }

 private:
  template <class T>
  Task<PeerReply<T>> call(Context context, HttpRequest request, Clock::duration grace,
                          Result<T> (*decode)(std::string_view)) {
    PeerReply<HttpResponse> reply =
        co_await client_.call(std::move(context), std::move(request), {}, grace);
    PeerReply<T> answer{.outcome = reply.outcome, .epoch = reply.epoch};
    answer.maybe_done = reply.maybe_done;
    if (!reply.result) {
      answer.result = Error(reply.result.error());
      co_return answer;
    }
    answer.result = decode(reply.result->body);
    if (!answer.result) answer.outcome = PeerOutcome::kUnreachable;
    co_return answer;
  }

  PeerClient& client_;
};

}  // namespace

std::unique_ptr<StagingPeer> make_peer_staging(PeerClient& client) {
  return std::make_unique<PeerStaging>(client);
}

}  // namespace leat
