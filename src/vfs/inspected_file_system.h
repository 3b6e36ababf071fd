// SPDX-License-Identifier: Apache-2.0
// A FileSystem with a directory `.leat` in its root, in which files tell of it: found by those who
// name it, in no listing, read-only. A name `.leat` that the file system has itself wins.
//
// The directory's number is always the same; each look-up of a file in it makes the file anew
// (ContentNodes). Nothing of it is believed by the kernel, kept for a successor, or counted there.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "vfs/file_system.h"

namespace leat {

inline constexpr std::string_view kInspectionName = ".leat";

struct InspectionFile {
  std::string name{};
  // On any thread, which may not wait.
  std::function<std::string()> content{};
};

struct InspectionOptions {
  // While a store does not answer, or fails, whether it has such a name is not known: it is waited
  // for so long, then taken for no for `trust`, unless it had one when it answered last.
  Clock::duration patience = std::chrono::seconds(2);
  Clock::duration trust = std::chrono::seconds(5);
  std::function<Clock::time_point()> now = &Clock::now;
};

std::unique_ptr<FileSystem> inspected(std::unique_ptr<FileSystem> files,
                                      std::vector<InspectionFile> inspection,
                                      InspectionOptions options = {});

}  // namespace leat
