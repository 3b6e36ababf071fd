// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "daemon/mounts/mount_service.h"

namespace leat {

std::vector<ErrorView> MountService::errors() const {
  std::vector<std::pair<std::string, std::shared_ptr<FileSystem>>> folders;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [path, entry] : entries_) {
      if (entry->file_system) folders.emplace_back(path, entry->file_system);
    }
  }
  std::vector<ErrorView> all;
  for (const auto& [folder, files] : folders) {
    for (PathError& failed : files->errors()) {
      all.push_back(
          {failed.time, folder, std::move(failed.path), failed.code, std::move(failed.reason)});
    }
  }
  std::ranges::sort(all, std::greater(), &ErrorView::time);
  return all;
}

}  // namespace leat
