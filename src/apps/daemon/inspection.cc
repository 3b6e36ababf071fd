// SPDX-License-Identifier: Apache-2.0
#include "apps/daemon/inspection.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>

#include "doors/admin/codec.h"
#include "doors/admin/json_fields.h"
#include "model/pool.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

constexpr const char* kReadme =
    "This directory tells about the folder that it is in, which Leat shows. It is in no listing\n"
    "and no part of the data: find, cp -r, rsync and du do not see it. Each look is of this "
    "moment.\n"
    "\n"
    "  status    this mount, as JSON: source, options, freshness, what it uses of the kernel,\n"
    "            what is cached of it, and how reads were answered (of all mounts of its daemon)\n"
    "  errors    why paths could not be looked up, listed, read or changed: a line of JSON each,\n"
    "            the newest last, 1,000 at most, since the daemon started\n"
    "  metrics   counters of the daemon, as Prometheus takes them\n"
    "\n"
    "Of one file: getfattr -d FILE, and getfattr -n user.leat.last_error FILE.\n"
    "To be without it: leat mount --no-inspection. A name .leat in the store hides it.\n";

std::string time_text(WallTime time) {
  const auto part = std::chrono::floor<std::chrono::milliseconds>(time);
  const auto second = std::chrono::floor<std::chrono::seconds>(part);
  return fmt::format("{:%FT%T}.{:03}Z", second, (part - second).count());
}

std::string errors_text(const FileSystem& files) {
  std::string text;
  for (const PathError& error : files.errors()) {
    // In the order in which a person reads it.
    nlohmann::ordered_json line = {{"time", time_text(error.time)},
                                   {"code", to_string(error.code)}};
    for (const auto& [name, value] : {std::pair("path", &error.path), {"reason", &error.reason}}) {
      Json bytes = Json::object();
      put_bytes(bytes, name, *value);
      for (const auto& [member, part] : bytes.items()) line[member] = part;
    }
    text += line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    text += '\n';
  }
  return text;
}

// Of the mounts and of the paths in them that have a pool of their own.
uint64_t cached_bytes(const InspectionView& view) {
  std::vector<PoolId> wanted;
  for (const MountView& mount : view.mounts) {
    wanted.push_back(pool_of_mount(mount.path));
    for (const auto& [path, options] : mount.paths) {
      wanted.push_back(pool_of_path(mount.path + "/" + path));
    }
  }
  uint64_t bytes = 0;
  for (const PoolStats& pool : view.cache.pools) {
    if (std::ranges::find(wanted, pool.id) != wanted.end()) bytes += pool.used_bytes;
  }
  return bytes;
}

Json cache_json(const InspectionView& view) {
  const auto& directories = view.cache.directories;
  const auto failing = std::ranges::count_if(directories, [](const DirectoryStats& directory) {
    return directory.state != DirectoryState::kNormal;
  });
  return {{"mount_bytes", cached_bytes(view)},
          {"used_bytes", view.cache.stats.used_bytes},
          {"capacity_bytes", view.cache.stats.capacity_bytes},
          {"evicted_bytes", view.cache.stats.evicted_bytes},
          {"directories", directories.size()},
          {"directories_failing", failing}};
}

// How reads were answered, by all mounts of the daemon since it started.
Json reads_json() {
  Json reads = Json::object();
  for (const MetricSample& sample : metrics_samples()) {
    if (sample.name != "leat_vfs_reads_total") continue;
    const size_t begin = sample.labels.find('"'), end = sample.labels.rfind('"');
    if (begin == std::string::npos || end <= begin) continue;
    reads[sample.labels.substr(begin + 1, end - begin - 1)] = sample.value;
  }
  return reads;
}

std::string status_text(const FileSystem& files, const InspectionView& view) {
  Json status = {{"version", view.version},
                 {"time", time_text(std::chrono::system_clock::now())},
                 {"uptime_seconds", view.uptime_seconds},
                 {"restarts", view.restarts},
                 {"cache", cache_json(view)},
                 {"fetch",
                  {{"memory_bytes", view.memory_bytes},
                   {"memory_bytes_max", view.memory_bytes_max},
                   {"requests_in_flight", view.requests_in_flight}}},
                 {"reads", reads_json()},
                 {"inside", Json::array()}};
  for (const MountView& mount : view.mounts) {
    if (&mount == &view.mounts.front()) {
      status["mount"] = to_json(mount);
    } else {
      status["inside"].push_back(to_json(mount));
    }
  }
  const std::vector<PathError> errors = files.errors();
  status["errors"] = errors.size();
  return dump_json(status, 2) + "\n";
}

}  // namespace

std::vector<InspectionFile> inspection_files(const FileSystem& files,
                                             std::function<InspectionView()> view) {
  return {{"README", [] { return std::string(kReadme); }},
          {"errors", [&files] { return errors_text(files); }},
          {"metrics", [] { return metrics_text(); }},
          {"status", [&files, view = std::move(view)] { return status_text(files, view()); }}};
}

}  // namespace leat
