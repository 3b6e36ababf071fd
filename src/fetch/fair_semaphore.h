// SPDX-License-Identifier: Apache-2.0
// FairSemaphore: a fair semaphore. It bounds how much of something is in flight (requests,
// bytes) and grants permits to waiters in the order of FairQueue. A tenant is a store. One tenant
// never gets everything, and each tenant may always have one permit, since a store that hangs must
// not stop the others.
// Thread-safe, one leaf lock; must outlive its permits.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fetch/fair_queue.h"
#include "runtime/context.h"
#include "runtime/shared_promise.h"
#include "runtime/task.h"

namespace leat {

class FairSemaphore {
 public:
  struct Request {
    uint64_t count = 1;  // a value above the limit counts as the limit
    uint64_t tenant = 0;
    uint64_t flow = 0;
    uint64_t cost = 1;
    bool low_priority = false;  // low priority: comes after the others, and leaves a part to them
  };
  struct Limits {
    uint64_t all;
    uint64_t low_priority;  // up to which low-priority requests are granted
    uint64_t tenant;        // of one tenant

    friend bool operator==(const Limits&, const Limits&) = default;
  };
  // Releases its count when destroyed.
  class Permit {
   public:
    Permit() = default;
    Permit(FairSemaphore* semaphore, uint64_t count, uint64_t tenant)
        : semaphore_(semaphore), count_(count), tenant_(tenant) {}
    Permit(Permit&& other) noexcept
        : semaphore_(std::exchange(other.semaphore_, nullptr)),
          count_(other.count_),
          tenant_(other.tenant_) {}
    Permit& operator=(Permit&& other) noexcept {
      std::swap(semaphore_, other.semaphore_);
      std::swap(count_, other.count_);
      std::swap(tenant_, other.tenant_);
      return *this;
    }
    ~Permit() {
      if (semaphore_ != nullptr) semaphore_->release(count_, tenant_);
    }
    // Releases all but `count`.
    void shrink_to(uint64_t count);

   private:
    FairSemaphore* semaphore_ = nullptr;
    uint64_t count_ = 0;
    uint64_t tenant_ = 0;
  };

  explicit FairSemaphore(Limits limits) : limits_(limits) {}

  Task<Result<Permit>> acquire(Context context, Request request, const char* what);
  // From now on. Waiters that fit are granted; nothing is taken from holders.
  void set_limits(Limits limits);
  // Does not wait. Returns nothing if the request does not fit, or if one of normal priority waits.
  std::optional<Permit> try_acquire(Request request);

  uint64_t in_use() const;
  uint64_t waiting() const;
  // Tenants with permits or waiters. Other tenants take no memory.
  size_t tenants() const;

 private:
  struct Waiter {
    Request request;
    std::shared_ptr<SharedPromise<bool>> granted;
  };
  struct Tenant {
    uint64_t used = 0;
    uint64_t waiting = 0;
  };
  using Granted = std::vector<std::shared_ptr<SharedPromise<bool>>>;

  bool fits_locked(const Request& request) const;
  bool tenant_full_locked(const Request& request) const;
  void take_locked(const Request& request);
  void end_wait_locked(const Request& ask);
  void release_locked(uint64_t count, uint64_t tenant);
  bool any_tenant_without_permit_locked() const;
  Granted grant_locked();
  void release(uint64_t count, uint64_t tenant);

  mutable std::mutex mutex_;
  Limits limits_;
  uint64_t used_ = 0;
  FairQueue queue_;
  std::map<FairQueue::Position, Waiter> waiters_;
  std::unordered_map<uint64_t, Tenant> tenants_;  // those with permits or waiters
};

}  // namespace leat
