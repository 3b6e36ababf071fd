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
// Commas separate OPTIONS, except in double quotes. An option is one of these:
// - A word of mount(8): ro, noexec; nosuid and nodev, which hold anyway. Words that are not for a
//   helper, or have no effect, are accepted (defaults, _netdev, x-systemd.…, noatime).
// - A flag of `leat mount`, with _ or -: allow_other, uid=0, cache_size=8GiB, profile=training. A
//   flag precedes an option of the store with the same name.
// - `env_file=FILE`: sets environment_file.
// - NAME=VALUE: an option of the store or the mount, as `leat mount -o`.
//
// Errors: kInvalidArgument for a word that is none of these (without -s), kUnsupported for remount.
Result<FstabMount> parse_fstab_mount(std::span<const char* const> words);

// Decides by the program's name: mount.leat, mount.fuse.leat.
bool is_fstab_mount(const char* program);

// Returns the exit code that mount(8) documents: 0, 1 wrong usage or permissions, 32 not mounted.
int run_fstab_mount(int argc, const char* const* argv);

}  // namespace leat
