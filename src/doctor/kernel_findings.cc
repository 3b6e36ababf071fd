// SPDX-License-Identifier: Apache-2.0
// The costs come from docs/performance.md and the measurements behind session.cc.
#include "doctor/kernel_findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>

namespace leat {
namespace {

namespace fs = std::filesystem;

uint64_t number_in(const std::string& path) {
  const std::string line = first_line(path);
  uint64_t value = 0;
  std::from_chars(line.data(), line.data() + line.size(), value);
  return value;
}

// Tests whether read-ahead can be set, on any existing device, since the mount does not exist yet.
int read_ahead_errno(const std::string& bdi) {
  std::error_code failed;
  for (fs::directory_iterator device(bdi, failed), end; !failed && device != end;
       device.increment(failed)) {
    const std::string file = device->path() / "read_ahead_kb";
    if (::access(file.c_str(), F_OK) != 0) continue;
    return ::access(file.c_str(), W_OK) == 0 ? 0 : errno;
  }
  return ENOENT;
}

Finding protocol_finding(const KernelCapabilities& capabilities) {
  std::vector<std::string_view> has, lacks;
  const std::pair<std::string_view, bool> parts[] = {
      {"readdirplus", capabilities.readdirplus},
      {"parallel look-ups", capabilities.parallel_directory_operations},
      {"no flush at close", capabilities.no_flush},
      {"resending of requests", capabilities.resend},
      {"request timeouts", capabilities.request_timeout},
      {"forgetting all names at once", capabilities.epochs},
  };
  for (const auto& [name, there] : parts) (there ? has : lacks).push_back(name);
  Finding finding{.name = "kernel.fuse"};
  finding.what =
      fmt::format("FUSE {}.{} with {}", capabilities.protocol_major, capabilities.protocol_minor,
                  has.empty() ? "nothing more" : fmt::format("{}", fmt::join(has, ", ")));
  if (!lacks.empty()) finding.what += fmt::format("; without {}", fmt::join(lacks, ", "));
  if (!capabilities.readdirplus) {
    finding.level = Level::kNote;
    finding.cost =
        "listing with attributes sends a request for each name, 12 to 27 µs each instead of 4 to 5";
    finding.action = "a newer kernel";
  }
  return finding;
}

Finding passthrough_finding(const KernelCapabilities& capabilities, const ProcessRights& rights) {
  Finding finding{.name = "kernel.passthrough"};
  if (capabilities.passthrough && rights.sys_admin) {
    finding.what = "offered: complete cached files are read by the kernel itself";
    return finding;
  }
  finding.level = Level::kNote;
  finding.cost = "4 times the CPU and about half the bandwidth on large cached files";
  if (capabilities.passthrough) {
    finding.what = "offered, but only to CAP_SYS_ADMIN";
    finding.action = "see host.rights";
  } else {
    finding.what = "not offered: cached files are read through the daemon";
    finding.action = "Linux 6.9 or newer with CONFIG_FUSE_PASSTHROUGH";
  }
  return finding;
}

Finding io_uring_finding(const KernelCapabilities& capabilities, const KernelSettings& settings) {
  Finding finding{.name = "kernel.fuse_io_uring"};
  if (capabilities.io_uring) {
    finding.what = settings.io_uring_wanted
                       ? "offered, and fuse.io_uring is set"
                       : "offered; fuse.io_uring = true in the daemon's configuration uses it";
    return finding;
  }
  finding.level = Level::kNote;
  finding.cost =
      "14 to 39 % more CPU for small reads through the daemon, nothing for those of "
      "100 KB and more";
  if (!settings.enable_uring) {
    finding.what = "not offered: this kernel does not have it";
    finding.action = "Linux 6.14 or newer with CONFIG_FUSE_IO_URING";
  } else if (*settings.enable_uring) {
    finding.what = "not offered, though enable_uring of the fuse module is Y";
    finding.action = "is io_uring itself forbidden? see host.io_uring";
  } else {
    finding.what = "switched off: enable_uring of the fuse module is N";
    finding.action = "sudo leat doctor --fix, then fuse.io_uring = true in the configuration";
  }
  return finding;
}

Finding read_ahead_finding(const KernelSettings& settings) {
  Finding finding{.name = "kernel.read_ahead"};
  if (settings.read_ahead_errno == 0) {
    finding.what = "can be set to 1 MiB for each folder";
    return finding;
  }
  finding.level = Level::kNote;
  finding.what = fmt::format("stays at the kernel's 128 KiB: /sys/class/bdi cannot be written: {}",
                             std::generic_category().message(settings.read_ahead_errno));
  finding.cost =
      "8 requests to the daemon where one would do, in reads of files that are not "
      "passed through";
  finding.action =
      settings.read_ahead_errno == EROFS
          ? "let the container have /sys writable (docker run --privileged), or set it "
            "on the host after the mount: echo 1024 > "
            "/sys/class/bdi/$(mountpoint -d DIR)/read_ahead_kb"
          : "after the mount: echo 1024 | sudo tee "
            "/sys/class/bdi/$(mountpoint -d DIR)/read_ahead_kb";
  return finding;
}

// The maximum applies even without a default (Documentation/admin-guide/sysctl/fs.rst).
std::optional<Finding> timeout_finding(const KernelSettings& settings) {
  const uint64_t limit = settings.max_request_timeout_s;
  uint64_t seconds = settings.default_request_timeout_s;
  if (limit != 0) seconds = seconds == 0 ? limit : std::min(seconds, limit);
  if (seconds == 0) return std::nullopt;
  return Finding{.level = Level::kNote,
                 .name = "kernel.request_timeout",
                 .what = fmt::format("the kernel ends a FUSE connection of which a request takes "
                                     "longer than {} s",
                                     seconds),
                 .cost = "a store that takes longer to answer ends the whole folder",
                 .action =
                     "sudo sysctl -w fs.fuse.default_request_timeout=0 "
                     "fs.fuse.max_request_timeout=0"};
}

const char* probe_failure_action(const Status& why, bool may_mount) {
  if (!may_mount) return "see fuse.*";
  if (why.code() != StatusCode::kPermissionDenied) return "what its log says: sudo dmesg | tail";
  return "CAP_SYS_ADMIN in the namespace that the mounts are in, or a fusermount3 that may mount; "
         "in "
         "a container docker run --cap-add SYS_ADMIN --device /dev/fuse";
}

}  // namespace

KernelSettings gather_kernel_settings(const HostPaths& paths) {
  KernelSettings settings;
  const std::string enabled = first_line(paths.fuse_module + "/parameters/enable_uring");
  if (!enabled.empty()) settings.enable_uring = enabled == "Y";
  const std::string sysctl = paths.sysctl + "/fs/fuse/";
  settings.default_request_timeout_s = number_in(sysctl + "default_request_timeout");
  settings.max_request_timeout_s = number_in(sysctl + "max_request_timeout");
  settings.read_ahead_errno = read_ahead_errno(paths.bdi);
  return settings;
}

Findings kernel_findings(const Result<KernelCapabilities>& capabilities,
                         const KernelSettings& settings, const ProcessRights& rights,
                         bool may_mount) {
  Findings findings;
  if (capabilities) {
    findings = {protocol_finding(*capabilities), passthrough_finding(*capabilities, rights),
                io_uring_finding(*capabilities, settings)};
  } else {
    findings.push_back({.level = may_mount ? Level::kProblem : Level::kNote,
                        .name = "kernel.fuse",
                        .what = "the kernel's FUSE features could not be queried: " +
                                capabilities.error().to_string(),
                        .cost = "no folder can be mounted",
                        .action = probe_failure_action(capabilities.error(), may_mount)});
  }
  findings.push_back(read_ahead_finding(settings));
  if (auto finding = timeout_finding(settings)) findings.push_back(std::move(*finding));
  return findings;
}

Json to_json(const Result<KernelCapabilities>& capabilities) {
  if (!capabilities) return nullptr;
  return {{"protocol",
           fmt::format("{}.{}", capabilities->protocol_major, capabilities->protocol_minor)},
          {"readdirplus", capabilities->readdirplus},
          {"parallel_directory_operations", capabilities->parallel_directory_operations},
          {"no_open", capabilities->no_open},
          {"no_flush", capabilities->no_flush},
          {"passthrough", capabilities->passthrough},
          {"io_uring", capabilities->io_uring},
          {"resend", capabilities->resend},
          {"epochs", capabilities->epochs},
          {"request_timeout", capabilities->request_timeout}};
}

}  // namespace leat
