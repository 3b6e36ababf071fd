// SPDX-License-Identifier: Apache-2.0
// ErrorMemory: why paths could last not be looked up, listed, read or changed, for
// user.leat.last_error and .leat/errors. Bounded: the oldest is forgotten first. Thread-safe.
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

class ErrorMemory {
 public:
  // `root`: the path to which those that are told are relative.
  ErrorMemory(std::string root, size_t errors_max)
      : root_(std::move(root)), errors_max_(errors_max) {}

  // `node` is that of `path`, or of the directory in which it could not be looked up. An earlier
  // error of both is replaced.
  void note(NodeId node, std::string_view path, const Status& status, const Caller& caller = {});
  // The caller that met the newest of the node, unless one is known.
  void note(NodeId node, const Caller& caller);
  // The newest of the node.
  std::optional<PathError> find(NodeId node) const;
  // Oldest first.
  std::vector<PathError> all() const;

 private:
  struct Entry {
    NodeId node;
    PathError error;
  };
  using Place = std::list<Entry>::iterator;

  void forget_oldest();

  const std::string root_;
  const size_t errors_max_;
  mutable std::mutex mutex_;
  std::list<Entry> oldest_first_;
  std::map<std::pair<NodeId, std::string>, Place> by_path_;
  std::unordered_map<NodeId, Place> newest_;
};

}  // namespace leat
