// SPDX-License-Identifier: Apache-2.0
// The costs come from docs/performance.md and the measurements behind session.cc.
#include "apps/doctor/kernel_findings.h"

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

Finding protocol_finding(const KernelOffer& offer) {
  std::vector<std::string_view> has, lacks;
  const std::pair<std::string_view, bool> parts[] = {
      {"readdirplus", offer.readdirplus},
      {"parallel look-ups", offer.parallel_directory_operations},
      {"no flush at close", offer.no_flush},
      {"resending of requests", offer.resend},
      {"request timeouts", offer.request_timeout},
      {"forgetting all names at once", offer.epochs},
  };
  for (const auto& [name, there] : parts) (there ? has : lacks).push_back(name);
  Finding finding{.name = "kernel.fuse"};
  finding.what =
      fmt::format("FUSE {}.{} with {}", offer.protocol_major, offer.protocol_minor,
                  has.empty() ? "nothing more" : fmt::format("{}", fmt::join(has, ", ")));
  if (!lacks.empty()) finding.what += fmt::format("; without {}", fmt::join(lacks, ", "));
  if (!offer.readdirplus) {
    finding.level = Level::kNote;
    finding.cost = "listing with attributes asks once a name, 12 to 27 µs each instead of 4 to 5";
    finding.action = "a newer kernel";
  }
  return finding;
}

Finding passthrough_finding(const KernelOffer& offer, const ProcessRights& rights) {
  Finding finding{.name = "kernel.passthrough"};
  if (offer.passthrough && rights.sys_admin) {
    finding.what = "offered: complete cached files are read by the kernel itself";
    return finding;
  }
  finding.level = Level::kNote;
  finding.cost = "4 times the CPU and about half the bandwidth on large cached files";
  if (offer.passthrough) {
    finding.what = "offered, but only to CAP_SYS_ADMIN";
    finding.action = "see host.rights";
  } else {
    finding.what = "not offered: cached files are read through the daemon";
    finding.action = "Linux 6.9 or newer with CONFIG_FUSE_PASSTHROUGH";
  }
  return finding;
}

Finding io_uring_finding(const KernelOffer& offer, const KernelSettings& settings) {
  Finding finding{.name = "kernel.fuse_io_uring"};
  if (offer.io_uring) {
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

const char* unasked_action(const Status& why, bool may_mount) {
  if (!may_mount) return "see fuse.*";
  if (why.code() != StatusCode::kPermissionDenied) return "what its log says: sudo dmesg | tail";
  return "CAP_SYS_ADMIN in the namespace that the mounts are in, or a fusermount3 that may mount; "
         "in "
         "a container docker run --cap-add SYS_ADMIN --device /dev/fuse";
}

}  // namespace

KernelSettings gather_kernel_settings(const HostPlaces& places) {
  KernelSettings settings;
  const std::string enabled = first_line(places.fuse_module + "/parameters/enable_uring");
  if (!enabled.empty()) settings.enable_uring = enabled == "Y";
  const std::string sysctl = places.sysctl + "/fs/fuse/";
  settings.default_request_timeout_s = number_in(sysctl + "default_request_timeout");
  settings.max_request_timeout_s = number_in(sysctl + "max_request_timeout");
  settings.read_ahead_errno = read_ahead_errno(places.bdi);
  return settings;
}

Findings kernel_findings(const Result<KernelOffer>& offer, const KernelSettings& settings,
                         const ProcessRights& rights, bool may_mount) {
  Findings findings;
  if (offer) {
    findings = {protocol_finding(*offer), passthrough_finding(*offer, rights),
                io_uring_finding(*offer, settings)};
  } else {
    findings.push_back(
        {.level = may_mount ? Level::kProblem : Level::kNote,
         .name = "kernel.fuse",
         .what = "the kernel could not be asked what it offers: " + offer.error().to_string(),
         .cost = "no folder can be mounted",
         .action = unasked_action(offer.error(), may_mount)});
  }
  findings.push_back(read_ahead_finding(settings));
  if (auto finding = timeout_finding(settings)) findings.push_back(std::move(*finding));
  return findings;
}

Json to_json(const Result<KernelOffer>& offer) {
  if (!offer) return nullptr;
  return {{"protocol", fmt::format("{}.{}", offer->protocol_major, offer->protocol_minor)},
          {"readdirplus", offer->readdirplus},
          {"parallel_directory_operations", offer->parallel_directory_operations},
          {"no_open", offer->no_open},
          {"no_flush", offer->no_flush},
          {"passthrough", offer->passthrough},
          {"io_uring", offer->io_uring},
          {"resend", offer->resend},
          {"epochs", offer->epochs},
          {"request_timeout", offer->request_timeout}};
}

}  // namespace leat
