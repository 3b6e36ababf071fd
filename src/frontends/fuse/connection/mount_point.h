// SPDX-License-Identifier: Apache-2.0
// Host operations on a mount besides FUSE itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace leat {

// Returns the absolute path of an existing directory that can be a mount point.
Result<std::string> resolve_mountpoint(const std::string& path);

// Configuration of fusermount3 for users.
inline constexpr const char* kFuseConf = "/etc/fuse.conf";
// Returns true if users may give others access to their mounts, by the text of that file.
bool has_user_allow_other(std::string_view fuse_conf);

// umount2(2), or fusermount3 if this process lacks the rights. Blocks.
Result<> unmount_path(const std::string& mountpoint, bool lazy);
// Aborts the mount's connection and unmounts it, even while it is in use. Best effort.
void force_unmount_path(const std::string& mountpoint);

// A line of /proc/self/mountinfo with its escaped words: space, tab, newline and backslash are
// \ooo. That file is used because stat(2) would send a request to the mount itself.
struct MountinfoLine {
  std::string device;  // "MAJOR:MINOR"; the minor number of a FUSE mount names its connection
  std::string point;
  std::string type;  // "fuse.leat"
  std::string source;

  bool operator==(const MountinfoLine&) const = default;
};
std::vector<MountinfoLine> parse_mountinfo(std::string_view mountinfo);
std::vector<MountinfoLine> mounts_of_this_namespace();
std::string unescape_mount(std::string_view word);

// Returns the device of the newest mount at `mountpoint`; empty if there is none.
std::string device_of_mount(const std::vector<MountinfoLine>& mounts, std::string_view mountpoint);

// Sets the read-ahead of the mount at `mountpoint`.
Result<> set_read_ahead(const std::string& mountpoint, uint64_t bytes);

}  // namespace leat
