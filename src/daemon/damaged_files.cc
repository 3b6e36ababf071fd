// SPDX-License-Identifier: Apache-2.0
#include "daemon/damaged_files.h"

#include <optional>
#include <utility>

namespace leat {

void DamagedFiles::add(const FileId& id) {
  std::optional<Gate::Holder> holder;
  {
    std::lock_guard lock(mutex_);
    if (!drop_) return;  // no mount has served any bytes yet
    waiting_.insert(id);
    if (running_) return;
    holder = gate_.enter();
    running_ = holder.has_value();
  }
  if (holder) executor_.spawn(run(*std::move(holder)));
}

void DamagedFiles::begin(Drop drop) {
  std::lock_guard lock(mutex_);
  drop_ = std::move(drop);
}

Task<> DamagedFiles::run(Gate::Holder) {
  for (;;) {
    FileIdSet files;
    std::shared_ptr<SharedPromise<bool>> idle;
    {
      std::lock_guard lock(mutex_);
      files.swap(waiting_);
      if (files.empty()) {
        running_ = false;
        idle = std::exchange(idle_, nullptr);
      }
    }
    if (files.empty()) {
      if (idle) idle->set(true);
      co_return;
    }
    co_await drop_(std::move(files));
  }
}

Task<> DamagedFiles::all_dropped() {
  std::shared_ptr<SharedPromise<bool>> idle;
  {
    std::lock_guard lock(mutex_);
    if (!running_) co_return;
    if (!idle_) idle_ = SharedPromise<bool>::make();
    idle = idle_;
  }
  auto done = co_await idle->wait(Context::background(), "the kernel to drop damaged bytes");
  static_cast<void>(done);
}

Task<> DamagedFiles::stop() {
  gate_.close();
  co_await gate_.wait_idle();
}

}  // namespace leat
