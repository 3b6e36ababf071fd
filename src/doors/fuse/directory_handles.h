// SPDX-License-Identifier: Apache-2.0
// DirectoryHandles: what the kernel's handles of open directories stand for. Owns them, because a
// connection that is aborted never releases its handles. For a successor it keeps of each handle
// where its reader has got to, by name, since another listing has other positions. Thread-safe.
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

#include "runtime/shared_records.h"
#include "vfs/file_system.h"

namespace leat {

// A longer name would make the kernel refuse the whole directory (FUSE_NAME_MAX).
inline constexpr size_t kNameBytesMax = 1024;

struct DirectoryRecord;

class DirectoryHandle {
 public:
  DirectoryHandle(NodeId node, SharedRecords* records, DirectoryRecord* record)
      : node_(node), records_(records), record_(record) {}
  ~DirectoryHandle();
  DirectoryHandle(const DirectoryHandle&) = delete;

  NodeId node() const { return node_; }
  // Null in a successor until it was opened again.
  std::shared_ptr<OpenDirectory> directory() const;
  // Of several, the first stays while it is the newest.
  std::shared_ptr<OpenDirectory> set_directory(std::shared_ptr<OpenDirectory> directory);

  // `next` is about to be given to the reader as the offset after `name`.
  void note_progress(uint64_t next, std::string_view name);
  // Its reader has an answer of this process.
  void forget_resumed();
  // In a successor: the name after which a reader at `offset` goes on, once it was told of it by a
  // predecessor. Nothing for an offset of this process's own.
  std::optional<std::string> resume_after(uint64_t offset) const;

  // How many names were given with attributes.
  std::atomic<uint64_t> described = 0;

 private:
  friend class DirectoryHandles;

  struct Place {
    uint64_t offset;
    std::string name;
  };

  const NodeId node_;
  SharedRecords* const records_;
  DirectoryRecord* const record_;  // null: nothing is kept
  mutable std::mutex mutex_;       // leaf
  std::shared_ptr<OpenDirectory> directory_;
  std::array<std::optional<Place>, 2> resumed_;  // in a successor, until it has given out its own
};

class DirectoryHandles {
 public:
  explicit DirectoryHandles(SharedRecords* records);

  // The handle for the kernel.
  uint64_t add(std::shared_ptr<OpenDirectory> directory);
  // Null for one that is not there.
  std::shared_ptr<DirectoryHandle> find(uint64_t handle) const;
  void remove(uint64_t handle);
  // What a predecessor kept, before any request.
  void take_over();

 private:
  SharedRecords* const records_;
  mutable std::mutex mutex_;  // leaf
  // Never one of an earlier process of this boot: a handle may still come from there.
  uint64_t next_;
  std::unordered_map<uint64_t, std::shared_ptr<DirectoryHandle>> handles_;
};

}  // namespace leat
