// SPDX-License-Identifier: Apache-2.0
// OpenFiles: the nodes that the kernel has open, which file answers for each, and which of them the
// kernel reads by itself. The kernel's rules (FACTS 1.1): while any open or mmap of an inode lives
// all its opens must be of one mode, and of one backing id. So the first open decides, the others
// repeat, and the last release gives the backing id back, with which the file's bytes may leave the
// cache. What is open, and how, is noted for a successor before the kernel is told. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/status.h"
#include "cache/page_store.h"
#include "vfs/file_system.h"

namespace leat {

// The kernel's register of backing files.
class BackingRegister {
 public:
  virtual ~BackingRegister() = default;
  // An id above 0. kPermissionDenied and kUnsupported mean that no file can ever be added.
  virtual Result<int> add(int fd) = 0;
  virtual void remove(int id) = 0;
};

class OpenFiles {
 public:
  // 0: the open is answered by READ requests.
  using BackingId = int;

  // `kernel` must outlive the table.
  explicit OpenFiles(BackingRegister& kernel) : kernel_(kernel) {}

  // Notes an open. The mode is that of the opens there are; where it is the first, the file's
  // backing() decides. What answers for the node is the file of the first open, since a node is one
  // version.
  BackingId open(std::shared_ptr<OpenFile> file);
  // What answers for the node; null where it is not open.
  std::shared_ptr<OpenFile> find(NodeId node);
  // 0 also where it is not open.
  BackingId backing_of(NodeId node);
  // One open less; nothing where there is none.
  void release(NodeId node);

  // As a predecessor left it, before any request.
  void take_over(ReopenedFile open);

  // Off for good, with the reason; opens so far keep their mode.
  void turn_off(std::string reason);
  bool on() const { return on_.load(std::memory_order_relaxed); }
  std::string off_reason() const;
  // Nodes open and passed through now.
  uint64_t passed_through() const { return passed_through_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    std::shared_ptr<OpenFile> file;
    uint32_t opens = 0;
    BackingId id = 0;
    std::shared_ptr<BackingFile> backing;  // keeps the bytes while the kernel reads them
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<NodeId, Entry> nodes;
  };
  static constexpr size_t kShards = 16;

  Shard& shard_of(NodeId node) { return shards_[shard_of_node(node, kShards)]; }
  std::optional<BackingId> repeat(NodeId node);

  BackingRegister& kernel_;
  std::array<Shard, kShards> shards_;
  std::atomic<bool> on_ = true;
  std::atomic<uint64_t> passed_through_ = 0;
  mutable std::mutex reason_mutex_;
  std::string off_reason_;
};

}  // namespace leat
