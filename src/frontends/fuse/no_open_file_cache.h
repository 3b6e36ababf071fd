// SPDX-License-Identifier: Apache-2.0
// NoOpenFileCache: the files of nodes that the kernel reads without OPEN (`no_open`). Keeps the
// most recently used ones, because there is no RELEASE. An evicted file is recreated by its next
// read and loses only its prefetch window. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "vfs/file_system.h"

namespace leat {

class NoOpenFileCache {
 public:
  explicit NoOpenFileCache(size_t files_max = 1024) : shard_max_(files_max / kShards) {}

  // Returns null if it is not cached.
  std::shared_ptr<OpenFile> find(NodeId node);
  // Returns the cached file, or caches and returns `file`. A file that is not from a store is not
  // cached, since it holds its whole content.
  std::shared_ptr<OpenFile> add(std::shared_ptr<OpenFile> file);

 private:
  struct Shard {
    std::mutex mutex;                            // leaf
    std::list<std::shared_ptr<OpenFile>> files;  // the most recently used comes first
    std::unordered_map<NodeId, std::list<std::shared_ptr<OpenFile>>::iterator> positions;
  };
  static constexpr size_t kShards = 16;

  Shard& shard_of(NodeId node) { return shards_[shard_of_node(node, kShards)]; }

  const size_t shard_max_;
  std::array<Shard, kShards> shards_;
};

}  // namespace leat
