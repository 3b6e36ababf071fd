// SPDX-License-Identifier: Apache-2.0
#include "jobs/cluster/peer_copier.h"

#include <fmt/format.h>

#include <utility>

#include "peer/mounts/mount_lookup.h"

namespace leat {

class PeerCopier::OneCopy : public FileCopy {
 public:
  OneCopy(const PeerCopier& copier, FileRefPtr file, CopyGoal goal)
      : copier_(copier), file_(std::move(file)), goal_(std::move(goal)) {
    goal_.copy = Id128::random();
  }

  Task<Result<CopyStep>> step(Context context, ByteRange range) override {
    if (range.offset == 0) co_return co_await first(context, range);
    PeerCopy next = question_;
    next.range = range;
    PeerReply<CopyStep> reply = co_await worker_->copy(context, std::move(next));
    if (reply.reach == PeerReach::kAnswered) co_return std::move(reply.result);
    const auto alive = context.check("a copy");
    const StatusCode code = alive ? StatusCode::kUnavailable : alive.error().code();
    co_return error(code, fmt::format("the worker that copied it is lost: {}",
                                      reply.result.error().to_string()));
  }

 private:
  // Records the peer that receives the first step; the further ones go to it, too.
  static Task<PeerReply<CopyStep>> ask(Context context, PeerPtr peer, PeerCopy question,
                                       PeerPtr* asked) {
    *asked = peer;
    co_return co_await peer->copy(std::move(context), std::move(question));
  }

  Task<Result<CopyStep>> first(Context context, ByteRange range) {
    const ClusterViewPtr view = copier_.map_.view();
    const MountedKey at = find_mounted(*view, file_->key);
    if (at.mount == nullptr) {
      co_return error(StatusCode::kNotFound,
                      fmt::format("nothing is mounted at /{} of the cluster any more", file_->key));
    }
    question_.mount = at.mount->path;
    question_.file = std::make_shared<const FileRef>(
        FileRef::make(at.mount->store, at.key, file_->version, file_->size));
    question_.range = range;
    question_.goal = goal_;
    const PeerCopy question = question_;
    PeerPtr* const asked = &worker_;
    PeerRouter::Ask<CopyStep> asking = [context, question, asked](PeerPtr peer, PeerRoute) {
      return ask(context, std::move(peer), question, asked);
    };
    const auto key = PlacementKey::stripe(question.file->store, question.file->key, 0);
    co_return co_await copier_.router_.ask<CopyStep>(context, key, fmt::format("'/{}'", file_->key),
                                                     std::move(asking));
  }

  const PeerCopier& copier_;
  const FileRefPtr file_;
  CopyGoal goal_;
  PeerCopy question_;
  PeerPtr worker_;  // the worker of this copy
};

std::unique_ptr<FileCopy> PeerCopier::begin(FileRefPtr file, CopyGoal goal) {
  return std::make_unique<OneCopy>(*this, std::move(file), std::move(goal));
}

}  // namespace leat
