// SPDX-License-Identifier: Apache-2.0
// CatalogEntry: what a path stands for. Mount: who answers for it.
#pragma once

#include <memory>
#include <string>

#include "catalog/snapshot/snapshot.h"
#include "model/file_info.h"
#include "model/file_ref.h"
#include "model/mount_entry.h"
#include "runtime/context.h"
#include "source/source.h"

namespace leat {

struct Mount {
  MountEntry entry;
  SourcePtr source;
  // Set exactly where the freshness is kSnapshot: what answers in place of the store.
  SnapshotPtr snapshot = nullptr;
  std::string root_in_snapshot = {};  // where the mount's own directory is in it; "": at its root
  Freshness released = {};            // the freshness without it
};
using MountPtr = std::shared_ptr<const Mount>;

struct CatalogEntry {
  FileInfo info;
  FileRefPtr ref;             // files only
  MountPtr mount;             // null for directories above all mounts
  std::string directory_key;  // directories only: in the store, ends in '/' or is ""
  // Believed until then without asking; max() for immutable. Counted from when the store was asked,
  // so an answer that took long may have passed it already.
  Clock::time_point fresh_until;

  // In the store.
  const std::string& key() const { return ref ? ref->key : directory_key; }
};

}  // namespace leat
