// SPDX-License-Identifier: Apache-2.0
// SteadySource: wraps a source with retries, a circuit breaker and request pacing. A request
// without a deadline waits for a store that does not answer, as an NFS hard mount does. One with a
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

#include "source/source.h"
#include "source/steady/attempts.h"
#include "source/steady/circuit.h"
#include "source/steady/first_byte_history.h"
#include "source/steady/pace.h"
#include "source/steady/retry_budget.h"
#include "source/steady/store_health.h"
#include "source/steady/store_metrics.h"
#include "source/steady/wait_clock.h"
#include "telemetry/metrics.h"

namespace leat {

struct SteadyOptions {
  // How long a request without a deadline retries a store that fails, hangs or throttles
  // everything. max(): no limit. Zero: such a request gets `attempts_max` attempts, as one with a
  // deadline does.
  Clock::duration io_timeout{0};
  // Maximum attempts of a request that does not wait, without throttled ones. At least 1.
  unsigned attempts_max = 8;
  // Back-off before the second attempt; doubles with each. The actual delay is half to all of it,
  // at random.
  Clock::duration delay_min = std::chrono::milliseconds(100);
  Clock::duration delay_max = std::chrono::seconds(5);
  // How long a request that does not wait is retried while the store throttles it.
  Clock::duration patience = std::chrono::seconds(30);
  // Limits of the silence of an attempt, which is 4 × p99. Listings start later by nature.
  Clock::duration silence_min = std::chrono::seconds(1);
  Clock::duration list_silence_min = std::chrono::seconds(5);
  Clock::duration silence_max = std::chrono::seconds(10);
  PaceOptions pace;
  CircuitOptions circuit;
  std::shared_ptr<WaitClock> clock = machine_clock();
  uint64_t seed = 0;  // of the back-off; zero: a different one each time
};

// Destroy it only after every request has ended, or after the requests' executor is destroyed.
class SteadySource : public Source, public std::enable_shared_from_this<SteadySource> {
 public:
  static std::shared_ptr<SteadySource> make(SourcePtr inner, SteadyOptions options = {});

  const StoreId& id() const override { return inner_->id(); }
  const std::string& name() const override { return inner_->name(); }
  const SourceCapabilities& capabilities() const override { return inner_->capabilities(); }
  unsigned window() const override;

  // Returns kUnavailable and kThrottled only after all that the options and the deadline allow. The
  // message then has the number of attempts and the reason why they ended. With an `io_timeout` and
  // without a deadline no request fails because others did: it waits while the circuit is open. A
  // read is retried from the start of its range, or from the bytes that its progress reported. The
  // request's own terms are the upper bound of what an attempt gets; their report describes the
  // last attempt.
  Task<Result<SourceObject>> stat(Context context, StatRequest request) override;
  Task<Result<ListPage>> list(Context context, ListRequest request) override;
  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override;
  Task<Result<>> read_scattered(Context context, ReadRequest request,
                                std::vector<std::span<std::byte>> pieces) override;
  // Not retried: this host's own disks answer or fail.
  bool hands_over(const std::string& key, uint64_t object_size) const override {
    return inner_->hands_over(key, object_size);
  }
  Task<Result<SourceFilePtr>> open_file(Context context, OpenRequest request) override {
    return inner_->open_file(std::move(context), std::move(request));
  }

  // The same for changes. A change that depends on the present state is retried only if it was
  // throttled: otherwise the retry could mistake its own success for another client's change.
  // Changes may take longer than their terms by the transfer time of their bytes and the store's
  // processing time.
  Task<Result<SourceObject>> write(Context context, WriteRequest request,
                                   std::span<const std::byte> content) override;
  Result<ObjectWriterPtr> begin_write(WriteRequest request) override;
  Task<Result<SourceObject>> copy(Context context, CopyRequest request) override;
  Task<Result<>> rename(Context context, RenameRequest request) override;
  Task<Result<>> remove(Context context, RemoveRequest request) override;

  // For tests and for inspection.
  const Pace& pace() const { return pace_; }

 private:
  enum class Kind : uint8_t { kObject, kListing, kChange };
  struct Question {
    const char* verb;
    const std::string& key;  // of the request in the calling coroutine
    uint64_t bytes;          // transferred in either direction
    Kind kind;
    AttemptTerms terms;
    Clock::duration allowance{};  // beyond the terms, until the first byte
    bool repeatable = true;
  };
  struct Leave;
  class Writer;
  template <class T>
  using Attempt = std::function<Task<Result<T>>(Context, AttemptTerms)>;

  SteadySource(SourcePtr inner, SteadyOptions options);

  template <class T>
  Task<Result<T>> ask(Context context, Question question, Attempt<T> attempt);
  // Whether a request waits for a store that does not answer.
  bool waits(const Context& context) const {
    return options_.io_timeout > Clock::duration::zero() &&
           context.deadline == Clock::time_point::max();
  }
  // When a waiting request gives up.
  Clock::time_point end_of_wait(const Attempts& attempts) const;
  // Waits until the circuit admits a request, if this request waits; else returns the refusal.
  Task<Result<>> pass_circuit(Context context, Question question, Attempts* attempts);
  AttemptTerms terms_of(const Question& question, Attempts& attempts, bool probe);
  // Reports an attempt to all parts and returns its leave. Returns whether a retry may help.
  bool learn(const Question& question, Attempts& attempts, Leave leave, const Status* failure);
  // Returns when the next attempt may start, or why there is none.
  Result<Clock::time_point> next(const Context& context, const Question& question,
                                 const Attempts& attempts);
  // Like next(), for a request that waits.
  Result<Clock::time_point> next_of_wait(const Attempts& attempts);
  std::string io_timeout_passed() const;
  Status refused(const Question& question, const Attempts& attempts,
                 const Circuit::Refusal& refusal, const std::string& reason = "") const;
  Clock::duration delay_after(const Attempts& attempts);
  // Returns half to all of `delay`, at random.
  Clock::duration jittered(Clock::duration delay);
  // Null for changes: their duration does not depend on the store's speed alone.
  FirstByteHistory* history(const Question& question);

  const SourcePtr inner_;
  const SteadyOptions options_;
  const std::shared_ptr<WaitClock> clock_;
  Pace pace_;
  Circuit circuit_;
  RetryBudget budget_;
  FirstByteHistory objects_, listings_;
  std::mutex random_mutex_;  // leaf
  std::mt19937_64 random_;
  const Gauge window_gauge_, rate_gauge_;
  StoreMetrics metrics_;
  const std::shared_ptr<StoreHealth> health_;
  const std::string waits_words_;  // "up to 5m"; empty: no request waits
};

}  // namespace leat
