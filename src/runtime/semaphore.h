// SPDX-License-Identifier: Apache-2.0
// Semaphore: bounds resources in use (requests, bytes in flight). First come, first served.
// Thread-safe. Must outlive its permits.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "base/status.h"
#include "runtime/context.h"
#include "runtime/shared_promise.h"
#include "runtime/task.h"

namespace leat {

class Semaphore {
 public:
  // Returns its share when destroyed.
  class Permit {
   public:
    Permit() = default;
    Permit(Semaphore* semaphore, uint64_t count) : semaphore_(semaphore), count_(count) {}
    Permit(Permit&& other) noexcept
        : semaphore_(std::exchange(other.semaphore_, nullptr)), count_(other.count_) {}
    Permit& operator=(Permit&& other) noexcept {
      std::swap(semaphore_, other.semaphore_);
      std::swap(count_, other.count_);
      return *this;
    }
    ~Permit() {
      if (semaphore_ != nullptr) semaphore_->release(count_);
    }

   private:
    Semaphore* semaphore_ = nullptr;
    uint64_t count_ = 0;
  };

  explicit Semaphore(uint64_t limit) : limit_(limit), free_(limit) {}

  // Waits for `count`. A request for more than the limit gets the whole limit, so that it cannot
  // wait for ever.
  Task<Result<Permit>> acquire(Context context, uint64_t count, const char* what);
  // Does not wait. Returns nothing if not enough is free or others are waiting.
  std::optional<Permit> try_acquire(uint64_t count);

  uint64_t in_use() const;

 private:
  struct Waiter {
    uint64_t count;
    std::shared_ptr<SharedPromise<bool>> granted;
  };

  void release(uint64_t count);

  mutable std::mutex mutex_;
  const uint64_t limit_;
  uint64_t free_;
  std::deque<Waiter> waiters_;
};

}  // namespace leat
