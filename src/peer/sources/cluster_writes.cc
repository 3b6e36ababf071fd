// SPDX-License-Identifier: Apache-2.0
#include "peer/sources/cluster_writes.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "model/mount_entry.h"
#include "peer/writing/write_peer.h"

namespace leat {
namespace {

// Attempts of a piece at the worker that has the write.
constexpr int kPieceAttempts = 3;

using Reply = PeerReply<SourceObject>;

std::string directory_of(std::string_view key) {
  if (key.ends_with('/')) key.remove_suffix(1);
  return std::string(key.substr(0, key.rfind('/') + 1));
}

PlacementKey owner_key(const StoreId& store, std::string_view key) {
  return PlacementKey::listing(store, directory_of(key));
}

Reply no_writes() {
  return {PeerOutcome::kAnswered,
          error(StatusCode::kUnsupported, "a worker of an older release takes no writes"), 0};
}

// Ends a change that must not be repeated and may have been done.
Reply settled(Reply reply, bool repeats) {
  if (reply.result || repeats) return reply;
  const bool is_unknown = reply.outcome == PeerOutcome::kAnswered
                              ? reply.result.error().code() == StatusCode::kUnavailable
                              : reply.maybe_done;
  if (!is_unknown) return reply;
  const Status why = reply.result.error();
  reply.outcome = PeerOutcome::kAnswered;
  reply.result = error(Status(StatusCode::kTimedOut, "whether it was done is not known", why));
  return reply;
}

Task<Reply> write_once(PeerPtr peer, PeerRoute route, Context context, PeerWrite request,
                       std::span<const std::byte> content, bool repeats) {
  WritePeer* const writes = peer->writes();
  if (writes == nullptr) co_return no_writes();
  Reply reply =
      co_await writes->write(std::move(context), std::move(request), std::move(route), content);
  co_return settled(std::move(reply), repeats);
}

Task<Reply> change_once(PeerPtr peer, PeerRoute route, Context context, PeerChange request,
                        bool repeats) {
  WritePeer* const writes = peer->writes();
  if (writes == nullptr) co_return no_writes();
  Reply reply = co_await writes->change(std::move(context), std::move(request), std::move(route));
  co_return settled(std::move(reply), repeats);
}

SourceObject with_key(SourceObject object, std::string key) {
  object.key = std::move(key);
  object.local = false;
  return object;
}

std::string path_text(std::string_view key) {
  return fmt::format("/{}", key.ends_with('/') ? key.substr(0, key.size() - 1) : key);
}

}  // namespace

// --- places --------------------------------------------------------------------------------------

SourceCapabilities ClusterWrites::capabilities_of(const ClusterView& view,
                                                  std::string_view key) const {
  SourceCapabilities all{.conditional_read = true};
  const Result<ResolvedKey> place = place_of(view, key);
  if (!place) return all;
  const StoreWriting& store = *place->mount->writing;
  all.writes = store.writes;
  all.write_if_absent = store.write_if_absent;
  all.write_if_version = store.write_if_version;
  all.copies = store.copies;
  all.renames = store.renames;
  all.real_directories = store.real_directories;
  all.attributes = store.attributes;
  all.sets_attributes = store.sets_attributes;
  all.renames_directories = store.renames_directories;
  all.removes_max = kChangeKeysMax;
  return all;
}

std::string ClusterWrites::why_read_only(const ClusterView& view, std::string_view key) const {
  const Result<ResolvedKey> place = place_of(view, key);
  return place ? name_ + " takes no writes" : place.error().message();
}

Result<ResolvedKey> ClusterWrites::place_of(const ClusterView& view, std::string_view key) const {
  const auto reject = [](std::string why) { return error(StatusCode::kReadOnly, std::move(why)); };
  if (is_mount_or_ancestor(view, key)) {
    return reject(
        fmt::format("{} leads to a mount of the cluster, and 'leat cluster mount' and "
                    "'leat cluster umount' change those",
                    path_text(key)));
  }
  const ResolvedKey place = resolve_key(view, key);
  if (place.mount == nullptr) {
    return reject(fmt::format("nothing is mounted at {} of the cluster", path_text(key)));
  }
  const ClusterMount& mount = *place.mount;
  if (!mount.writing) {
    return reject(
        fmt::format("an older release made the cluster's mount at {0}, and did not record "
                    "how its store takes writes; run 'leat cluster umount {0}' and mount "
                    "it again",
                    mount.path));
  }
  if (!mount.writing->writes) {
    return reject(fmt::format("the cluster's mount at {} shows {}, which takes no writes",
                              mount.path, mount.source));
  }
  return place;
}

// --- content -------------------------------------------------------------------------------------

class ClusterWrites::Writer : public ObjectWriter {
 public:
  Writer(const ClusterWrites& writes, ClusterViewSource& views, WriteRequest request)
      : writes_(writes), views_(views), request_(std::move(request)) {}

  bool is_retryable() const override { return false; }

