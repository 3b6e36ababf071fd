// SPDX-License-Identifier: Apache-2.0
#include "daemon/inspection.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>

#include "frontends/admin/codec.h"
#include "http/json_fields.h"
#include "model/pool.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

constexpr const char* kReadmeBegin =
    "This directory tells about the folder that it is in, which Leat shows. It is in no listing\n"
    "and no part of the data: find, cp -r, rsync and du do not see it. Each look is of this "
    "moment.\n"
    "\n";
constexpr const char* kReadmeFiles =
    "  status    this mount, as JSON: source, options, freshness, what it uses of the kernel,\n"
    "            what is cached of it, and how reads were answered\n"
    "  errors    why paths could not be looked up, listed, read or changed: a line of JSON each,\n"
    "            the newest last, 1,000 at most, since the daemon started\n"
    "  metrics   of the daemon, without those of other folders and stores, as Prometheus takes "
    "them\n"
    "\n"
    "Of one file: getfattr -d FILE, and getfattr -n user.leat.last_error FILE.\n"
    "To be without it: leat mount --no-inspection. A name .leat in the store hides it.\n";

// The kernel itself answers EROFS in a mount that is `ro`, so `errors` has no line of it.
std::string readme_text(const InspectionView& view) {
  std::string text = kReadmeBegin;
  if (!view.mounts.empty() && view.mounts.front().read_only) {
    const MountView& mount = view.mounts.front();
    text += fmt::format(
        "This mount is read-only, since it was not made with --writable: each change fails with\n"
        "EROFS (Read-only file system), without a line in `errors`. To change files here:\n"
        "  leat umount {0} && leat mount --writable {1} {0}\n"
        "or write to the store: leat cp FILE {1}\n"
        "\n",
        mount.path, mount.source);
  }
  return text + kReadmeFiles;
}

std::string time_text(WallTime time) {
  const auto part = std::chrono::floor<std::chrono::milliseconds>(time);
  const auto second = std::chrono::floor<std::chrono::seconds>(part);
  return fmt::format("{:%FT%T}.{:03}Z", second, (part - second).count());
}

std::string errors_text(const FileSystem& files) {
  std::string text;
  for (const PathError& error : files.errors()) {
    // Ordered for human readers.
    nlohmann::ordered_json line = {{"time", time_text(error.time)},
                                   {"code", to_string(error.code)}};
    for (const auto& [name, value] : {std::pair("path", &error.path), {"reason", &error.reason}}) {
      Json bytes = Json::object();
      put_bytes(bytes, name, *value);
      for (const auto& [member, part] : bytes.items()) line[member] = part;
    }
    if (error.caller.pid != 0) {
      line["pid"] = error.caller.pid;
      line["program"] = error.caller.program;
    }
    text += line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    text += '\n';
  }
  return text;
}

// Sums the pools of the mounts, and of paths in them with their own pool.
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

// Counts of the folder's reads by how they were answered: in place, or after a wait.
Json reads_json(const std::string& folder) {
  const std::string before = metric_label("folder", folder) + R"(,path=")";
  Json reads = Json::object();
  for (const MetricSample& sample : metrics_samples()) {
    if (sample.name != "leat_vfs_reads_total" || !sample.labels.starts_with(before)) continue;
    const size_t size = sample.labels.size() - before.size() - 1;
    reads[sample.labels.substr(before.size(), size)] = sample.value;
  }
  return reads;
}

bool shows(const InspectionView& view, const std::string& store) {
  return std::ranges::any_of(view.mounts, [&store](const MountView& mount) {
    return mount.source == store || mount.source.starts_with(store + "/");
  });
}

// Users of one folder must not learn about others.
bool concerns(std::string_view labels, const std::string& folder, const InspectionView& view) {
  constexpr std::string_view kFolder = R"(folder=")", kStore = R"(store=")";
  if (labels.starts_with(kFolder)) return labels.starts_with(metric_label("folder", folder));
  if (!labels.starts_with(kStore)) return true;
  labels.remove_prefix(kStore.size());
  return shows(view, std::string(labels.substr(0, labels.find('"'))));
}

Json unavailable_json(const InspectionView& view) {
  std::vector<UnavailableView> stores;
  std::ranges::copy_if(view.unavailable, std::back_inserter(stores),
                       [&view](const UnavailableView& one) { return shows(view, one.store); });
  return to_json(stores);
}

std::string status_text(const std::string& folder, const FileSystem& files,
                        const InspectionView& view) {
  Json status = {{"version", view.version},
                 {"time", time_text(std::chrono::system_clock::now())},
                 {"uptime_seconds", view.uptime_seconds},
                 {"restarts", view.restarts},
                 {"cache", cache_json(view)},
                 {"fetch",
                  {{"memory_bytes", view.memory_bytes},
                   {"memory_bytes_max", view.memory_bytes_max},
                   {"requests_in_flight", view.requests_in_flight}}},
                 {"reads", reads_json(folder)},
                 {"unavailable", unavailable_json(view)},
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

std::vector<VirtualFile> inspection_files(std::string folder, const FileSystem& files,
                                          std::function<InspectionView()> view) {
  return {{"README", [view] { return readme_text(view()); }},
          {"errors", [&files] { return errors_text(files); }},
          {"metrics",
           [folder, view] {
             return metrics_text([&folder, now = view()](std::string_view labels) {
               return concerns(labels, folder, now);
             });
           }},
          {"status", [folder, &files, view] { return status_text(folder, files, view()); }}};
}

}  // namespace leat
