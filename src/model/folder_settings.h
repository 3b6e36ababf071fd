// SPDX-License-Identifier: Apache-2.0
// FolderSettings: how a mounted folder is served, as people write it: option, value.
//
//   folder_profile  a word for several of all these options (model/profile.h)
//   no_open         true: the kernel leaves opens out; for many small files that do not change
//   read_ahead      bytes that the kernel asks for ahead of a reader
//   look_ahead      bytes that are fetched ahead of each reader of a file at most; 0: none
//   next_files      true: files are fetched before they are opened, where they are read in order
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

// The names above, all of them.
std::span<const std::string_view> folder_options();

// Options that are not given are as above; those of others are not looked at. kInvalidArgument says
// which one is wrong.
Result<FolderSettings> make_folder_settings(const std::map<std::string, std::string>& options);

}  // namespace leat
