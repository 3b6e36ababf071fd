// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot_service.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>

#include "catalog/snapshot/snapshot.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".snapshot";

SnapshotView view_of(const std::string& file, std::string name) {
  SnapshotView view{.name = std::move(name), .file = file};
  Result<SnapshotHead> head = Snapshot::read_head(file);
  if (!head) {
    view.broken = head.error().to_string();
    return view;
  }
  view.source = head->source;
  view.created = WallTime(std::chrono::nanoseconds(head->created_ns));
  view.files = head->files;
  view.directories = head->directories;
  view.bytes = head->bytes;
  view.skipped = head->skipped;
  struct stat info;
  if (stat(file.c_str(), &info) == 0) view.file_bytes = static_cast<uint64_t>(info.st_size);
  return view;
}

Error no_such(std::string_view name) {
  return error(StatusCode::kNotFound,
               fmt::format("there is no snapshot '{}'; 'leat snapshot ls' lists them, 'leat "
                           "snapshot build' makes one",
                           name));
}

}  // namespace

std::string snapshot_file(const std::string& directory, std::string_view name) {
  return fmt::format("{}/{}{}", directory, name, kSuffix);
}

Result<std::string> SnapshotService::file_for(std::string_view name) const {
  LEAT_CHECK_OK(check_snapshot_name(name));
  std::error_code failed;
  fs::create_directories(directory_, failed);
  if (failed) {
    return error(status_from_errno(
        failed.value(),
        fmt::format("cannot make {} (snapshot.directory names another)", directory_)));
  }
  return snapshot_file(directory_, name);
}

std::vector<std::string> SnapshotService::users_of(const Id128& id) const {
  std::vector<std::string> paths;
  for (const MountPtr& mount : catalog_.mounts()) {
    if (mount->snapshot && mount->snapshot->head().id == id) paths.push_back(mount->entry.path);
  }
  return paths;
}

Task<Result<std::vector<SnapshotView>>> SnapshotService::list() {
  co_return co_await executor_.blocking([this]() -> Result<std::vector<SnapshotView>> {
    std::vector<SnapshotView> views;
    std::error_code failed;
    for (fs::directory_iterator at(directory_, failed), end; !failed && at != end;
         at.increment(failed)) {
      std::string name = at->path().filename();
      if (!name.ends_with(kSuffix)) continue;
      name.resize(name.size() - kSuffix.size());
      if (!check_snapshot_name(name)) continue;
      SnapshotView view = view_of(at->path(), std::move(name));
      Result<SnapshotHead> head = Snapshot::read_head(view.file);
      if (head) view.used_by = users_of(head->id);
      views.push_back(std::move(view));
    }
    if (failed && failed.value() != ENOENT) {
      return error(status_from_errno(failed.value(), "cannot list " + directory_));
    }
    std::ranges::sort(views, {}, &SnapshotView::name);
    return views;
  });
}

std::shared_ptr<const std::string> SnapshotService::hold(const std::string& file) {
  std::lock_guard lock(mutex_);
  std::erase_if(holds_, [](const auto& one) { return one.second.expired(); });
  std::weak_ptr<const std::string>& held = holds_[file];
  std::shared_ptr<const std::string> hold = held.lock();
  if (hold == nullptr) held = hold = std::make_shared<const std::string>(file);
  return hold;
}

Task<Result<SnapshotService::SnapshotHold>> SnapshotService::open(std::string name) {
  LEAT_CO_CHECK_OK(check_snapshot_name(name));
  SnapshotHold opened{.snapshot = nullptr, .hold = hold(snapshot_file(directory_, name))};
  const std::string& file = *opened.hold;
  if (access(file.c_str(), F_OK) != 0) co_return no_such(name);
  LEAT_CO_TRY(opened.snapshot,
              co_await executor_.blocking([&file] { return Snapshot::open(file); }));
  co_return opened;
}

Task<Result<>> SnapshotService::remove(std::string name) {
  LEAT_CO_CHECK_OK(check_snapshot_name(name));
  co_return co_await executor_.blocking([&] { return remove_now(name); });
}

Result<> SnapshotService::remove_now(const std::string& name) {
  const std::string file = snapshot_file(directory_, name);
  Result<SnapshotHead> head = Snapshot::read_head(file);
  if (!head && head.error().code() == StatusCode::kNotFound) return no_such(name);
  std::lock_guard lock(mutex_);
  if (auto held = holds_.find(file); held != holds_.end() && !held->second.expired()) {
    return error(StatusCode::kBusy, fmt::format("a mount is about to use the snapshot {}", name));
  }
  if (std::vector<std::string> users; head && !(users = users_of(head->id)).empty()) {
    return error(StatusCode::kBusy,
                 fmt::format("the mount at {0} uses the snapshot {1}; 'leat snapshot release "
                             "{0}' ends that",
                             users[0], name));
  }
  if (unlink(file.c_str()) != 0) {
    return error(status_from_errno(errno, "cannot remove " + file));
  }
  return {};
}

}  // namespace leat
