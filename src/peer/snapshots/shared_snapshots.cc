// SPDX-License-Identifier: Apache-2.0
#include "peer/snapshots/shared_snapshots.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/crc32c.h"
#include "runtime/disk.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// Downloads with a wrong checksum before an error; each begins at another worker.
constexpr size_t kCorruptMax = 3;

template <class T>
PeerReply<T> unsupported() {
  return {PeerOutcome::kUnreachable,
          error(StatusCode::kUnsupported, "this worker knows no snapshots; upgrade it"), 0};
}

Task<PeerReply<std::vector<SharedSnapshot>>> list_from(PeerPtr peer, Context context) {
  SnapshotPeer* snapshots = peer->snapshots();
  if (snapshots == nullptr) co_return unsupported<std::vector<SharedSnapshot>>();
  co_return co_await snapshots->list(std::move(context));
}

Task<PeerReply<SnapshotBuild>> build_at(PeerPtr peer, Context context, SnapshotRequest request,
                                        PeerRoute route) {
  SnapshotPeer* snapshots = peer->snapshots();
  if (snapshots == nullptr) co_return unsupported<SnapshotBuild>();
  co_return co_await snapshots->build(std::move(context), std::move(request), std::move(route));
}

Task<PeerReply<uint64_t>> remove_at(PeerPtr peer, Context context, std::string name) {
  SnapshotPeer* snapshots = peer->snapshots();
  if (snapshots == nullptr) co_return unsupported<uint64_t>();
  co_return co_await snapshots->remove(std::move(context), std::move(name));
}

std::string partial_of(const std::string& path) {
  return path + ".partial";
}

// A blocking call may hold the file a moment longer than the cancelled caller. So the destructor
// removes nothing: another download may already use the path.
class PartialFile {
 public:
  explicit PartialFile(std::string path) : path_(std::move(path)) {}

  Result<> create() {
    file_ = File(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file_) return error(status_from_errno(errno, "create " + path_));
    return {};
  }
  Result<> append(std::string_view bytes) {
    crc_ = crc32c(std::as_bytes(std::span(bytes)), crc_);
    while (!bytes.empty()) {
      const ssize_t wrote = ::write(file_.fd(), bytes.data(), bytes.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return error(status_from_errno(errno, "write " + path_));
      bytes.remove_prefix(static_cast<size_t>(wrote));
    }
    return {};
  }
  uint32_t crc() const { return crc_; }
  Result<> keep_as(const std::string& path) {
    if (::fdatasync(file_.fd()) != 0) return error(status_from_errno(errno, "sync " + path_));
    if (::rename(path_.c_str(), path.c_str()) != 0) {
      return error(status_from_errno(errno, "rename to " + path));
    }
    return {};
  }

 private:
  const std::string path_;
  File file_;
  uint32_t crc_ = 0;
};

}  // namespace

Task<Result<std::vector<SharedSnapshot>>> SharedSnapshots::list(Context context) const {
  PeerRouter::Attempt<std::vector<SharedSnapshot>> attempt =
      [context](PeerPtr peer, const PeerRoute&) { return list_from(std::move(peer), context); };
  return router_.request<std::vector<SharedSnapshot>>(context, snapshot_placement(""),
                                                      "its snapshots", std::move(attempt));
}

Task<Result<SharedSnapshot>> SharedSnapshots::find(Context context, std::string name) const {
  LEAT_CO_TRY(const std::vector<SharedSnapshot> all, co_await list(context));
  const auto found = std::ranges::find(all, name, &SharedSnapshot::name);
  if (found != all.end()) co_return *found;
  co_return error(StatusCode::kNotFound,
                  fmt::format("the cluster has no snapshot '{}'; 'leat snapshot ls PATH' lists "
                              "them, 'leat snapshot build PATH' makes one",
                              name));
}

Task<Result<SharedSnapshot>> SharedSnapshots::build(
    Context context, std::string name, std::string folder,
    std::function<void(const SnapshotBuild&)> progress) const {
  const SnapshotRequest request{
      .name = name, .folder = std::move(folder), .run = Id128::random().to_hex()};
  PeerRouter::Attempt<SnapshotBuild> attempt = [context, request](PeerPtr peer, PeerRoute route) {
    return build_at(std::move(peer), context, request, std::move(route));
  };
  while (true) {
    Result<SnapshotBuild> now = co_await router_.request<SnapshotBuild>(
        context, snapshot_placement(name), fmt::format("the snapshot '{}'", name), attempt);
    if (!now) co_return Error(now.error());
    if (progress) progress(*now);
    if (now->built) co_return *std::move(now->built);
    LEAT_CO_CHECK_OK(context.check("making a snapshot"));
  }
}

