// SPDX-License-Identifier: Apache-2.0
// ErrorMemory: why a node could last not be read or changed, for user.leat.last_error. Bounded: the
// node whose error is oldest is forgotten first. Thread-safe.
#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "vfs/file_system.h"

namespace leat {

class ErrorMemory {
 public:
  explicit ErrorMemory(size_t nodes_max) : nodes_max_(nodes_max) {}

  void note(NodeId node, std::string text);
  std::optional<std::string> find(NodeId node) const;

 private:
  struct Entry {
    NodeId node;
    std::string text;
  };

  const size_t nodes_max_;
  mutable std::mutex mutex_;
  std::list<Entry> oldest_first_;
  std::unordered_map<NodeId, std::list<Entry>::iterator> by_node_;
};

}  // namespace leat
