// SPDX-License-Identifier: Apache-2.0
// UnopenedFiles: what answers for nodes that the kernel reads without having told of an open
// (`no_open`): the files read last, as many as fit, since nobody says when they are closed. A file
// that was dropped is made anew by its next read, and has lost only its look-ahead. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "vfs/file_system.h"

namespace leat {

class UnopenedFiles {
 public:
  explicit UnopenedFiles(size_t files_max = 1024) : shard_max_(files_max / kShards) {}

  // Null where it is not there.
  std::shared_ptr<OpenFile> find(NodeId node);
  // The one that is there already, or `file` from now on; what is no file of a store is not kept,
  // since it holds its whole content.
  std::shared_ptr<OpenFile> add(std::shared_ptr<OpenFile> file);

 private:
  struct Shard {
    std::mutex mutex;                            // leaf
    std::list<std::shared_ptr<OpenFile>> files;  // the one used last comes first
    std::unordered_map<NodeId, std::list<std::shared_ptr<OpenFile>>::iterator> places;
  };
  static constexpr size_t kShards = 16;

  Shard& shard_of(NodeId node) { return shards_[shard_of_node(node, kShards)]; }

  const size_t shard_max_;
  std::array<Shard, kShards> shards_;
};

}  // namespace leat
