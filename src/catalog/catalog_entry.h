// SPDX-License-Identifier: Apache-2.0
// CatalogEntry: the file or directory at a path. Mount: the source that answers for it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "catalog/snapshot/name_table.h"
#include "catalog/snapshot/snapshot.h"
#include "model/file_info.h"
#include "model/file_ref.h"
#include "model/mount_entry.h"
#include "runtime/context.h"
#include "source/source.h"

namespace leat {

class MountHistory;

// State of a mount since it was mounted or last changed. A holder of an earlier state finds the
// present one with latest().
struct Mount {
  MountEntry entry;
  SourcePtr source;
  // Set if and only if the freshness is kSnapshot: answers instead of the store.
  SnapshotPtr snapshot = nullptr;
  std::string root_in_snapshot = {};  // path of its directory in the snapshot; "": its root
  Freshness store_freshness = {};     // the freshness without the snapshot
  std::shared_ptr<MountHistory> history = nullptr;  // null: it is alone
  uint64_t number = 0;                              // in its history

  // Returns the freshness of the mount, or of path `below` in it. With a snapshot it is kSnapshot.
  const Freshness& freshness_of(std::string_view below) const {
    const Policy& policy = entry.policy;
    return snapshot ? policy.freshness : policy.of(below).freshness;
  }
};
using MountPtr = std::shared_ptr<const Mount>;

// MountHistory: the history of one mount. Thread-safe.
class MountHistory {
 public:
  // Begins a history with its first mount; other threads may use it from then on.
  static MountPtr begin(Mount mount);
  // `after`, a changed copy of `before`, replaces it.
  static MountPtr append(const Mount& before, Mount after);

  uint64_t latest_number() const { return number_.load(std::memory_order_acquire); }
  MountPtr latest() const;

 private:
  std::atomic<uint64_t> number_ = 0;
  mutable std::mutex mutex_;           // leaf
  std::weak_ptr<const Mount> latest_;  // owned by the mount table until it is unmounted
};

// Returns true if no other mount replaced it. True also for null, above all mounts.
bool is_latest(const Mount* mount);
// Returns the mount that replaced it, or the mount itself.
MountPtr latest(const MountPtr& mount);

struct CatalogEntry {
  FileInfo info;
  FileRefPtr ref;             // files only
  MountPtr mount;             // null for directories above all mounts
  std::string directory_key;  // directories only: key in the store, ends in '/' or is ""
  // Served from memory until then; max() for immutable. Counted from the request to the store, so a
  // slow response may be stale already.
  Clock::time_point fresh_until;
  // Position among the names of its directory when that was listed (FoundName::index), or
  // kNoPlace. A hint: another listing may have other positions.
  uint64_t index = kNoIndex;

  // Key in the store.
  const std::string& key() const { return ref ? ref->key : directory_key; }
};

}  // namespace leat
