// SPDX-License-Identifier: Apache-2.0
#include "daemon/findings/status_findings.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <string_view>
#include <utility>

#include "base/units.h"
#include "daemon/findings/path_failures.h"
#include "frontends/fuse/fuse_server.h"

namespace leat {
namespace {

// Share of the open files limit above which there is a finding.
constexpr double kOpenFilesNear = 0.8;

void add_directories(const DaemonStatus& status, Findings& findings) {
  for (const DirectoryStats& directory : status.cache.directories) {
    Finding finding{.name = "daemon.cache", .subject = directory.path};
    if (directory.state != DirectoryState::kNormal) {
      finding.level = Level::kProblem;
      finding.what = fmt::format("{}: {}", to_string(directory.state), directory.why);
      finding.cost = directory.state == DirectoryState::kDown
                         ? "what it held is fetched from the store again"
                         : "it caches nothing new";
      finding.action = "sudo dmesg | tail, for its disk; it is tried again by itself";
    } else if (directory.stats.corrupt_blocks != 0) {
      finding.level = Level::kNote;
      finding.what = fmt::format("{} corrupt blocks were dropped", directory.stats.corrupt_blocks);
      finding.cost = "they were fetched again; a disk that changes bytes is about to fail";
      finding.action = "leat cache verify; sudo smartctl -a of its disk";
    } else {
      continue;
    }
    findings.push_back(std::move(finding));
  }
  if (const uint64_t refused = status.cache.stats.rejected_bytes; refused > 0) {
    findings.push_back({.level = Level::kNote,
                        .name = "daemon.room",
                        .what = fmt::format("{} were not cached for lack of space since it started",
                                            format_bytes(refused)),
                        .cost = "they are fetched again at the next read",
                        .action = "more room (cache.size), or a quota of other mounts"});
  }
}

double total(const DaemonStatus& status, std::string_view name) {
  double sum = 0;
  for (auto at = status.counters.lower_bound(std::string(name)); at != status.counters.end();
       ++at) {
    const std::string_view key = at->first;
    if (!key.starts_with(name)) break;
    if (key.size() == name.size() || key[name.size()] == '{') sum += at->second;
  }
  return sum;
}

std::string times(double count) {
  return count == 1 ? "once" : fmt::format("{:.0f} times", count);
}

void add_stores(const DaemonStatus& status, Findings& findings) {
  if (const double opened = total(status, "leat_source_circuit_opened_total"); opened > 0) {
    findings.push_back(
        {.level = Level::kNote,
         .name = "daemon.stores",
         .what = fmt::format("circuit breakers of stores opened {} since it started, because "
                             "stores failed every request",
                             times(opened)),
         .cost = "requests to them waited or failed meanwhile",
         .action = "leat logs says which store, and what it answered"});
  }
  if (const double throttled = total(status, "leat_source_throttled_total"); throttled > 0) {
    findings.push_back(
        {.level = Level::kNote,
         .name = "daemon.throttling",
         .what = fmt::format("stores throttled requests {} since it started", times(throttled)),
         .cost = "requests wait for the limiter",
         .action = "requests_per_second of a mount sets a limit of your own"});
  }
}

void add_process(const DaemonStatus& status, Findings& findings) {
  const auto most = static_cast<double>(status.open_files_max);
  if (most > 0 && static_cast<double>(status.open_files) >= most * kOpenFilesNear) {
    findings.push_back(
        {.level = Level::kProblem,
         .name = "daemon.open_files",
         .what = fmt::format("{} of {} files are open", status.open_files, status.open_files_max),
         .cost = "at the limit, opens and requests to stores fail",
         .action = "a higher limit (ulimit -n, LimitNOFILE=), then leat upgrade"});
  }
  if (status.restarts > 0) {
    findings.push_back(
        {.level = Level::kNote,
         .name = "daemon.restarts",
         .what = fmt::format("it was started {} times, by upgrades or because it had died",
                             status.restarts + 1),
         .cost = "mounts were taken over; figures since the start are of this daemon",
         .action = "leat logs says why"});
  }
  if (status.pid != 0 && status.supervisor_pid == 0) {
    findings.push_back({.level = Level::kNote,
                        .name = "daemon.supervisor",
                        .what = "no supervisor would start the next daemon",
                        .cost = "folders answer errors if this one dies",
                        .action = "daemon.supervised = true in the configuration"});
  }
}

bool has(const MountView& mount, const char* feature) {
  auto found = mount.features.find(feature);
  return found != mount.features.end() && found->second;
}

Finding mount_finding(const MountView& mount, bool io_uring_wanted) {
  Finding finding{.name = "daemon.mount", .subject = mount.path};
  if (has(mount, "passthrough")) {
    finding.what = "passthrough";
  } else {
    finding.what =
        "no passthrough: " +
        (mount.passthrough_off.empty() ? "the daemon gives no reason" : mount.passthrough_off);
    if (mount.passthrough_off != kPassthroughNotRequested &&
        mount.passthrough_off != kPassthroughExcludedByNoOpen) {
      finding.level = Level::kNote;
      finding.cost = "4 times the CPU and about half the bandwidth on large cached files";
      finding.action = "see kernel.passthrough, cache.* and host.rights; then mount it again";
    }
  }
  if (has(mount, "io_uring")) {
    finding.what += ", FUSE over io_uring";
  } else if (io_uring_wanted) {
    finding.level = Level::kNote;
    finding.what += "; no FUSE over io_uring, though fuse.io_uring is set";
    if (finding.cost.empty()) finding.cost = "14 to 39 % more CPU for small reads";
    if (finding.action.empty()) finding.action = "see kernel.fuse_io_uring; then mount it again";
  }
  return finding;
}

void add_mounts(const DaemonStatus& status, Findings& findings) {
  auto option = status.options.find("fuse.io_uring");
  const bool io_uring_wanted = option != status.options.end() && option->second == "true";
  for (const MountView& mount : status.mounts) {
    if (mount.own_fuse_mount) findings.push_back(mount_finding(mount, io_uring_wanted));
  }
}

// Writes that wait for a store that does not take them.
void add_unsent(const DaemonStatus& status, Findings& findings) {
  for (const MountView& mount : status.mounts) {
    if (!mount.unsent || mount.unsent->error.empty()) continue;
    findings.push_back(
        {.level = Level::kProblem,
         .name = "daemon.unsent",
         .subject = mount.path,
         .what = fmt::format("{} changes with {} are not in the store: {}", mount.unsent->changes,
                             format_bytes(mount.unsent->bytes), mount.unsent->error),
         .cost = "others do not see them, and a full staging area stops writers",
         .action = fmt::format("mend that; it is tried again by itself, and by 'leat flush {}'",
                               mount.path)});
  }
}

void add_clusters(const DaemonStatus& status, Findings& findings) {
  for (const ClusterMembershipView& cluster : status.clusters) {
    if (cluster.trouble.empty()) continue;
    Finding finding{.level = Level::kNote,
                    .name = "daemon.cluster",
                    .subject = cluster.name,
                    .what = cluster.trouble};
    if (cluster.refusing > 0) {
      finding.level = Level::kProblem;
      finding.cost =
          "these workers reject this one's requests, and what they hold is fetched twice";
      finding.action =
          "leat cluster, for each of them; compare the secret files, and set the clocks (NTP)";
    } else {
      finding.cost = "mounts and workers stay as this daemon received them last";
      finding.action = "leat cluster, for what does not answer; it heals by itself";
    }
    findings.push_back(std::move(finding));
  }
}

}  // namespace

Findings status_findings(const DaemonStatus& status, const std::vector<ErrorView>& errors,
                         WallTime now) {
  Findings findings;
  add_directories(status, findings);
  add_process(status, findings);
  add_mounts(status, findings);
  add_unsent(status, findings);
  add_clusters(status, findings);
  for (Finding& finding : path_findings(errors, now)) findings.push_back(std::move(finding));
  add_stores(status, findings);
  return findings;
}

}  // namespace leat
