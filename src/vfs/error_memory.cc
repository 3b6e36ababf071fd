// SPDX-License-Identifier: Apache-2.0
#include "vfs/error_memory.h"

#include <utility>

namespace leat {

void ErrorMemory::note(NodeId node, std::string text) {
  std::lock_guard lock(mutex_);
  auto known = by_node_.find(node);
  if (known != by_node_.end()) {
    known->second->text = std::move(text);
    oldest_first_.splice(oldest_first_.end(), oldest_first_, known->second);
    return;
  }
  by_node_[node] = oldest_first_.insert(oldest_first_.end(), Entry{node, std::move(text)});
  if (oldest_first_.size() <= nodes_max_) return;
  by_node_.erase(oldest_first_.front().node);
  oldest_first_.pop_front();
}

std::optional<std::string> ErrorMemory::find(NodeId node) const {
  std::lock_guard lock(mutex_);
  auto known = by_node_.find(node);
  if (known == by_node_.end()) return std::nullopt;
  return known->second->text;
}

}  // namespace leat
