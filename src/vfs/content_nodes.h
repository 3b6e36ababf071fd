// SPDX-License-Identifier: Apache-2.0
// ContentNodes: files of which each look-up makes a new one, with the content of that moment: a
// node is one version, as everywhere, so it has a size, may be mapped, and is the same to its end.
// Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "vfs/file_system.h"

namespace leat {

class ContentNodes {
 public:
  // What of it is held, by the kernel or by whoever has it open, is `bytes_max` at most. Numbers
  // have the bits of `number_bits`, and are those of no earlier process of this boot, whose nodes a
  // kernel may still have.
  ContentNodes(uint64_t number_bits, uint64_t bytes_max);

  // A new node with that content, looked up once; `attributes` but for number and size. kBusy where
  // too much is held.
  Result<NodeAttributes> add(NodeAttributes attributes, const std::string& content);
  void forget(NodeId node, uint64_t count);
  // Nothing for a node that was forgotten, or is an earlier process's.
  std::optional<NodeAttributes> attributes(NodeId node) const;
  std::shared_ptr<OpenFile> open(NodeId node) const;

 private:
  class File;
  struct Slot {
    NodeAttributes attributes;
    std::shared_ptr<File> file;
    uint64_t lookups = 1;
  };

  const uint64_t bytes_max_;
  // The files may outlive this.
  const std::shared_ptr<std::atomic<uint64_t>> bytes_ = std::make_shared<std::atomic<uint64_t>>(0);
  std::atomic<uint64_t> next_;
  mutable std::mutex mutex_;  // leaf
  std::unordered_map<NodeId, Slot> slots_;
};

}  // namespace leat
