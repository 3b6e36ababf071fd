// SPDX-License-Identifier: Apache-2.0
// FolderSettings: how a mount is served, from option=value pairs.
//
//   `folder_profile`  A name for a set of all these options (model/profile.h).
//   `no_open`         true: the kernel sends no opens; for many small files that do not change.
//   `read_ahead`      Bytes that the kernel reads ahead of a reader.
//   `look_ahead`      Prefetch window per reader of a file, bytes; 0: none.
//   `next_files`      true: prefetch files before their open if a program reads in order.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/units.h"

namespace leat {

struct FolderSettings {
  bool no_open = false;
  uint64_t read_ahead = kMiB;
  uint64_t look_ahead = 64 * kMiB;
  bool next_files = true;

  friend bool operator==(const FolderSettings&, const FolderSettings&) = default;
};

// Returns the names above, all of them.
std::span<const std::string_view> folder_options();

// A missing option has its default above. Other modules' options are ignored. kInvalidArgument
// names the wrong one.
Result<FolderSettings> make_folder_settings(const std::map<std::string, std::string>& options);

}  // namespace leat
