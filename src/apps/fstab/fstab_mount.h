// SPDX-License-Identifier: Apache-2.0
// mount.leat: the helper that mount(8) executes for fstab lines of type leat. It is this program
// under another name, and translates the arguments of mount(8) into `leat mount`.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace leat {

struct FstabMount {
  std::vector<std::string> words;  // a command line: leat mount …
  std::string directory;
  std::string environment_file;  // empty if none is given
  bool fake = false;             // -f: do all but mounting
  bool verbose = false;          // -v
  bool no_exec = false;
};

// Parses SOURCE DIR [-sfnv] [-N NAMESPACE] [-t TYPE] [-o OPTIONS], without the program's name.
// Commas separate OPTIONS, except in double quotes. An option is one of:
//   words of mount(8)      ro, noexec; nosuid and nodev, which hold anyway; words that have no
//                          effect or are not for a helper (defaults, _netdev, x-systemd.…, noatime)
//   flags of `leat mount`  with _ or -: allow_other, uid=0, cache_size=8GiB, profile=training;
//                          they precede an option of the store with the same name
//   env_file=FILE          environment_file
//   NAME=VALUE             an option of the store or the mount, as `leat mount -o`
// kInvalidArgument: a word that is none of these (without -s); kUnsupported: remount.
Result<FstabMount> parse_fstab_mount(std::span<const char* const> words);

// Decides by the program's name: mount.leat, mount.fuse.leat.
bool is_fstab_mount(const char* program);

// Returns the exit code that mount(8) documents: 0, 1 wrong usage or permissions, 32 not mounted.
int run_fstab_mount(int argc, const char* const* argv);

}  // namespace leat
