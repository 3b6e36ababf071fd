// SPDX-License-Identifier: Apache-2.0
// RecentErrors: recent errors of lookups, listings, reads and changes by path, for
// user.leat.last_error and .leat/errors. Bounded: the oldest is evicted first. Thread-safe.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "vfs/file_system.h"

namespace leat {

class RecentErrors {
 public:
  // `root`: reported paths are relative to it.
  RecentErrors(std::string root, size_t errors_max)
      : root_(std::move(root)), errors_max_(errors_max) {}

  // `node` is that of `path`, or of the directory in which the lookup failed. Replaces an earlier
  // error of both.
  void record(NodeId node, std::string_view path, const Status& status, const Caller& caller = {});
  // Sets the caller of the node's newest error, unless one is known.
  void record_caller(NodeId node, const Caller& caller);
  // Returns the newest error of the node.
  std::optional<PathError> find(NodeId node) const;
  // Oldest first.
  std::vector<PathError> all() const;

 private:
  struct Entry {
    NodeId node;
    PathError error;
  };
  using Position = std::list<Entry>::iterator;

  void evict_oldest();

  const std::string root_;
  const size_t errors_max_;
  mutable std::mutex mutex_;
  std::list<Entry> oldest_first_;
  std::map<std::pair<NodeId, std::string>, Position> by_path_;
  std::unordered_map<NodeId, Position> newest_;
};

}  // namespace leat
