// SPDX-License-Identifier: Apache-2.0
#include "daemon/cluster_snapshots.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "catalog/snapshot_mount.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr std::string_view kClusterScheme = "leat";

}  // namespace

// Verified twice: against its record during the transfer, then as a snapshot file.
Task<Result<>> ClusterSnapshots::fetch(Context context, ClientPtr client, SharedSnapshot wanted,
                                       std::string file) {
  Result<Semaphore::Permit> turn = co_await fetching_.acquire(context, 1, "fetching a snapshot");
  if (!turn) co_return Error(turn.error());
  LEAT_CO_CHECK_OK(co_await client->snapshots().fetch(context, wanted, file));
  Result<SnapshotPtr> whole = co_await executor_.blocking([file] { return Snapshot::open(file); });
  if (whole && (*whole)->head().id == wanted.id) co_return Result<>();
  ::unlink(file.c_str());
  if (!whole) co_return Error(whole.error());
  co_return error(
      StatusCode::kCorrupt,
      fmt::format("the workers' file of the snapshot '{}' is another one", wanted.name));
}

Task<Result<std::optional<SnapshotHead>>> ClusterSnapshots::build(
    Context context, CatalogEntry folder, std::string output,
    std::function<void(const SnapshotProgress&)> progress) {
  const ClientPtr client = cluster_.client_of_source(folder.mount->source);
  if (client == nullptr) co_return std::optional<SnapshotHead>();
  auto told = [progress](const SnapshotBuild& now) {
    progress({.files = now.files, .bytes = now.bytes});
  };
  const std::string name = std::filesystem::path(output).stem();
  LEAT_CO_TRY(const SharedSnapshot made,
              co_await client->snapshots().build(context, name, folder.key(), std::move(told)));
  LEAT_CO_CHECK_OK(co_await fetch(context, client, made, output));
  LEAT_CO_TRY(SnapshotHead head,
              co_await executor_.blocking([output] { return Snapshot::read_head(output); }));
  co_return std::optional<SnapshotHead>(std::move(head));
}

Task<Result<>> ClusterSnapshots::ensure_local(Context context, SourcePtr source, std::string name) {
  const ClientPtr client = cluster_.client_of_source(source);
  if (client == nullptr) co_return Result<>();
  LEAT_CO_TRY(const std::string file, files_.file_for(name));
  Result<SnapshotHead> here =
      co_await executor_.blocking([file] { return Snapshot::read_head(file); });
  Result<SharedSnapshot> wanted = co_await client->snapshots().find(context, name);
  if (!wanted) {
    if (!here) co_return Error(wanted.error());
    log::info("{}; the one that is here is used", wanted.error().to_string());
    co_return Result<>();
  }
  if (here && here->id == wanted->id) co_return Result<>();
  if (here && here->store != cluster_names_id()) {
    co_return error(StatusCode::kExists,
                    fmt::format("the cluster has a snapshot '{0}', and this host has another one "
                                "of that name, of {1}; 'leat snapshot rm {0}' removes that",
                                name, here->source));
  }
  Result<> brought = co_await fetch(context, client, *wanted, file);
  if (!brought) {
    co_return error(brought.error().with_context(
        fmt::format("the snapshot '{}' of the cluster cannot be had", name)));
  }
  co_return Result<>();
}

Task<Result<>> ClusterSnapshots::ensure_local_for(Context context, std::string mount,
                                                  std::string name) {
  for (const MountPtr& one : catalog_.mounts()) {
    if (one->entry.path == mount) co_return co_await ensure_local(context, one->source, name);
  }
  co_return Result<>();  // its user reports the error
}

Task<Result<>> ClusterSnapshots::prepare(Context context, MountRequest* request) {
  Result<StoreUrl> url = StoreUrl::parse(request->source);
  if (!url || url->scheme != kClusterScheme) co_return Result<>();
  for (const auto& [name, value] : request->options) url->options[name] = value;
  std::string freshness = request->freshness;
  if (freshness.empty() && url->options.contains("freshness")) {
    freshness = url->options.at("freshness");
  }
  if (request->snapshot.empty() && freshness != "snapshot") co_return Result<>();
  LEAT_CO_TRY(const SourcePtr source, co_await cluster_.open_source(context, *url, true));
  if (request->snapshot.empty()) {
    const ClientPtr client = cluster_.client_of_source(source);
    LEAT_CO_TRY(const std::vector<SharedSnapshot> all, co_await client->snapshots().list(context));
    const SharedSnapshot* newest = nullptr;
    for (const SharedSnapshot& one : all) {
      if (!url->prefix.starts_with(one.folder)) continue;
      if (newest == nullptr || newest->created_ns < one.created_ns) newest = &one;
    }
    if (newest == nullptr) {
      co_return error(StatusCode::kNotFound,
                      fmt::format("the cluster has no snapshot of /{}; mount it with another "
                                  "freshness, and 'leat snapshot build --use' makes one",
                                  url->prefix));
    }
    request->snapshot = newest->name;
  }
  co_return co_await ensure_local(context, source, request->snapshot);
}

}  // namespace leat
