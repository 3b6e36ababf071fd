// SPDX-License-Identifier: Apache-2.0
#include "peer/client/peer_writes.h"

#include <utility>

#include "peer/client/peer_client.h"

namespace leat {
namespace {

class PeerWrites : public WritePeer {
 public:
  explicit PeerWrites(PeerClient& client) : client_(client) {}

  Task<PeerReply<SourceObject>> write(Context context, PeerWrite request, PeerRoute route,
                                      std::span<const std::byte> content) override {
    return send(std::move(context), to_http(request, content), std::move(route));
  }
  Task<PeerReply<SourceObject>> change(Context context, PeerChange request,
                                       PeerRoute route) override {
    return send(std::move(context), to_http(request), std::move(route));
  }

 private:
  Task<PeerReply<SourceObject>> send(Context context, HttpRequest request, PeerRoute route) {
    PeerReply<HttpResponse> reply = co_await client_.call(std::move(context), std::move(request),
                                                          std::move(route), Clock::duration(0));
    PeerReply<SourceObject> answer{.outcome = reply.outcome, .epoch = reply.epoch};
    answer.maybe_done = reply.maybe_done;
    if (!reply.result) {
      answer.result = Error(reply.result.error());
      co_return answer;
    }
    answer.result = decode_change_answer(reply.result->body);
    if (!answer.result) {
      answer.outcome = PeerOutcome::kUnreachable;
      answer.maybe_done = true;
    }
    co_return answer;
  }

  PeerClient& client_;
};

}  // namespace

std::unique_ptr<WritePeer> make_peer_writes(PeerClient& client) {
  return std::make_unique<PeerWrites>(client);
}

}  // namespace leat
