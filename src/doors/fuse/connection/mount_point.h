// SPDX-License-Identifier: Apache-2.0
// What has to be asked of the host about a mount, beside FUSE itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace leat {

// The absolute path of an existing directory that can be mounted on.
Result<std::string> resolve_mountpoint(const std::string& path);

// Where fusermount3 reads what users may do.
inline constexpr const char* kFuseConf = "/etc/fuse.conf";
// Whether users may let others into their mounts, by the text of that file.
bool says_user_allow_other(std::string_view fuse_conf);

// umount2(2), or fusermount3 where that needs rights that we lack. Blocks.
Result<> unmount_path(const std::string& mountpoint, bool lazy);
// Ends the mount's connection and takes the name away, whoever uses it. Best effort.
void force_unmount_path(const std::string& mountpoint);

// A line of /proc/self/mountinfo, its words as they stand there: space, tab, newline and backslash
// are \ooo. By that file and not by stat(2), which would ask the mount itself.
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

// Of the newest mount at `mountpoint`; empty if there is none.
std::string device_of_mount(const std::vector<MountinfoLine>& mounts, std::string_view mountpoint);

// Sets the read-ahead of the mount at `mountpoint`.
Result<> set_read_ahead(const std::string& mountpoint, uint64_t bytes);

}  // namespace leat
