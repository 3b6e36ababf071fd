// SPDX-License-Identifier: Apache-2.0
#include "doctor/cache_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/units.h"

namespace leat {
namespace {

constexpr std::array<std::string_view, 12> kNetworkFileSystems = {
    "nfs",  "nfs4",   "cifs", "smb3",   "9p",  "virtiofs",
    "ceph", "lustre", "gpfs", "beegfs", "afs", "pvfs2"};
constexpr const char* kElsewhere =
    "a directory of a local disk: leat mount --cache-dir DIR, or cache.directory";

// Resolves a configured 0 like the page store.
uint64_t or_a_tenth(uint64_t bytes, uint64_t total) {
  return bytes != 0 ? bytes : total / 10;
}

Finding directory_finding(const CacheFacts& facts) {
  Finding finding{.name = "cache.directory", .subject = facts.directory};
  if (facts.hung || !facts.trouble.empty()) {
    finding.level = Level::kProblem;
    finding.what = facts.hung ? "its file system does not answer" : facts.trouble;
    finding.cost = "the daemon does not start with it";
    finding.action = "make it usable, or give another: leat mount --cache-dir DIR, cache.directory";
    return finding;
  }
  const std::string state = facts.in_use   ? "in use by the daemon"
                            : facts.exists ? ""
                                           : "will be made";
  finding.what = fmt::format("{}{}{}", facts.file_system.empty() ? "unknown" : facts.file_system,
                             state.empty() ? "" : ", ", state);
  return finding;
}

Finding space_finding(const CacheFacts& facts) {
  const uint64_t capacity = or_a_tenth(facts.capacity_bytes, facts.usage.total_bytes);
  const uint64_t kept_free = or_a_tenth(facts.free_bytes_min, facts.usage.total_bytes);
  const uint64_t in_reach = facts.usage.free_bytes + facts.used_bytes.value_or(0);
  const uint64_t room = std::min(capacity, in_reach - std::min(in_reach, kept_free));
  Finding finding{.name = "cache.space", .subject = facts.directory};
  finding.what = fmt::format("{} of {} free, may hold {}", format_bytes(facts.usage.free_bytes),
                             format_bytes(facts.usage.total_bytes), format_bytes(capacity));
  if (!facts.used_bytes || room == capacity) return finding;
  finding.level = room == 0 ? Level::kProblem : Level::kNote;
  finding.what += fmt::format(", but {} have to stay free: room for {}", format_bytes(kept_free),
                              room == 0 ? "nothing" : format_bytes(room));
  finding.cost = room == 0 ? "nothing is cached: all reads go to the store"
                           : "less is cached than is configured";
  finding.action = "free space there, a smaller cache.min_free, or another --cache-dir";
  return finding;
}

std::optional<Finding> kind_finding(const CacheFacts& facts) {
  Finding finding{.level = Level::kNote, .name = "cache.file_system", .subject = facts.directory};
  const std::string& type = facts.file_system;
  if (type == "overlay") {
    finding.what = "overlayfs: the kernel does not pass its files through";
    finding.cost = "4 times the CPU and about half the bandwidth on large cached files";
    finding.action =
        "a volume: docker run -v /fast/disk/leat:DIR; in Kubernetes emptyDir, hostPath "
        "or a local volume; then --cache-dir DIR";
  } else if (type == "tmpfs" || type == "ramfs") {
    finding.what = type + ": what is cached is memory";
    finding.cost = "memory that programs cannot have; nothing is left after a reboot";
    finding.action = kElsewhere;
  } else if (std::ranges::find(kNetworkFileSystems, type) != kNetworkFileSystems.end() ||
             type == "fuse" || type.starts_with("fuse.")) {
    finding.what = type + ": not a disk of this host";
    finding.cost = "cached reads go over the network, or through another daemon, too";
    finding.action = kElsewhere;
  } else {
    return std::nullopt;
  }
  return finding;
}

std::optional<Finding> passthrough_finding(const CacheFacts& facts, bool sys_admin) {
  // Without the right it always fails; host.rights reports that.
  if (!facts.backing || !sys_admin || facts.file_system == "overlay") return std::nullopt;
  Finding finding{.name = "cache.passthrough", .subject = facts.directory};
  if (*facts.backing) {
    finding.what = "tried: the kernel reads its files by itself";
    return finding;
  }
  finding.level = Level::kNote;
  finding.what = facts.backing->error().to_string();
  finding.cost = "4 times the CPU and about half the bandwidth on large cached files";
  // The right in a user namespace, as in a rootless container, is not enough.
  finding.action = facts.backing->error().code() == StatusCode::kPermissionDenied
                       ? "CAP_SYS_ADMIN of the host itself: a container that is not rootless"
                       : kElsewhere;
  return finding;
}

}  // namespace

Findings cache_findings(const CacheFacts& facts, bool sys_admin) {
  Findings findings = {directory_finding(facts)};
  if (facts.hung || !facts.trouble.empty()) return findings;
  findings.push_back(space_finding(facts));
  if (auto finding = kind_finding(facts)) findings.push_back(std::move(*finding));
  if (!facts.direct_io) {
    findings.push_back({.level = Level::kNote,
                        .name = "cache.direct_io",
                        .subject = facts.directory,
                        .what = "its file system has no way around the page cache (O_DIRECT)",
                        .cost = "filling the cache takes twice the CPU and pushes what is read "
                                "next out of memory",
                        .action = kElsewhere});
  }
  if (auto finding = passthrough_finding(facts, sys_admin)) {
    findings.push_back(std::move(*finding));
  }
  return findings;
}

}  // namespace leat
