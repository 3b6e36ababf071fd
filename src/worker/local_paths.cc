// SPDX-License-Identifier: Apache-2.0
#include "worker/local_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <mutex>
#include <ranges>

#include "model/mount_entry.h"
#include "source/file/confined_files.h"
#include "telemetry/log.h"

namespace leat {

// Logs each denial once, since denied mounts are retried.
class LocalPaths::Audit {
 public:
  // Skips messages that are equal to one of the last.
  void note(const Status& status) {
    {
      std::lock_guard lock(mutex_);
      if (std::ranges::find(last_, status.message()) != last_.end()) return;
      if (last_.size() == kRememberedMax) last_.pop_front();
      last_.push_back(status.message());
    }
    log::warning("audit: access of the cluster to a local path denied: {}", status.message());
  }

 private:
  static constexpr size_t kRememberedMax = 64;

  std::mutex mutex_;  // leaf
  std::deque<std::string> last_;
};

LocalPaths::LocalPaths(std::vector<std::string> folders)
    : folders_(std::move(folders)), audit_(std::make_shared<Audit>()) {}

Result<LocalPaths> LocalPaths::parse(std::string_view text) {
  std::vector<std::string> folders;
  if (text.empty()) return LocalPaths();
  for (auto part : std::views::split(text, ',')) {
    const std::string word(part.begin(), part.end());
    const Result<std::string> folder = normalise_path(word);
    if (!word.starts_with('/') || !folder) {
      return error(StatusCode::kInvalidArgument,
                   fmt::format("worker.local_paths '{}' must be absolute paths with commas between "
                               "them; '{}' is none",
                               text, word));
    }
    folders.push_back(*folder);
  }
  return LocalPaths(std::move(folders));
}

Result<SourcePtr> LocalPaths::open(const StoreUrl& url, std::string_view salt) const {
  if (url.scheme != "file") return open_source(url, salt);
  std::string path = std::filesystem::path("/" + url.prefix).lexically_normal().string();
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (!is_in_folders(path, folders_)) {
    const Status status(StatusCode::kPermissionDenied,
                        fmt::format("{} is not below a folder that this worker allows: add one to "
                                    "worker.local_paths of each worker, and restart it",
                                    path));
    audit_->note(status);
    return Error(status);
  }
  LEAT_TRY(SourcePtr files, open_source(url, salt));
  return confine_files(std::move(files), folders_,
                       [audit = audit_](const Status& status) { audit->note(status); });
}

}  // namespace leat
