// SPDX-License-Identifier: Apache-2.0
// StoreHealth: whether a store answers, for the log, `leat status` and the metrics. One per store
// of the process, shared by the sources that mounts open of it. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "runtime/context.h"
#include "telemetry/metrics.h"

namespace leat {

// A store that does not answer.
struct StoreOutage {
  std::string store;          // "s3://bucket"
  Clock::duration lasting{};  // since the first failure after the last answer
  uint64_t waiting = 0;       // blocked by the outage
  std::string reason;         // the last failure
};

// Returns the stores that do not answer now, by name.
std::vector<StoreOutage> store_outages(Clock::time_point now = Clock::now());

class StoreHealth {
 public:
  // Consecutive failures before a store counts as unavailable, and the time that they have to span.
  // Fewer failures suffice over `kLongOutage`. A store that fails one request in ten has three in
  // a row once in a thousand, and rarely over 2 s.
  static constexpr unsigned kFailuresMin = 3;
  static constexpr Clock::duration kFailingMin = std::chrono::seconds(2);
  static constexpr Clock::duration kLongOutage = std::chrono::seconds(5);

  // Returns the instance of that store; creates it if needed. `labels`: of its metrics,
  // "store,store_id".
  static std::shared_ptr<StoreHealth> of(const std::string& store, const std::string& labels);

  StoreHealth(std::string store, std::string labels);
  ~StoreHealth();
  StoreHealth(const StoreHealth&) = delete;

  // A request that waits for the store, between its attempts, while this lives.
  class Waiting {
   public:
    explicit Waiting(std::shared_ptr<StoreHealth> of) : of_(std::move(of)) { ++of_->waiting_; }
    Waiting(Waiting&& other) noexcept : of_(std::move(other.of_)) {}
    Waiting& operator=(Waiting&&) = delete;
    ~Waiting() {
      if (of_ != nullptr) --of_->waiting_;
    }

   private:
    std::shared_ptr<StoreHealth> of_;
  };

  // Records a success or a definite response. Logs the end of an outage.
  void responded(Clock::time_point now);
  // Records an attempt that started at `began` and failed because of the store or was throttled.
  // Logs the start of an outage if `waits` describes how long requests wait: "up to 5m".
  void failed(Clock::time_point began, Clock::time_point now, const Status& why,
              const std::string& waits);

  // Whether any request failed since the last response.
  bool failing() const { return failing_.load(std::memory_order_relaxed); }
  bool unavailable() const { return unavailable_.load(std::memory_order_relaxed); }
  std::optional<StoreOutage> outage(Clock::time_point now) const;

 private:
  const std::string store_;
  std::atomic<bool> failing_ = false;
  std::atomic<bool> unavailable_ = false;
  std::atomic<uint64_t> waiting_ = 0;
  mutable std::mutex mutex_;  // leaf; protects the members below
  unsigned failures_ = 0;
  Clock::time_point since_{};
  bool logged_ = false;
  std::string reason_;
  const Gauge unavailable_gauge_, waiting_gauge_;
};

}  // namespace leat
