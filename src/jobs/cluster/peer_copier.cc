// SPDX-License-Identifier: Apache-2.0
#include "jobs/cluster/peer_copier.h"

#include <fmt/format.h>

#include <utility>

#include "peer/mounts/mount_lookup.h"

namespace leat {

class PeerCopier::OneCopy : public FileCopy {
 public:
  OneCopy(const PeerCopier& copier, FileRefPtr file, CopySpec spec)
      : copier_(copier), file_(std::move(file)), spec_(std::move(spec)) {
    spec_.copy = Id128::random();
  }

  Task<Result<CopyStep>> step(Context context, ByteRange range) override {
    if (range.offset == 0) co_return co_await first(context, range);
    PeerCopy next = request_;
    next.range = range;
    PeerReply<CopyStep> reply = co_await worker_->copy(context, std::move(next));
    if (reply.outcome == PeerOutcome::kAnswered) co_return std::move(reply.result);
    const auto alive = context.check("a copy");
    const StatusCode code = alive ? StatusCode::kUnavailable : alive.error().code();
    co_return error(code, fmt::format("the worker that copied it is lost: {}",
                                      reply.result.error().to_string()));
  }

 private:
  // Records the peer that receives the first step; the further ones go to it, too.
  static Task<PeerReply<CopyStep>> ask(Context context, PeerPtr peer, PeerCopy request,
                                       PeerPtr* routed) {
    *routed = peer;
    co_return co_await peer->copy(std::move(context), std::move(request));
  }

  Task<Result<CopyStep>> first(Context context, ByteRange range) {
    const ClusterViewPtr view = copier_.views_.view();
    const ResolvedKey at = resolve_key(*view, file_->key);
    if (at.mount == nullptr) {
      co_return error(StatusCode::kNotFound,
                      fmt::format("nothing is mounted at /{} of the cluster any more", file_->key));
    }
    request_.mount = at.mount->path;
    request_.file = std::make_shared<const FileRef>(
        FileRef::make(at.mount->store, at.key, file_->version, file_->size));
    request_.range = range;
    request_.spec = spec_;
    const PeerCopy request = request_;
    PeerPtr* const routed = &worker_;
    PeerRouter::Attempt<CopyStep> send = [context, request, routed](PeerPtr peer, PeerRoute) {
      return ask(context, std::move(peer), request, routed);
    };
    const auto key = PlacementKey::stripe(request.file->store, request.file->key, 0);
    co_return co_await copier_.router_.request<CopyStep>(
        context, key, fmt::format("'/{}'", file_->key), std::move(send));
  }

  const PeerCopier& copier_;
  const FileRefPtr file_;
  CopySpec spec_;
  PeerCopy request_;
  PeerPtr worker_;  // the worker of this copy
};

std::unique_ptr<FileCopy> PeerCopier::begin(FileRefPtr file, CopySpec spec) {
  return std::make_unique<OneCopy>(*this, std::move(file), std::move(spec));
}

}  // namespace leat
