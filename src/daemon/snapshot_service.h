// SPDX-License-Identifier: Apache-2.0
// SnapshotService: the host's snapshots as files NAME.snapshot of one folder, and the mounts that
// use them. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "catalog/snapshot/snapshot_name.h"
#include "frontends/admin/daemon_api.h"
#include "runtime/executor.h"

namespace leat {

std::string snapshot_file(const std::string& directory, std::string_view name);

class SnapshotService {
 public:
  // All must outlive the service.
  SnapshotService(std::string directory, Catalog& catalog, Executor& executor)
      : directory_(std::move(directory)), catalog_(catalog), executor_(executor) {}

  // Returns the path for a new snapshot of that name; creates the folder. Blocks briefly.
  Result<std::string> file_for(std::string_view name) const;

  Task<Result<std::vector<SnapshotView>>> list();
  // A snapshot that cannot be removed while this lives, until a mount uses it.
  struct SnapshotHold {
    SnapshotPtr snapshot;
    std::shared_ptr<const std::string> hold;
  };
  // kNotFound if there is no such snapshot; kCorrupt.
  Task<Result<SnapshotHold>> open(std::string name);
  // kBusy if a mount uses it, or is about to.
  Task<Result<>> remove(std::string name);

 private:
  std::vector<std::string> users_of(const Id128& id) const;
  std::shared_ptr<const std::string> hold(const std::string& file);
  Result<> remove_now(const std::string& name);

  const std::string directory_;
  Catalog& catalog_;
  Executor& executor_;
  std::mutex mutex_;                                               // taken before that of catalog_
  std::map<std::string, std::weak_ptr<const std::string>> holds_;  // key: file
};

}  // namespace leat
