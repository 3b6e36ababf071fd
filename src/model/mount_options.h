// SPDX-License-Identifier: Apache-2.0
// MountOptions: how a mount is served, from option=value pairs.
//
// - `folder_profile`: A name for a set of all these options (model/profile.h).
// - `no_open`: True: the kernel sends no opens. For many small files that do not change.
// - `kernel_readahead`: Bytes that the kernel reads ahead of a reader.
// - `prefetch_window`: Prefetch window per reader of a file, bytes. 0: none.
// - `prefetch_next_files`: True: prefetch files before their open if a program reads in order.
// - `load`: what is loaded without a command. `auto`: a tree, while it is read at random. `never`:
//   nothing. `on-mount`: everything.
// - `writable`: True: programs may write, and the store has what they wrote when `close` returns.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/units.h"

namespace leat {

enum class MountLoad : uint8_t { kAuto, kNever, kOnMount };

struct MountOptions {
  bool no_open = false;
  uint64_t kernel_readahead = kMiB;
  uint64_t prefetch_window = 64 * kMiB;
  bool prefetch_next_files = true;
  MountLoad load = MountLoad::kAuto;
  bool writable = false;

  friend bool operator==(const MountOptions&, const MountOptions&) = default;
};

// Returns the names above, all of them.
std::span<const std::string_view> mount_option_names();

// A missing option has its default above. Other modules' options are ignored. kInvalidArgument
// names the wrong one.
Result<MountOptions> parse_mount_options(const std::map<std::string, std::string>& options);

}  // namespace leat