Task<Result<>> SharedSnapshots::remove(Context context, std::string name) const {
  PeerRouter::Attempt<uint64_t> attempt = [context, name](PeerPtr peer, const PeerRoute&) {
    return remove_at(std::move(peer), context, name);
  };
  Result<uint64_t> removed = co_await router_.request<uint64_t>(
      context, snapshot_placement(name), fmt::format("the snapshot '{}'", name),
      std::move(attempt));
  if (!removed) co_return Error(removed.error());
  co_return Result<>();
}

// Returns the likely holders in order: the ring's candidates, then all other workers.
std::vector<WorkerId> SharedSnapshots::holders(const std::string& name) const {
  const ClusterViewPtr view = views_.view();
  std::vector<WorkerId> all =
      view->ring.candidates(snapshot_placement(name), view->ring.members().size());
  for (const auto& [id, worker] : view->workers) {
    if (std::ranges::find(all, id) == all.end()) all.push_back(id);
  }
  return all;
}

Task<Result<std::string>> SharedSnapshots::piece(Context context, SharedSnapshot snapshot,
                                                 ByteRange range,
                                                 std::vector<WorkerId> from) const {
  std::vector<std::string> failures;
  for (const WorkerId& id : from) {
    const PeerPtr peer = peers_.find(id);
    SnapshotPeer* snapshots = peer == nullptr ? nullptr : peer->snapshots();
    if (snapshots == nullptr || !peer->usable()) {
      failures.push_back(peers_.name_of(id) + " does not respond");
      continue;
    }
    PeerReply<std::string> reply = co_await snapshots->read(context, snapshot.id, range);
    if (reply.result && reply.result->size() == range.size) co_return std::move(reply.result);
    LEAT_CO_CHECK_OK(context.check("fetching a snapshot"));
    if (!reply.result) {
      failures.push_back(
          fmt::format("{}: {}", peers_.name_of(id), reply.result.error().to_string()));
    }
  }
  co_return error(StatusCode::kUnavailable,
                  fmt::format("no worker that answers has the snapshot '{}': {}", snapshot.name,
                              fmt::join(failures, "; ")));
}

Task<Result<>> SharedSnapshots::download(Context context, SharedSnapshot snapshot, std::string path,
                                         std::vector<WorkerId> from) const {
  auto file = std::make_shared<PartialFile>(partial_of(path));
  LEAT_CO_CHECK_OK(file->create());
  for (uint64_t at = 0; at < snapshot.file_bytes;) {
    const ByteRange range{at, std::min(kSnapshotPieceBytes, snapshot.file_bytes - at)};
    Result<std::string> bytes = co_await piece(context, snapshot, range, from);
    if (!bytes) co_return Error(bytes.error());
    auto append = [file, bytes = *std::move(bytes)] { return file->append(bytes); };
    Result<> written = co_await executor_.blocking(std::move(append));
    if (!written) co_return written;
    at += range.size;
  }
  if (file->crc() != snapshot.crc) {
    co_return error(
        StatusCode::kCorrupt,
        fmt::format("the file of the snapshot '{}' does not match its checksum", snapshot.name));
  }
  auto keep = [file, path] { return file->keep_as(path); };
  co_return co_await executor_.blocking(std::move(keep));
}

Task<Result<>> SharedSnapshots::fetch(Context context, SharedSnapshot snapshot,
                                      std::string path) const {
  std::vector<WorkerId> from = holders(snapshot.name);
  Result<> fetched = error(StatusCode::kUnavailable, "the cluster has no workers");
  for (size_t tries = 0; tries < std::min(kCorruptMax, from.size()); ++tries) {
    fetched = co_await download(context, snapshot, path, from);
    if (!fetched) ::unlink(partial_of(path).c_str());
    if (fetched || fetched.error().code() != StatusCode::kCorrupt) co_return fetched;
    log::warning("{}; {} is tried last", fetched.error().to_string(), peers_.name_of(from.front()));
    std::ranges::rotate(from, from.begin() + 1);
  }
  co_return fetched;
}

}  // namespace leat
