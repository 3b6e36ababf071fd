// SPDX-License-Identifier: Apache-2.0
#include "worker/writing/worker_write_service.h"

#include <fmt/format.h>

#include <utility>

#include "model/mount_entry.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter written_bytes("leat_peer_written_bytes_total",
                      "Bytes of objects that clients of the cluster wrote through this worker");
Counter changes_total("leat_peer_changes_total",
                      "Writes and other changes of stores that this worker made for clients");

constexpr Clock::duration kRefreshTimeout = std::chrono::seconds(10);

using Reply = PeerReply<SourceObject>;

std::string_view directory_of(std::string_view key) {
  if (key.ends_with('/')) key.remove_suffix(1);
  return key.substr(0, key.rfind('/') + 1);
}

Reply answered(Result<SourceObject> result, const ClusterView& view) {
  return {PeerOutcome::kAnswered, std::move(result), view.ring.epoch()};
}

// A worker that does not have the mount (yet) is not the right one; others may answer.
Reply rejected(const Status& why, const ClusterView& view) {
  const bool elsewhere = why.code() == StatusCode::kBusy;
  return {elsewhere ? PeerOutcome::kNotOwner : PeerOutcome::kAnswered, Error(why),
          view.ring.epoch()};
}

// Returns whether the store may have changed.
bool may_have_changed(const Result<SourceObject>& done) {
  if (done) return true;
  const StatusCode code = done.error().code();
  return code == StatusCode::kUnavailable || code == StatusCode::kTimedOut ||
         code == StatusCode::kCancelled;
}

bool is_owner(const ClusterView& view, const WorkerId& self, const StoreId& store,
              std::string_view key, const PeerRoute& route) {
  return route.failover_for.has_value() ||
         view.ring.owner(PlacementKey::listing(store, std::string(directory_of(key)))) == self;
}

uint32_t copies_of(const ClusterView& view, const std::string& mount) {
  const auto found = view.mounts.find(mount);
  return found == view.mounts.end() ? 0 : found->second.write_copies;
}

Reply ending() {
  return {PeerOutcome::kRejected, error(StatusCode::kCancelled, "this worker is ending"), 0};
}

Reply not_owner(const ClusterView& view) {
  return {PeerOutcome::kNotOwner,
          error(StatusCode::kBusy, "another worker owns this by the ring of this worker"),
          view.ring.epoch()};
}

}  // namespace

Result<SourcePtr> WorkerWriteService::source_of(const ClusterView& view, const std::string& mount,
                                                const StoreId& store,
                                                const std::vector<std::string>& keys) const {
  const auto found = view.mounts.find(mount);
  if (found == view.mounts.end()) {
    return error(StatusCode::kBusy, fmt::format("{} is not known to this worker (yet)", mount));
  }
  const ClusterMount& target = found->second;
  for (const std::string& key : keys) {
    const bool is_below = target.store == store && key.starts_with(target.prefix) &&
                          key.size() > target.prefix.size();
    if (!is_below) {
      return error(StatusCode::kPermissionDenied,
                   fmt::format("'{}' does not belong to the mount at {}", key, mount));
    }
    std::string_view below = std::string_view(key).substr(target.prefix.size());
    if (below.ends_with('/')) below.remove_suffix(1);
    const std::string path = join_path(mount, below);
    if (view.mount_of(path) != &target) {
      return error(StatusCode::kReadOnly,
                   fmt::format("{} is hidden by another mount of the cluster", path));
    }
  }
  for (const MountPtr& one : deps_.catalog.mounts()) {
    if (one->entry.path != mount) continue;
    if (one->source->capabilities().writes) return one->source;
    return error(StatusCode::kReadOnly, fmt::format("the cluster's mount at {} shows {}, which "
                                                    "takes no writes",
                                                    mount, one->source->name()));
  }
  return error(
      StatusCode::kBusy,
      fmt::format("the mount at {} is not served by this worker (yet); its log says why", mount));
}

Task<Reply> WorkerWriteService::write(Context context, PeerWrite request, PeerRoute route,
                                      std::span<const std::byte> content) {
  const auto holder = gate_.enter();
  if (!holder) co_return ending();
  const ClusterViewPtr view = deps_.views.view();
  const std::string mount = request.mount, key = request.key;
  request.copies = copies_of(*view, mount);
  Result<SourcePtr> source = source_of(*view, mount, request.store, {key});
  if (!source) co_return rejected(source.error(), *view);
  // The pieces of a write stay here, whatever happens to the ring.
  const bool goes_on = request.piece && request.piece->offset != 0;
  if (!goes_on && !is_owner(*view, deps_.self, request.store, key, route)) {
    co_return not_owner(*view);
  }
  const bool is_end = !request.piece || request.piece->step == WritePiece::Step::kComplete;
  Result<std::optional<SourceObject>> done =
      co_await write_now(std::move(context), *source, std::move(request), content);
  Result<SourceObject> written = SourceObject();
  if (!done) written = Error(done.error());
  if (done && *done) written = **std::move(done);
  if (written) written_bytes.add(content.size());
  if (is_end && may_have_changed(written)) co_await publish(view, mount, {key});
  co_return answered(std::move(written), *view);
}

