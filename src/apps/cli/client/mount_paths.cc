// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/client/mount_paths.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "apps/cli/client/daemon_client.h"
#include "config/paths.h"
#include "model/mount_entry.h"
#include "model/store_url.h"
#include "source/stores/schemes.h"

namespace leat {
namespace {

constexpr auto kTimeout = std::chrono::seconds(10);

// Returns nothing if no daemon responds.
std::optional<std::vector<MountView>> mounts_of_daemon() {
  const auto answer = DaemonClient(runtime_directory()).try_get("/v1/mounts", kTimeout);
  if (!answer) return std::nullopt;
  std::vector<MountView> mounts;
  for (const Json& item : answer->value("mounts", Json::array())) {
    if (auto mount = from_json<MountView>(item)) mounts.push_back(*std::move(mount));
  }
  return mounts;
}

// Returns the path at which a mount shows `url`; prefers the mount with the longest source.
std::optional<std::string> shown_at(const std::vector<MountView>& mounts, const StoreUrl& url) {
  const std::string wanted = url.to_string();
  const MountView* best = nullptr;
  for (const MountView& mount : mounts) {
    if (!wanted.starts_with(mount.source)) continue;
    if (best == nullptr || mount.source.size() > best->source.size()) best = &mount;
  }
  if (best == nullptr) return std::nullopt;
  std::string path = join_path(best->path, wanted.substr(best->source.size()));
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::optional<std::string> shown_at(const std::vector<MountView>& mounts,
                                    const std::string& local_path) {
  const Result<StoreUrl> url = StoreUrl::parse(local_path);
  return url ? shown_at(mounts, *url) : std::nullopt;
}

bool overlaps_mount(const std::vector<MountView>& mounts, const std::string& path) {
  return std::ranges::any_of(mounts, [&path](const MountView& mount) {
    return is_at_or_below(path, mount.path) || is_at_or_below(mount.path, path);
  });
}

Status in_no_mount(const std::vector<MountView>& mounts, const std::string& path) {
  if (const std::optional<std::string> shown = shown_at(mounts, path)) {
    return {StatusCode::kNotFound,
            fmt::format("{} is in no mount, and is the source of one: use {}", path, *shown)};
  }
  if (access(path.c_str(), F_OK) == 0) {
    return {StatusCode::kNotFound,
            fmt::format("{} is a local path in no mount; 'leat mounts' lists them", path)};
  }
  return {StatusCode::kNotFound,
          fmt::format("{} does not exist: it is in no mount, and there is no such local file; "
                      "'leat mounts' lists the mounts",
                      path)};
}

}  // namespace

CommandResult<std::string> path_in_mounts(std::string_view command, const std::string& argument) {
  if (!is_store_url(argument)) return absolute_path(argument);
  LEAT_TRY(const StoreUrl url, StoreUrl::parse(argument));
  const std::string name = url.to_string();
  const std::vector<MountView> mounts = mounts_of_daemon().value_or(std::vector<MountView>());
  if (const std::optional<std::string> shown = shown_at(mounts, url)) {
    return failure(
        StatusCode::kInvalidArgument,
        fmt::format("leat {0} takes a path in a mount, not a store's URL; {1} is mounted: "
                    "use 'leat {0} {2}'",
                    command, name, *shown));
  }
  return failure(StatusCode::kInvalidArgument,
                 fmt::format("leat {} takes a path in a mount, not a store's URL; mount it with "
                             "'leat mount {} DIR' and name the path in DIR",
                             command, name));
}

CommandResult<> check_in_mounts(const std::string& path) {
  const std::optional<std::vector<MountView>> mounts = mounts_of_daemon();
  if (!mounts || path == "/" || overlaps_mount(*mounts, path)) return {};
  return std::unexpected(Failure(in_no_mount(*mounts, path)));
}

Failure explain_missing(Failure why, const std::string& path) {
  if (why.status.code() != StatusCode::kNotFound) return why;
  const std::optional<std::vector<MountView>> mounts = mounts_of_daemon();
  // A path in a mount is not checked through the kernel, which would send a request to the daemon
  // again.
  if (mounts && !overlaps_mount(*mounts, path)) why.status = in_no_mount(*mounts, path);
  return why;
}

CommandResult<> check_not_in_mounts(const std::string& path) {
  const std::vector<MountView> mounts = mounts_of_daemon().value_or(std::vector<MountView>());
  const MountView* mount = nullptr;
  for (const MountView& one : mounts) {
    const bool nearer = mount == nullptr || one.path.size() > mount->path.size();
    if (is_at_or_below(path, one.path) && nearer) mount = &one;
  }
  if (mount == nullptr) return {};
  const std::string_view below = path_below(path, mount->path);
  return failure(
      StatusCode::kReadOnly,
      fmt::format("cannot copy to {}: no mount takes writes; copy to the store's URL, {}{} "
                  "with the options of the mount, then 'leat refresh {}' shows it",
                  path, mount->source, below, mount->path));
}

}  // namespace leat
