// SPDX-License-Identifier: Apache-2.0
#include "doctor/fuse_findings.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <ranges>
#include <system_error>

#include "frontends/fuse/connection/mount_point.h"
#include "runtime/disk.h"

namespace leat {
namespace {

constexpr const char* kContainerDevice =
    "in a container: docker run --device /dev/fuse; on a host: sudo leat doctor --fix";

void find_fusermount(const std::string& search_path, FuseFacts& facts) {
  for (auto part : std::views::split(search_path, ':')) {
    const std::string path = fmt::format("{}/fusermount3", std::string_view(part));
    struct stat info{};
    if (!path.starts_with('/') || ::access(path.c_str(), X_OK) != 0) continue;
    if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    facts.fusermount = path;
    const bool setuid_root = (info.st_mode & S_ISUID) != 0 && info.st_uid == 0;
    facts.fusermount_raised =
        setuid_root || ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
    return;
  }
}

Finding device_finding(const FuseFacts& facts) {
  Finding finding{.name = "fuse.device"};
  switch (facts.device_errno) {
    case 0:
      finding.what = "/dev/fuse can be opened";
      return finding;
    case EACCES:
      // fusermount3 cannot open it either, since it uses the caller's rights.
      finding.action = "sudo chmod 666 /dev/fuse, or have the folder mounted by root";
      break;
    case ENOENT:
      finding.action = std::string("the fuse module is not loaded, or the device not passed on; ") +
                       kContainerDevice;
      break;
    case ENODEV:
    case ENXIO:
      finding.action =
          "the kernel has no FUSE: sudo leat doctor --fix loads the module; else a "
          "kernel with CONFIG_FUSE_FS is needed";
      break;
    default:
      finding.action = "docker run --device /dev/fuse, or let the cgroup have device 10:229";
  }
  finding.level = Level::kProblem;
  finding.what = fmt::format("/dev/fuse cannot be opened: {}",
                             std::generic_category().message(facts.device_errno));
  finding.cost = "no folder can be mounted";
  return finding;
}

Finding mount_finding(const FuseFacts& facts, const ProcessRights& rights) {
  Finding finding{.name = "fuse.mount"};
  if (rights.sys_admin) {
    finding.what = "this process may mount by itself";
    return finding;
  }
  if (!rights.root() && facts.fusermount_raised) {
    finding.what = fmt::format("{} mounts for this user", facts.fusermount);
    return finding;
  }
  finding.level = Level::kProblem;
  finding.cost = "no folder can be mounted";
  if (rights.root()) {
    finding.what = "root without CAP_SYS_ADMIN may not mount";
    finding.action =
        "docker run --cap-add SYS_ADMIN --device /dev/fuse; in Kubernetes "
        "securityContext: privileged: true";
  } else if (facts.fusermount.empty()) {
    finding.what = "an ordinary user needs fusermount3 for it, and it is not in PATH";
    finding.action = "sudo apt-get install fuse3 (Debian, Ubuntu), sudo dnf install fuse3 (others)";
  } else {
    finding.what = fmt::format("{} has not root's rights", facts.fusermount);
    finding.action = fmt::format("sudo chown root {0} && sudo chmod u+s {0}", facts.fusermount);
  }
  return finding;
}

Finding allow_other_finding(const FuseFacts& facts, const ProcessRights& rights) {
  Finding finding{.name = "fuse.allow_other"};
  if (facts.user_allow_other) {
    finding.what = "folders may be shown to other users";
    return finding;
  }
  if (rights.root()) {
    finding.what =
        "root's folders may be shown to other users; for those that users mount "
        "themselves user_allow_other is missing in /etc/fuse.conf";
    return finding;
  }
  finding.level = Level::kNote;
  finding.what = "user_allow_other is not in /etc/fuse.conf";
  finding.cost = "leat mount --allow-other is denied: only the user who mounts sees the folder";
  finding.action = "sudo leat doctor --fix";
  return finding;
}

}  // namespace

FuseFacts gather_fuse(const HostPaths& paths) {
  FuseFacts facts;
  const File device(::open(paths.fuse_device.c_str(), O_RDWR | O_CLOEXEC));
  if (!device) facts.device_errno = errno;
  find_fusermount(paths.search_path, facts);
  facts.user_allow_other = has_user_allow_other(whole_text(paths.fuse_conf));
  return facts;
}

Findings fuse_findings(const FuseFacts& facts, const ProcessRights& rights) {
  return {device_finding(facts), mount_finding(facts, rights), allow_other_finding(facts, rights)};
}

}  // namespace leat
