// SPDX-License-Identifier: Apache-2.0
#include "vfs/recent_errors.h"

#include <utility>

namespace leat {
namespace {

// Each mount point shows it at another path.
std::string below(std::string_view root, std::string_view path) {
  if (root != "/" && path.starts_with(root)) path.remove_prefix(root.size());
  if (path.starts_with('/')) path.remove_prefix(1);
  return path.empty() ? "." : std::string(path);
}

}  // namespace

void RecentErrors::record_caller(NodeId node, const Caller& caller) {
  std::lock_guard lock(mutex_);
  auto known = newest_.find(node);
  if (known == newest_.end()) return;
  Caller& recorded = known->second->error.caller;
  if (recorded.pid == 0) recorded = caller;
}

void RecentErrors::record(NodeId node, std::string_view path, const Status& status,
                          const Caller& caller) {
  const auto now = std::chrono::system_clock::now();
  Entry entry{.node = node,
              .error = {.time = now,
                        .path = below(root_, path),
                        .code = status.code(),
                        .reason = status.to_string(),
                        .caller = caller}};
  std::lock_guard lock(mutex_);
  const std::pair key(node, entry.error.path);
  if (auto known = by_path_.find(key); known != by_path_.end()) {
    *known->second = std::move(entry);
    oldest_first_.splice(oldest_first_.end(), oldest_first_, known->second);
    newest_[node] = known->second;
    return;
  }
  const Position position = oldest_first_.insert(oldest_first_.end(), std::move(entry));
  by_path_[key] = newest_[node] = position;
  if (oldest_first_.size() > errors_max_) evict_oldest();
}

void RecentErrors::evict_oldest() {
  const Position oldest = oldest_first_.begin();
  by_path_.erase({oldest->node, oldest->error.path});
  if (auto newest = newest_.find(oldest->node); newest->second == oldest) newest_.erase(newest);
  oldest_first_.erase(oldest);
}

std::optional<PathError> RecentErrors::find(NodeId node) const {
  std::lock_guard lock(mutex_);
  auto known = newest_.find(node);
  if (known == newest_.end()) return std::nullopt;
  return known->second->error;
}

std::vector<PathError> RecentErrors::all() const {
  std::vector<PathError> all;
  std::lock_guard lock(mutex_);
  all.reserve(oldest_first_.size());
  for (const Entry& entry : oldest_first_) all.push_back(entry.error);
  return all;
}

}  // namespace leat
