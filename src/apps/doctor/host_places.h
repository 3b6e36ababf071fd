// SPDX-License-Identifier: Apache-2.0
// HostPlaces: where the files lie that say what this host can do, and that `--fix` changes. Other
// ones are for tests only; nothing that a user sets leads elsewhere.
#pragma once

#include <string>

namespace leat {

struct HostPlaces {
  std::string fuse_device = "/dev/fuse";
  std::string fuse_conf = "/etc/fuse.conf";
  std::string fuse_module = "/sys/module/fuse";
  std::string module_conf = "/etc/modprobe.d/leat.conf";
  std::string modprobe = "modprobe";
  std::string bdi = "/sys/class/bdi";
  std::string sysctl = "/proc/sys";
  std::string process_status = "/proc/self/status";
  std::string mountinfo = "/proc/self/mountinfo";
  std::string search_path{};  // $PATH: directories in which fusermount3 is looked for
};

// The first line of a small file, without spaces at its ends; empty where it cannot be read.
std::string first_line(const std::string& path);
// All of it; empty where it cannot be read.
std::string whole_text(const std::string& path);

}  // namespace leat
