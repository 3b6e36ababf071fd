// SPDX-License-Identifier: Apache-2.0
// HostPaths: paths of the files that describe this host, and that `--fix` changes. Only tests use
// other ones; no setting of a user changes them.
#pragma once

#include <string>

namespace leat {

struct HostPaths {
  std::string fuse_device = "/dev/fuse";
  std::string fuse_conf = "/etc/fuse.conf";
  std::string fuse_module = "/sys/module/fuse";
  std::string module_conf = "/etc/modprobe.d/leat.conf";
  std::string modprobe = "modprobe";
  std::string bdi = "/sys/class/bdi";
  std::string sysctl = "/proc/sys";
  std::string process_status = "/proc/self/status";
  std::string mountinfo = "/proc/self/mountinfo";
  std::string search_path{};  // $PATH: directories to search for fusermount3
};

// Returns the first line of a small file, trimmed; empty if it cannot be read.
std::string first_line(const std::string& path);
// Returns the whole file; empty if it cannot be read.
std::string whole_text(const std::string& path);

}  // namespace leat
