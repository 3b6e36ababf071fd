// SPDX-License-Identifier: Apache-2.0
// mount.leat: what mount(8) executes for a line of fstab of type leat. It says the same as
// `leat mount` in the words of mount(8), and is the same program under another name.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace leat {

struct FstabMount {
  std::vector<std::string> words;  // of a command line: leat mount …
  std::string directory;
  std::string environment_file;  // empty: none
  bool fake = false;             // -f: do all but mounting
  bool verbose = false;          // -v
  bool no_exec = false;
};

// SOURCE DIR [-sfnv] [-N NAMESPACE] [-t TYPE] [-o OPTIONS], less the program's name. In OPTIONS,
// which commas part that stand in no double quotes, are
//   words of mount(8)      ro, noexec; nosuid and nodev, which hold anyway; those that mean nothing
//   to
//                          a folder or are not for a helper (defaults, _netdev, x-systemd.…,
//                          noatime)
//   flags of `leat mount`  with _ or -: allow_other, uid=0, cache_size=8GiB, profile=training;
//   where
//                          the store has an option of the same name, the flag is meant
//   env_file=FILE          environment_file
//   NAME=VALUE             an option of the store or the folder, as `leat mount -o`
// kInvalidArgument: a word that is none of these (without -s); kUnsupported: remount.
Result<FstabMount> parse_fstab_mount(std::span<const char* const> words);

// By the name under which it was started: mount.leat, mount.fuse.leat.
bool is_fstab_mount(const char* program);

// The exit code that mount(8) documents: 0, 1 wrong usage or permissions, 32 not mounted.
int run_fstab_mount(int argc, const char* const* argv);

}  // namespace leat
