// SPDX-License-Identifier: Apache-2.0
// FairGate: a fair semaphore. It bounds how much of something is in flight (requests, bytes) and
// grants permits to waiters in FairOrder. A group is a store. One group never gets everything, and
// each group may always have one permit, since a store that hangs must not stop the others.
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
#include "fetch/fair_order.h"
#include "runtime/context.h"
#include "runtime/shared_result.h"
#include "runtime/task.h"

namespace leat {

class FairGate {
 public:
  struct Ask {
    uint64_t count = 1;  // a value above the limit counts as the limit
    uint64_t group = 0;
    uint64_t flow = 0;
    uint64_t cost = 1;
    bool yields = false;  // low priority: comes after the others, and leaves a part to them
  };
  struct Limits {
    uint64_t all;
    uint64_t yielding;  // up to which low-priority requests are granted
    uint64_t group;     // of one group
  };
  // Releases its count when destroyed.
  class Permit {
   public:
    Permit() = default;
    Permit(FairGate* gate, uint64_t count, uint64_t group)
        : gate_(gate), count_(count), group_(group) {}
    Permit(Permit&& other) noexcept
        : gate_(std::exchange(other.gate_, nullptr)), count_(other.count_), group_(other.group_) {}
    Permit& operator=(Permit&& other) noexcept {
      std::swap(gate_, other.gate_);
      std::swap(count_, other.count_);
      std::swap(group_, other.group_);
      return *this;
    }
    ~Permit() {
      if (gate_ != nullptr) gate_->give_back(count_, group_);
    }
    // Releases all but `count`.
    void shrink_to(uint64_t count);

   private:
    FairGate* gate_ = nullptr;
    uint64_t count_ = 0;
    uint64_t group_ = 0;
  };

  explicit FairGate(Limits limits) : limits_(limits) {}

  Task<Result<Permit>> acquire(Context context, Ask ask, const char* what);
  // Does not wait. Returns nothing if the request does not fit, or if one of normal priority waits.
  std::optional<Permit> try_acquire(Ask ask);

  uint64_t in_use() const;
  uint64_t waiting() const;
  // Groups with permits or waiters. Other groups take no memory.
  size_t groups() const;

 private:
  struct Waiter {
    Ask ask;
    std::shared_ptr<SharedResult<bool>> granted;
  };
  struct Group {
    uint64_t used = 0;
    uint64_t waiting = 0;
  };
  using Granted = std::vector<std::shared_ptr<SharedResult<bool>>>;

  bool fits_locked(const Ask& ask) const;
  bool group_full_locked(const Ask& ask) const;
  void take_locked(const Ask& ask);
  void end_wait_locked(const Ask& ask);
  void drop_locked(uint64_t count, uint64_t group);
  bool somebody_has_none_locked() const;
  Granted next_locked();
  void give_back(uint64_t count, uint64_t group);

  const Limits limits_;
  mutable std::mutex mutex_;
  uint64_t used_ = 0;
  FairOrder order_;
  std::map<FairOrder::Place, Waiter> waiters_;
  std::unordered_map<uint64_t, Group> groups_;  // those with permits or waiters
};

}  // namespace leat
