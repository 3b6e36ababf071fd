// SPDX-License-Identifier: Apache-2.0
// WindowBudget: bounds the prefetch windows of all streams of a host together. Streams that want
// little get it; the rest is shared equally (max-min), so that no stream has more because it came
// first. Pure bookkeeping. Thread-safe, one leaf lock; must outlive its shares.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <utility>

#include "telemetry/metrics.h"

namespace leat {

class WindowBudget {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // A stream without a read for this time has lost its share until it reads again: its reader
  // has ended or is busy elsewhere.
  static constexpr std::chrono::seconds kIdle{5};
  // Smaller shares are not worth their requests; streams then get none, and only the kernel's own
  // readahead of each remains.
  static constexpr uint64_t kShareMin = uint64_t{1} << 20;

  explicit WindowBudget(uint64_t bytes_max,
                        std::function<Time()> now = &std::chrono::steady_clock::now);
  ~WindowBudget();

 private:
  struct Entry {
    uint64_t wanted = 0;  // 0: idle
    Time used_at;
  };
  using Position = std::list<Entry>::iterator;

 public:
  // The share of one stream; released when destroyed.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), position_(other.position_) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(position_, other.position_);
      return *this;
    }
    ~Share() {
      if (budget_ != nullptr) budget_->release(position_);
    }

   private:
    friend class WindowBudget;
    WindowBudget* budget_ = nullptr;
    Position position_;
  };

  // Records a read of the stream, which wants `bytes` (not 0) ahead. Returns its grant, which may
  // be 0.
  uint64_t request(Share& share, uint64_t bytes);

  // Streams want more than the budget.
  bool tight() const { return level_.load(std::memory_order_relaxed) != UINT64_MAX; }
  // With `more`, all together want less than half of the budget: streams may take what they need.
  bool plenty(uint64_t more) const {
    return wanted_.load(std::memory_order_relaxed) + more <= bytes_max_ / 2;
  }
  uint64_t wanted_bytes() const { return wanted_.load(std::memory_order_relaxed); }
  uint64_t granted_bytes() const;
  size_t streams() const;  // with a share

  // Streams that have read within kIdle; the others have lost their share or soon will.
  struct Use {
    size_t streams = 0;
    uint64_t window_bytes = 0;
  };
  Use use() const;

 private:
  uint64_t granted_locked(uint64_t wanted) const;
  void release(Position position);
  void change_locked(Entry& entry, uint64_t wanted);
  void sweep_locked(Time now);
  void level_locked();

  const uint64_t bytes_max_;
  const std::function<Time()> now_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;
  std::map<uint64_t, uint64_t> demands_;  // bytes wanted -> number of streams that want them
  Time swept_at_;
  std::atomic<uint64_t> wanted_ = 0;
  std::atomic<uint64_t> level_ = UINT64_MAX;  // the maximum grant of one stream
  Gauge streams_gauge_, window_bytes_gauge_;
};

}  // namespace leat