  Task<Result<>> append(Context context, std::span<const std::byte> part,
                        AttemptTimeouts) override {
    while (!part.empty()) {
      const size_t size = std::min<size_t>(part.size(), kWriteBytesMax);
      LEAT_CO_CHECK_OK(co_await send(context, WritePiece::Step::kAppend, part.first(size)));
      offset_ += size;
      part = part.subspan(size);
    }
    co_return Result<>();
  }

  Task<Result<SourceObject>> complete(Context context, AttemptTimeouts) override {
    LEAT_CO_TRY(SourceObject object, co_await send(context, WritePiece::Step::kComplete, {}));
    co_return with_key(std::move(object), request_.key);
  }

  // A write that is not aborted ends at the worker after a minute without a piece.
  Task<Result<>> abort(Context context, AttemptTimeouts) override {
    if (peer_->peer == nullptr) co_return Result<>();
    LEAT_CO_CHECK_OK(co_await send(context, WritePiece::Step::kAbort, {}));
    co_return Result<>();
  }

 private:
  // The worker that has the write, found by the first piece.
  struct Found {
    PeerPtr peer;
    PeerRoute route;
  };

  static Task<Reply> begin(std::shared_ptr<Found> found, PeerPtr peer, PeerRoute route,
                           Context context, PeerWrite request, std::span<const std::byte> content) {
    const bool repeats = request.piece->step == WritePiece::Step::kAppend;
    Reply reply =
        co_await write_once(peer, route, std::move(context), std::move(request), content, repeats);
    if (reply.result) *found = {std::move(peer), std::move(route)};
    co_return reply;
  }

  Task<Result<SourceObject>> send(Context context, WritePiece::Step step,
                                  std::span<const std::byte> content) {
    const ClusterViewPtr view = views_.view();
    LEAT_CO_TRY(const ResolvedKey place, writes_.place_of(*view, request_.key));
    PeerWrite piece{.mount = place.mount->path,
                    .store = place.mount->store,
                    .key = place.key,
                    .condition = request_.condition,
                    .attributes = request_.attributes};
    piece.piece = WritePiece{write_, offset_, step};
    if (peer_->peer == nullptr) {
      PeerRouter::Attempt<SourceObject> attempt = [found = peer_, context, piece, content](
                                                      PeerPtr peer, PeerRoute route) {
        return begin(found, std::move(peer), std::move(route), context, piece, content);
      };
      Result<SourceObject> begun = co_await writes_.router_.request<SourceObject>(
          context, owner_key(piece.store, piece.key), fmt::format("a write of '/{}'", request_.key),
          std::move(attempt));
      co_return begun;
    }
    const bool ends = step == WritePiece::Step::kComplete;
    Reply reply = co_await write_once(peer_->peer, peer_->route, context, piece, content, !ends);
    for (int attempts = 1; attempts < kPieceAttempts && !ends; ++attempts) {
      if (reply.outcome != PeerOutcome::kUnreachable || !peer_->peer->usable()) break;
      if (!context.check("a write")) break;
      reply = co_await write_once(peer_->peer, peer_->route, context, piece, content, true);
    }
    if (reply.result || reply.outcome == PeerOutcome::kAnswered) co_return std::move(reply.result);
    co_return error(
        Status(StatusCode::kUnavailable,
               fmt::format("the worker that has the write of '/{}' does not answer", request_.key),
               reply.result.error()));
  }

