// SPDX-License-Identifier: Apache-2.0
// DamagedFiles: passes versions with dropped corrupt bytes from the cache to the mounts, since
// their kernels may cache such bytes. It passes many at once: each call visits all nodes.
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "runtime/executor.h"
#include "runtime/gate.h"
#include "runtime/shared_promise.h"
#include "vfs/file_system.h"

namespace leat {

class DamagedFiles {
 public:
  // Returns when the kernels have dropped their cached bytes of these versions.
  using Drop = std::function<Task<>(FileIdSet)>;

  // `executor` must outlive it.
  explicit DamagedFiles(Executor& executor) : executor_(executor) {}

  // For PageStoreOptions::on_damage.
  void add(const FileId& id);
  // Passes versions to `drop` from now on, one call at a time. Before that, and after stop(),
  // versions are discarded. Call once.
  void begin(Drop drop);
  // Returns when all versions added before have been dropped.
  Task<> all_dropped();
  Task<> stop();

 private:
  Task<> run(Gate::Holder holder);

  Executor& executor_;
  Gate gate_;
  std::mutex mutex_;  // leaf
  Drop drop_;
  FileIdSet waiting_;
  bool running_ = false;
  std::shared_ptr<SharedPromise<bool>> idle_;
};

}  // namespace leat