bool WorkerWriteService::is_staged(const std::string& mount, uint32_t copies) const {
  return deps_.staging != nullptr && (copies > 0 || deps_.staging->is_active(mount));
}

Task<Result<std::optional<SourceObject>>> WorkerWriteService::write_now(
    Context context, SourcePtr source, PeerWrite request, std::span<const std::byte> content) {
  if (is_staged(request.mount, request.copies)) {
    co_return co_await deps_.staging->write(std::move(context), std::move(request), content);
  }
  if (request.piece) {
    co_return co_await sessions_.step(std::move(context), std::move(source), std::move(request),
                                      content);
  }
  LEAT_CO_TRY(SourceObject written, co_await write_whole(std::move(context), std::move(source),
                                                         std::move(request), content));
  co_return std::move(written);
}

Task<Result<SourceObject>> WorkerWriteService::write_whole(Context context, SourcePtr source,
                                                           PeerWrite request,
                                                           std::span<const std::byte> content) {
  Result<Semaphore::Permit> permit =
      co_await content_bytes_.acquire(context, content.size(), "other writes of this worker");
  if (!permit) co_return Error(permit.error());
  WriteRequest write{
      .key = request.key, .condition = request.condition, .attributes = request.attributes};
  co_return co_await source->write(std::move(context), std::move(write), content);
}

Task<Reply> WorkerWriteService::change(Context context, PeerChange request, PeerRoute route) {
  const auto holder = gate_.enter();
  if (!holder) co_return ending();
  const ClusterViewPtr view = deps_.views.view();
  Result<SourcePtr> source = source_of(*view, request.mount, request.store, request.keys);
  if (!source) co_return rejected(source.error(), *view);
  if (request.op == ChangeOp::kFlush) {
    Result<SourceObject> flushed =
        co_await change_now(std::move(context), *source, std::move(request));
    co_return answered(std::move(flushed), *view);
  }
  if (!is_owner(*view, deps_.self, request.store, request.keys.back(), route)) {
    co_return not_owner(*view);
  }
  const std::string mount = request.mount;
  request.copies = copies_of(*view, mount);
  std::vector<std::string> keys = request.keys;
  if (request.op == ChangeOp::kCopy) keys.erase(keys.begin());
  const bool renames = request.op == ChangeOp::kRename;
  Result<SourceObject> changed =
      co_await change_now(std::move(context), *source, std::move(request));
  if (may_have_changed(changed)) co_await publish(view, mount, std::move(keys), renames);
  co_return answered(std::move(changed), *view);
}

Task<Result<SourceObject>> WorkerWriteService::change_now(Context context, SourcePtr source,
                                                          PeerChange request) {
  if (is_staged(request.mount, request.copies)) {
    co_return co_await deps_.staging->change(std::move(context), std::move(request));
  }
  std::vector<std::string>& keys = request.keys;
  Result<> done;
  switch (request.op) {
    case ChangeOp::kCopy: {
      CopyRequest copy{.from = keys[0], .to = keys[1], .if_absent = request.exclusive};
      co_return co_await source->copy(std::move(context), std::move(copy));
    }
    case ChangeOp::kSetAttributes: {
      AttributesRequest set{.key = keys[0], .attributes = request.attributes};
      co_return co_await source->set_attributes(std::move(context), std::move(set));
    }
    case ChangeOp::kRename: {
      RenameRequest rename{.from = keys[0], .to = keys[1], .no_replace = request.exclusive};
      done = co_await source->rename(std::move(context), std::move(rename));
      break;
    }
    case ChangeOp::kFlush:
      break;  // the store has all
    case ChangeOp::kRemove: {
      RemoveRequest remove{.keys = std::move(keys)};
      done = co_await source->remove(std::move(context), std::move(remove));
      break;
    }
  }
  if (!done) co_return Error(done.error());
  co_return SourceObject();
}

Task<> WorkerWriteService::stop() {
  gate_.close();
  co_await gate_.wait_idle();
  co_await sessions_.stop();
}

Task<> WorkerWriteService::publish(ClusterViewPtr view, std::string mount,
                                   std::vector<std::string> keys, bool whole_trees) {
  changes_total.add();
  const Context context = Context::background().with_timeout(kRefreshTimeout);
  const std::string& prefix = view->mounts.at(mount).prefix;
  for (const std::string& key : keys) {
    std::string_view below = std::string_view(key).substr(prefix.size());
    const bool is_directory = below.ends_with('/');
    if (is_directory) below.remove_suffix(1);
    const std::string path = join_path(mount, below);
    // Cached listings below a directory that was renamed or removed are of the former one.
    if (is_directory) deps_.catalog.invalidate(path);
    Result<RefreshResult> refreshed = co_await deps_.catalog.refresh_name(context, path);
    if (!refreshed) {
      log::info("{} is listed again after a change: {}", path, refreshed.error().to_string());
      deps_.catalog.invalidate(path);
    }
    const std::string_view shown = is_directory && !whole_trees
                                       ? std::string_view(key).substr(0, key.size() - 1)
                                       : std::string_view(key);
    if (deps_.on_change) deps_.on_change(mount, std::string(shown));
  }
}

}  // namespace leat