  const ClusterWrites& writes_;
  ClusterViewSource& views_;
  const WriteRequest request_;
  const Id128 write_ = Id128::random();
  const std::shared_ptr<Found> peer_ = std::make_shared<Found>();
  uint64_t offset_ = 0;
};

ObjectWriterPtr ClusterWrites::begin_write(ClusterViewSource& views, WriteRequest request) const {
  return std::make_unique<Writer>(*this, views, std::move(request));
}

Task<Result<SourceObject>> ClusterWrites::write(ClusterViewPtr view, Context context,
                                                WriteRequest request,
                                                std::span<const std::byte> content) const {
  const bool is_directory = request.key.ends_with('/');
  if (is_directory && is_mount_or_ancestor(*view, request.key)) {
    SourceObject mounted;
    mounted.key = request.key;
    mounted.kind = FileKind::kDirectory;
    co_return mounted;
  }
  LEAT_CO_TRY(const ResolvedKey place, place_of(*view, request.key));
  PeerWrite base{.mount = place.mount->path,
                 .store = place.mount->store,
                 .key = place.key,
                 .condition = request.condition,
                 .attributes = request.attributes};
  const bool repeats = is_directory && !request.condition.absent;
  PeerRouter::Attempt<SourceObject> attempt = [context, base, content, repeats](PeerPtr peer,
                                                                                PeerRoute route) {
    return write_once(std::move(peer), std::move(route), context, base, content, repeats);
  };
  Result<SourceObject> written = co_await router_.request<SourceObject>(
      context, owner_key(base.store, base.key), fmt::format("a write of '/{}'", request.key),
      std::move(attempt));
  if (!written) co_return written;
  co_return with_key(*std::move(written), request.key);
}

// --- names and attributes ------------------------------------------------------------------------

Task<Result<SourceObject>> ClusterWrites::send(Context context, PeerChange change, std::string path,
                                               bool repeats) const {
  const PlacementKey owner = owner_key(change.store, change.keys.back());
  std::string what = fmt::format("a change ({}) of {}", to_string(change.op), path);
  PeerRouter::Attempt<SourceObject> attempt = [context, change = std::move(change), repeats](
                                                  PeerPtr peer, PeerRoute route) {
    return change_once(std::move(peer), std::move(route), context, change, repeats);
  };
  co_return co_await router_.request<SourceObject>(context, owner, std::move(what),
                                                   std::move(attempt));
}

Task<Result<SourceObject>> ClusterWrites::move(ClusterViewPtr view, Context context, ChangeOp op,
                                               std::string from, std::string to,
                                               bool exclusive) const {
  LEAT_CO_TRY(const ResolvedKey source, place_of(*view, from));
  LEAT_CO_TRY(const ResolvedKey target, place_of(*view, to));
  if (source.mount != target.mount) {
    co_return error(StatusCode::kCrossDevice,
                    fmt::format("{} and {} are in two mounts of the cluster; copy and remove",
                                path_text(from), path_text(to)));
  }
  PeerChange change{.op = op,
                    .mount = target.mount->path,
                    .store = target.mount->store,
                    .keys = {source.key, target.key},
                    .exclusive = exclusive};
  Result<SourceObject> moved =
      co_await send(std::move(context), std::move(change), path_text(to), /*repeats=*/false);
  if (!moved) co_return moved;
  co_return with_key(*std::move(moved), std::move(to));
}

Task<Result<SourceObject>> ClusterWrites::copy(ClusterViewPtr view, Context context,
                                               CopyRequest request) const {
  return move(std::move(view), std::move(context), ChangeOp::kCopy, std::move(request.from),
              std::move(request.to), request.if_absent);
}

Task<Result<>> ClusterWrites::rename(ClusterViewPtr view, Context context,
                                     RenameRequest request) const {
  LEAT_CO_CHECK_OK(co_await move(std::move(view), std::move(context), ChangeOp::kRename,
                                 std::move(request.from), std::move(request.to),
                                 request.no_replace));
  co_return Result<>();
}

Task<Result<SourceObject>> ClusterWrites::set_attributes(ClusterViewPtr view, Context context,
                                                         AttributesRequest request) const {
  LEAT_CO_TRY(const ResolvedKey place, place_of(*view, request.key));
  PeerChange change{.op = ChangeOp::kSetAttributes,
                    .mount = place.mount->path,
                    .store = place.mount->store,
                    .keys = {place.key},
                    .attributes = request.attributes};
  Result<SourceObject> set =
      co_await send(std::move(context), std::move(change), path_text(request.key),
                    /*repeats=*/true);
  if (!set) co_return set;
  co_return with_key(*std::move(set), request.key);
}

Task<Result<>> ClusterWrites::flush(ClusterViewPtr view, Context context, std::string key) const {
  const std::string path = path_text(key);
  for (const auto& [at, mount] : view->mounts) {
    const bool is_whole = is_at_or_below(at, path);
    if (mount.write_copies == 0 || (!is_whole && view->mount_of(path) != &mount)) continue;
    PeerChange change{.op = ChangeOp::kFlush, .mount = at, .store = mount.store};
    if (!is_whole) change.keys = {mount.prefix + std::string(path_below(path, at))};
    const std::string directory = is_whole ? mount.prefix : change.keys[0];
    std::string what = fmt::format("a flush of {}", path);
    PeerRouter::Attempt<SourceObject> attempt = [context, change](PeerPtr peer, PeerRoute route) {
      return change_once(std::move(peer), std::move(route), context, change, /*repeats=*/true);
    };
    LEAT_CO_CHECK_OK(co_await router_.request<SourceObject>(
        context, owner_key(mount.store, directory), std::move(what), std::move(attempt)));
  }
  co_return Result<>();
}

// Keys in a row with one directory go to its owner together, in their order.
Task<Result<>> ClusterWrites::remove(ClusterViewPtr view, Context context,
                                     RemoveRequest request) const {
  PeerChange change;
  std::string directory, path;
  for (size_t i = 0; i < request.keys.size(); ++i) {
    LEAT_CO_TRY(const ResolvedKey place, place_of(*view, request.keys[i]));
    const bool joins = change.mount == place.mount->path && directory == directory_of(place.key) &&
                       change.keys.size() < kChangeKeysMax;
    if (!joins && !change.keys.empty()) {
      LEAT_CO_CHECK_OK(co_await send(context, std::move(change), path, /*repeats=*/true));
      change = {};
    }
    change.op = ChangeOp::kRemove;
    change.mount = place.mount->path;
    change.store = place.mount->store;
    change.keys.push_back(place.key);
    directory = directory_of(place.key);
    path = path_text(request.keys[i]);
  }
  if (!change.keys.empty()) {
    LEAT_CO_CHECK_OK(co_await send(context, std::move(change), path, /*repeats=*/true));
  }
  co_return Result<>();
}

}  // namespace leat
