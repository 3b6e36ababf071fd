// SPDX-License-Identifier: Apache-2.0
// VirtualFiles: virtual files; each lookup creates a new one with its present content. So a node is
// one version, has a size, may be mapped, and never changes. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "vfs/file_system.h"

namespace leat {

class VirtualFiles {
 public:
  // `bytes_max` limits the content held by the kernel or by open files. Node numbers have the bits
  // of `number_bits`. They are unused by earlier processes of this boot, since a kernel may still
  // hold their nodes.
  VirtualFiles(uint64_t number_bits, uint64_t bytes_max);

  // Creates a node with that content and one lookup; sets number and size in `attributes`. Returns
  // kBusy if too much is held.
  Result<NodeAttributes> add(NodeAttributes attributes, const std::string& content);
  void forget(NodeId node, uint64_t count);
  // Return nothing for a node that was forgotten, or belongs to an earlier process.
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
