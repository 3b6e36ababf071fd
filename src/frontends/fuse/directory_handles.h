// SPDX-License-Identifier: Apache-2.0
// DirectoryHandles: maps the kernel's directory handles to open directories. Owns them, because an
// aborted connection never releases its handles. For a successor it keeps each reader's position by
// name, since another listing has other positions. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "runtime/memfd_record_table.h"
#include "vfs/file_system.h"

namespace leat {

// With a longer name the kernel would refuse the whole directory (FUSE_NAME_MAX).
inline constexpr size_t kNameBytesMax = 1024;

struct DirectoryRecord;

class DirectoryHandle {
 public:
  DirectoryHandle(NodeId node, MemfdRecordTable* records, DirectoryRecord* record)
      : node_(node), records_(records), record_(record) {}
  ~DirectoryHandle();
  DirectoryHandle(const DirectoryHandle&) = delete;

  NodeId node() const { return node_; }
  // Null in a successor until the directory is reopened.
  std::shared_ptr<OpenDirectory> directory() const;
  // Keeps the present directory while it is the newest; returns the one in use.
  std::shared_ptr<OpenDirectory> set_directory(std::shared_ptr<OpenDirectory> directory);

  // Call before `next` is given to the reader as the offset after `name`.
  void record_progress(uint64_t next, std::string_view name);
  // The reader has received an answer of this process.
  void clear_resumed();
  // In a successor: returns the name after which a reader at `offset` continues, if a predecessor
  // gave out that offset. Returns nothing for an offset of this process.
  std::optional<std::string> resume_after(uint64_t offset) const;

  // Number of names returned with attributes.
  std::atomic<uint64_t> described = 0;

 private:
  friend class DirectoryHandles;

  struct Position {
    uint64_t offset;
    std::string name;
  };

  const NodeId node_;
  MemfdRecordTable* const records_;
  DirectoryRecord* const record_;  // null: nothing is recorded
  mutable std::mutex mutex_;       // leaf
  std::shared_ptr<OpenDirectory> directory_;
  std::array<std::optional<Position>, 2> resumed_;  // in a successor, until its own first offset
};

class DirectoryHandles {
 public:
  explicit DirectoryHandles(MemfdRecordTable* records);

  // Returns the handle for the kernel.
  uint64_t add(std::shared_ptr<OpenDirectory> directory);
  // Returns null for an unknown handle.
  std::shared_ptr<DirectoryHandle> find(uint64_t handle) const;
  void remove(uint64_t handle);
  // Restores a predecessor's handles; call before any request.
  void take_over();

 private:
  MemfdRecordTable* const records_;
  mutable std::mutex mutex_;  // leaf
  // Never repeats one of an earlier process of this boot, because such a handle may still arrive.
  uint64_t next_;
  std::unordered_map<uint64_t, std::shared_ptr<DirectoryHandle>> handles_;
};

}  // namespace leat
