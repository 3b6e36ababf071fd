// SPDX-License-Identifier: Apache-2.0
// OpenFiles: the nodes that the kernel has open, the file behind each, and those with passthrough.
// Thread-safe.
//
// Kernel rule: while any open or mapping of an inode lives, all its opens need the same mode and
// the same backing id. So the first open decides and the others repeat it. The last release returns
// the backing id, and then the cache may evict the bytes. Opens and modes are recorded for a
// successor before the kernel gets the answer.
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

// The kernel's table of backing files.
class BackingRegister {
 public:
  virtual ~BackingRegister() = default;
  // Returns an id above 0. kPermissionDenied and kUnsupported mean that no file can ever be added.
  virtual Result<int> add(int fd) = 0;
  virtual void remove(int id) = 0;
};

class OpenFiles {
 public:
  // 0: READ requests serve the open.
  using BackingId = int;

  // `kernel` must outlive the table.
  explicit OpenFiles(BackingRegister& kernel) : kernel_(kernel) {}

  // Records an open. The mode is that of the present opens; for the first one, the file's backing()
  // decides. The file of the first open serves the node, since a node is one version.
  BackingId open(std::shared_ptr<OpenFile> file);
  // Returns the file that serves the node; null if it is not open.
  std::shared_ptr<OpenFile> find(NodeId node);
  // Returns 0 also if the node is not open.
  BackingId backing_of(NodeId node);
  // Removes one open; does nothing if there is none.
  void release(NodeId node);

  // Restores a predecessor's state; call before any request.
  void take_over(ReopenedFile open);

  // Disables passthrough permanently, with the reason; present opens keep their mode.
  void disable_passthrough(std::string reason);
  bool passthrough_enabled() const { return passthrough_on_.load(std::memory_order_relaxed); }
  std::string off_reason() const;
  // Nodes now open with passthrough.
  uint64_t passthrough_files() const { return passed_through_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    std::shared_ptr<OpenFile> file;
    uint32_t opens = 0;
    BackingId id = 0;
    // protects the bytes from eviction while the kernel reads them
    std::shared_ptr<BackingFile> backing;
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
  std::atomic<bool> passthrough_on_ = true;
  std::atomic<uint64_t> passed_through_ = 0;
  mutable std::mutex reason_mutex_;
  std::string off_reason_;
};

}  // namespace leat
