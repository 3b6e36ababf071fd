// SPDX-License-Identifier: Apache-2.0
// CatalogEntry: what a path stands for. Mount: who answers for it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "catalog/name_table.h"
#include "catalog/snapshot/snapshot.h"
#include "model/file_info.h"
#include "model/file_ref.h"
#include "model/mount_entry.h"
#include "runtime/context.h"
#include "source/source.h"

namespace leat {

class MountLine;

// As it was mounted, or changed last; whoever holds an earlier one learns so by newest().
struct Mount {
  MountEntry entry;
  SourcePtr source;
  // Set exactly where the freshness is kSnapshot: what answers in place of the store.
  SnapshotPtr snapshot = nullptr;
  std::string root_in_snapshot = {};  // where the mount's own directory is in it; "": at its root
  Freshness released = {};            // the freshness without it
  std::shared_ptr<MountLine> line = nullptr;  // of those before it and after it; null: it is alone
  uint64_t number = 0;                        // in the line

  // The mount's own, or that of path `below` in it. What a snapshot answers is kSnapshot.
  const Freshness& freshness_of(std::string_view below) const {
    const Policy& policy = entry.policy;
    return snapshot ? policy.freshness : policy.of(below).freshness;
  }
};
using MountPtr = std::shared_ptr<const Mount>;

// A mount through its changes. Thread-safe.
class MountLine {
 public:
  // The first of a line; any number of threads may have it from then on.
  static MountPtr begin(Mount mount);
  // `after` takes the place of `before`, of which it is a changed copy.
  static MountPtr go_on(const Mount& before, Mount after);

  uint64_t newest_number() const { return number_.load(std::memory_order_acquire); }
  MountPtr newest() const;

 private:
  std::atomic<uint64_t> number_ = 0;
  mutable std::mutex mutex_;           // leaf
  std::weak_ptr<const Mount> newest_;  // the mount table holds it, or it is unmounted
};

// Whether nothing took its place. Null above all mounts: so it is.
bool is_newest(const Mount* mount);
// What took its place, or the mount itself.
MountPtr newest(const MountPtr& mount);

struct CatalogEntry {
  FileInfo info;
  FileRefPtr ref;             // files only
  MountPtr mount;             // null for directories above all mounts
  std::string directory_key;  // directories only: in the store, ends in '/' or is ""
  // Believed until then without asking; max() for immutable. Counted from when the store was asked,
  // so an answer that took long may have passed it already.
  Clock::time_point fresh_until;
  // Among the names of its directory when that was listed (NameRecord::place); kNoPlace where that
  // is not known. A hint: another listing may have others.
  uint64_t place = kNoPlace;

  // In the store.
  const std::string& key() const { return ref ? ref->key : directory_key; }
};

}  // namespace leat
