// SPDX-License-Identifier: Apache-2.0
#include "peer/client/peer_snapshots.h"

#include <fmt/format.h>

#include "peer/client/peer_client.h"
#include "wire/cache_op.h"
#include "wire/read_request.h"

namespace leat {
namespace {

// A build is answered after 2 s. Fetching the file of a hundred million names takes minutes.
constexpr Clock::duration kBuildGrace = std::chrono::seconds(5);
constexpr Clock::duration kHoldGrace = std::chrono::minutes(10);

template <class T>
PeerReply<T> read_answer(PeerReply<HttpResponse>& reply, Result<T> (*decode)(std::string_view)) {
  if (!reply.result) return {reply.outcome, Error(reply.result.error()), reply.epoch};
  Result<T> value = decode(reply.result->body);
  if (!value) return {PeerOutcome::kUnreachable, std::move(value), 0};
  return {reply.outcome, std::move(value), reply.epoch};
}

class PeerSnapshots : public SnapshotPeer {
 public:
  explicit PeerSnapshots(PeerClient& client) : client_(client) {}

  Task<PeerReply<std::vector<SharedSnapshot>>> list(Context context) override {
    HttpRequest request{.path = kSnapshotsPath};
    PeerReply<HttpResponse> reply =
        co_await client_.call(std::move(context), std::move(request), {}, Clock::duration(0));
    co_return read_answer(reply, &decode_snapshots);
  }

  Task<PeerReply<SnapshotBuild>> build(Context context, SnapshotRequest request,
                                       PeerRoute route) override {
    PeerReply<HttpResponse> reply =
        co_await client_.call(std::move(context), to_http(request), route, kBuildGrace);
    co_return read_answer(reply, &decode_snapshot_build);
  }

  Task<PeerReply<uint64_t>> remove(Context context, std::string name) override {
    HttpRequest request{.method = "DELETE", .path = kSnapshotsPath};
    request.query["name"] = std::move(name);
    PeerReply<HttpResponse> reply =
        co_await client_.call(std::move(context), std::move(request), {}, Clock::duration(0));
    co_return read_answer(reply, &decode_bytes_answer);
  }

  Task<PeerReply<uint64_t>> hold(Context context, SharedSnapshot snapshot) override {
    HttpRequest request{.method = "POST", .path = kHoldSnapshotPath};
    request.body = encode_snapshot(snapshot);
    PeerReply<HttpResponse> reply =
        co_await client_.call(std::move(context), std::move(request), {}, kHoldGrace);
    co_return read_answer(reply, &decode_bytes_answer);
  }

  Task<PeerReply<std::string>> read(Context context, Id128 id, ByteRange range) override {
    HttpRequest request{.path = kSnapshotFilePath};
    request.query["id"] = id.to_hex();
    request.headers.set("Range", range_text(range));
    PeerReply<HttpResponse> reply =
        co_await client_.call(std::move(context), std::move(request), {}, Clock::duration(0));
    if (!reply.result) {
      co_return PeerReply<std::string>{reply.outcome, Error(reply.result.error()), reply.epoch};
    }
    if (reply.result->status != 206 || reply.result->body.size() != range.size) {
      Status wrong(StatusCode::kUnavailable,
                   fmt::format("a worker answered {} and {} bytes in place of {} of a snapshot",
                               reply.result->status, reply.result->body.size(), range.size));
      co_return PeerReply<std::string>{PeerOutcome::kUnreachable, Error(std::move(wrong)), 0};
    }
    co_return PeerReply<std::string>{reply.outcome, std::move(reply.result->body), reply.epoch};
  }

 private:
  PeerClient& client_;
};

}  // namespace

std::unique_ptr<SnapshotPeer> make_peer_snapshots(PeerClient& client) {
  return std::make_unique<PeerSnapshots>(client);
}

}  // namespace leat
