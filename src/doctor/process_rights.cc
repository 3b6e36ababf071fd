// SPDX-License-Identifier: Apache-2.0
#include "doctor/process_rights.h"

#include <fmt/format.h>

#include <charconv>
#include <string>

namespace leat {
namespace {

constexpr int kSysAdminBit = 21;  // CAP_SYS_ADMIN of linux/capability.h

// Returns the number behind "NAME:\t"; 0 if there is none.
uint64_t number_of(std::string_view status, std::string_view name, int base) {
  const std::string start = fmt::format("{}:\t", name);
  size_t at = status.starts_with(start) ? 0 : status.find("\n" + start);
  if (at == std::string_view::npos) return 0;
  std::string_view rest = status.substr(status.find('\t', at) + 1);
  uint64_t value = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), value, base);
  return value;
}

Finding user_finding(const ProcessRights& rights) {
  Finding finding{.name = "host.rights"};
  if (rights.sys_admin) {
    finding.what = fmt::format("user {} with CAP_SYS_ADMIN", rights.user);
    return finding;
  }
  finding.level = Level::kNote;
  finding.what = fmt::format("user {} without CAP_SYS_ADMIN{}", rights.user,
                             rights.root() ? ": a container, most likely" : "");
  finding.cost =
      "no passthrough: cached files are read through the daemon, with 4 times the CPU and about "
      "half the bandwidth of the disk's page cache";
  finding.action =
      rights.root() ? "give the container CAP_SYS_ADMIN and /dev/fuse: docker run --cap-add "
                      "SYS_ADMIN --device /dev/fuse; in Kubernetes securityContext: "
                      "privileged: true"
                    : "have the folder mounted by root: sudo leat mount --allow-other SOURCE DIR";
  return finding;
}

}  // namespace

ProcessRights parse_rights(std::string_view status, uid_t user) {
  return {.user = user,
          .sys_admin = (number_of(status, "CapEff", 16) >> kSysAdminBit & 1) != 0,
          .seccomp = number_of(status, "Seccomp", 10) != 0};
}

Findings rights_findings(const ProcessRights& rights) {
  Findings findings = {user_finding(rights)};
  if (rights.seccomp) {
    findings.push_back({.name = "host.seccomp",
                        .what = "a filter of system calls is on; what it refuses of what Leat "
                                "wants shows in the other lines"});
  }
  return findings;
}

}  // namespace leat
