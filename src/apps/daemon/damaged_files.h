// SPDX-License-Identifier: Apache-2.0
// DamagedFiles: the versions of which the cache dropped wrong bytes, on their way to the mounts,
// whose kernels may keep such bytes. Many at a time, since each time all nodes are looked at.
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "runtime/activity.h"
#include "runtime/executor.h"
#include "runtime/shared_result.h"
#include "vfs/file_system.h"

namespace leat {

class DamagedFiles {
 public:
  // Returns when the kernels have dropped what they keep of these.
  using Drop = std::function<Task<>(FileIdSet)>;

  // `executor` must outlive it.
  explicit DamagedFiles(Executor& executor) : executor_(executor) {}

  // Of PageStoreOptions::on_damage.
  void add(const FileId& id);
  // From now on what is added goes to `drop`, which is called by one at a time; before that, and
  // after stop(), nowhere. Once.
  void begin(Drop drop);
  // Returns when what was added before has been dropped.
  Task<> all_dropped();
  Task<> stop();

 private:
  Task<> run(Activity::Token token);

  Executor& executor_;
  Activity activity_;
  std::mutex mutex_;  // leaf
  Drop drop_;
  FileIdSet waiting_;
  bool running_ = false;
  std::shared_ptr<SharedResult<bool>> idle_;
};

}  // namespace leat
