// SPDX-License-Identifier: Apache-2.0
// RetryingSource: wraps a source with retries, a circuit breaker and request pacing. A request
// without a deadline waits for a store that does not respond, as an NFS hard mount does. One with a
// deadline fails as soon as the store is known to fail. docs/design/0002-stores.md has the
// decisions and reasons. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "source/retry/attempts.h"
#include "source/retry/circuit_breaker.h"
#include "source/retry/first_byte_latency.h"
#include "source/retry/request_pacer.h"
#include "source/retry/retry_budget.h"
#include "source/retry/store_health.h"
#include "source/retry/store_metrics.h"
#include "source/retry/timer.h"
#include "source/source.h"
#include "telemetry/metrics.h"

namespace leat {

struct RetryOptions {
  // How long a request without a deadline retries a store that fails, hangs or throttles
  // everything. max(): no limit. Zero: such a request gets `attempts_max` attempts, as one with a
  // deadline does.
  Clock::duration io_timeout{0};
  // Maximum attempts of a request that does not wait, without throttled ones. At least 1.
  unsigned attempts_max = 8;
  // Back-off before the second attempt; doubles with each. The actual delay is half to all of it,
  // at random.
  Clock::duration backoff_min = std::chrono::milliseconds(100);
  Clock::duration backoff_max = std::chrono::seconds(5);
  // How long a request that does not wait is retried while the store throttles it.
  Clock::duration throttle_timeout = std::chrono::seconds(30);
  // Limits of the idle timeout of an attempt, which is 4 × p99. Listings start later by nature.
  Clock::duration attempt_timeout_min = std::chrono::seconds(1);
  Clock::duration list_timeout_min = std::chrono::seconds(5);
  Clock::duration attempt_timeout_max = std::chrono::seconds(10);
  PacerOptions pacer;
  CircuitBreakerOptions breaker;
  std::shared_ptr<Timer> timer = system_timer();
  uint64_t seed = 0;  // of the back-off; zero: a different one each time
};

// Destroy it only after every request has ended, or after the requests' executor is destroyed.
class RetryingSource : public Source, public std::enable_shared_from_this<RetryingSource> {
 public:
  static std::shared_ptr<RetryingSource> make(SourcePtr inner, RetryOptions options = {});

  const StoreId& id() const override { return inner_->id(); }
  const std::string& name() const override { return inner_->name(); }
  const SourceCapabilities& capabilities() const override { return inner_->capabilities(); }
  unsigned concurrency_hint(uint64_t bytes) const override;
  bool failing() const override { return health_->failing(); }
  Clock::duration first_byte_median() const override {
    const Clock::duration of_objects = object_latency_.median(timer_->now());
    return of_objects > Clock::duration::zero() ? of_objects
                                                : listing_latency_.median(timer_->now());
  }

  // Returns kUnavailable and kThrottled only after all that the options and the deadline allow. The
  // message then has the number of attempts and the reason why they ended. With an `io_timeout` and
  // without a deadline no request fails because others did: it waits while the circuit is open. A
  // read is retried from the start of its range, or from the bytes that its progress reported. The
  // request's own timeouts are the upper bound of what an attempt gets; their report describes the
  // last attempt.
  Task<Result<SourceObject>> stat(Context context, StatRequest request) override;
  Task<Result<ListPage>> list(Context context, ListRequest request) override;
  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override;
  Task<Result<>> read_scattered(Context context, ReadRequest request,
                                std::vector<std::span<std::byte>> pieces) override;
  std::optional<bool> take_cache_miss(const std::string& key) override {
    return inner_->take_cache_miss(key);
  }
  // Not retried: this host's own disks answer or fail.
  bool has_local_file(const std::string& key, uint64_t object_size) const override {
    return inner_->has_local_file(key, object_size);
  }
  Task<Result<SourceFilePtr>> open_file(Context context, OpenRequest request) override {
    return inner_->open_file(std::move(context), std::move(request));
  }

  // The same for changes. A change that depends on the present state is retried only if it was
  // throttled: otherwise the retry could mistake its own success for another client's change.
  // Changes may take longer than their timeouts by the transfer time of their bytes and the store's
  // processing time.
  Task<Result<SourceObject>> write(Context context, WriteRequest request,
                                   std::span<const std::byte> content) override;
  Result<ObjectWriterPtr> begin_write(WriteRequest request) override;
  Task<Result<SourceObject>> copy(Context context, CopyRequest request) override;
  Task<Result<>> rename(Context context, RenameRequest request) override;
  Task<Result<SourceObject>> set_attributes(Context context, AttributesRequest request) override;
  Task<Result<>> remove(Context context, RemoveRequest request) override;

  // For tests and for inspection.
  const RequestPacer& pacer() const { return pacer_; }

 private:
  enum class Kind : uint8_t { kObject, kListing, kChange };
  struct Operation {
    const char* verb;
    const std::string& key;  // of the request in the calling coroutine
    uint64_t bytes;          // transferred in either direction
    Kind kind;
    AttemptTimeouts timeouts;
    Clock::duration allowance{};  // beyond the timeouts, until the first byte
    bool repeatable = true;
  };
  struct AttemptGuards;
  class Writer;
  template <class T>
  using Attempt = std::function<Task<Result<T>>(Context, AttemptTimeouts)>;

  RetryingSource(SourcePtr inner, RetryOptions options);

  template <class T>
  Task<Result<T>> run_with_retry(Context context, Operation operation, Attempt<T> attempt);
  // Whether a request waits for a store that does not respond.
  bool waits(const Context& context) const {
    return options_.io_timeout > Clock::duration::zero() &&
           context.deadline == Clock::time_point::max();
  }
  // When a waiting request fails.
  Clock::time_point wait_deadline(const Attempts& attempts) const;
  // Waits until the breaker admits a request, if this request waits; else returns the rejection.
  Task<Result<>> wait_for_breaker(Context context, Operation operation, Attempts* attempts);
  AttemptTimeouts timeouts_of(const Operation& operation, Attempts& attempts, bool probe);
  // Reports an attempt to all parts and releases its permits. Returns whether a retry may help.
  bool record_outcome(const Operation& operation, Attempts& attempts, AttemptGuards guards,
                      const Status* failure);
  // Returns when the next attempt may start, or why there is none.
  Result<Clock::time_point> next_attempt(const Context& context, const Operation& operation,
                                         const Attempts& attempts);
  // Like next_attempt(), for a request that waits.
  Result<Clock::time_point> next_attempt_while_waiting(const Attempts& attempts);
  std::string io_timeout_passed() const;
  Status rejected(const Operation& operation, const Attempts& attempts,
                  const CircuitBreaker::OpenState& open_state,
                  const std::string& reason = "") const;
  Clock::duration backoff_after(const Attempts& attempts);
  // Returns half to all of `delay`, at random.
  Clock::duration jittered(Clock::duration delay);
  // Null for changes: their duration does not depend on the store's speed alone.
  FirstByteLatency* latency_of(const Operation& operation);

  const SourcePtr inner_;
  const RetryOptions options_;
  const std::shared_ptr<Timer> timer_;
  RequestPacer pacer_;
  CircuitBreaker breaker_;
  RetryBudget budget_;
  mutable FirstByteLatency object_latency_;
  mutable FirstByteLatency listing_latency_;
  std::mutex random_mutex_;  // leaf
  std::mt19937_64 random_;
  const Gauge small_limit_gauge_, large_limit_gauge_, rate_gauge_;
  StoreMetrics metrics_;
  const std::shared_ptr<StoreHealth> health_;
  const std::string waits_text_;  // "up to 5m"; empty: no request waits
};

}  // namespace leat
