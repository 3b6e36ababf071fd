// SPDX-License-Identifier: Apache-2.0
// SteadySource: any source, asked again where that helps and never faster than its store takes.
// A request without a deadline waits for a store that does not answer, as an NFS hard mount does;
// one with a deadline fails as soon as the store is seen to fail. docs/design/0002-stores.md says
// what it decides and why. Thread-safe.
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
  // How long a request without a deadline waits for a store that fails, hangs or throttles all:
  // attempts go on until then. max(): for ever. Zero: such a request gets `attempts_max` attempts,
  // as one with a deadline does.
  Clock::duration io_timeout{0};
  // Attempts of a request that does not wait, but for those that the store throttled. At least 1.
  unsigned attempts_max = 8;
  // Before the second attempt; doubles with each. Half to all of it is waited, at random.
  Clock::duration delay_min = std::chrono::milliseconds(100);
  Clock::duration delay_max = std::chrono::seconds(5);
  // A request that does not wait ends after so long if the store goes on throttling it.
  Clock::duration patience = std::chrono::seconds(30);
  // An attempt may be silent for 4 × p99, within these. Listings begin later by nature.
  Clock::duration silence_min = std::chrono::seconds(1);
  Clock::duration list_silence_min = std::chrono::seconds(5);
  Clock::duration silence_max = std::chrono::seconds(10);
  PaceOptions pace;
  CircuitOptions circuit;
  std::shared_ptr<WaitClock> clock = machine_clock();
  uint64_t seed = 0;  // of the delays; zero: another one each time
};

// Every request must have ended, or the executor that it runs on be gone, before this is.
class SteadySource : public Source, public std::enable_shared_from_this<SteadySource> {
 public:
  static std::shared_ptr<SteadySource> make(SourcePtr inner, SteadyOptions options = {});

  const StoreId& id() const override { return inner_->id(); }
  const std::string& name() const override { return inner_->name(); }
  const SourceCapabilities& capabilities() const override { return inner_->capabilities(); }
  unsigned window() const override;

  // kUnavailable and kThrottled come back only after all that the options and the deadline allow;
  // the message then says after how many attempts, and what ended them. With an `io_timeout` and
  // without a deadline no request fails because others did: it waits while the circuit is open. A
  // read's attempts begin anew at the start of its range, or after what its progress was told of.
  // What the request's own terms allow is the upper bound of what an attempt gets; their report is
  // filled with the last one.
  Task<Result<SourceObject>> stat(Context context, StatRequest request) override;
  Task<Result<ListPage>> list(Context context, ListRequest request) override;
  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override;
  Task<Result<>> read_scattered(Context context, ReadRequest request,
                                std::vector<std::span<std::byte>> pieces) override;
  // Not tried again: this host's own disks answer or fail.
  bool hands_over(const std::string& key, uint64_t object_size) const override {
    return inner_->hands_over(key, object_size);
  }
  Task<Result<SourceFilePtr>> open_file(Context context, OpenRequest request) override {
    return inner_->open_file(std::move(context), std::move(request));
  }

  // The same for changes, but that one which depends on what is there is not tried again unless it
  // was throttled: nobody could tell a change of somebody else from one's own. They may take longer
  // than their terms by what their bytes take, and by what a store may do before it answers.
  Task<Result<SourceObject>> write(Context context, WriteRequest request,
                                   std::span<const std::byte> content) override;
  Result<ObjectWriterPtr> begin_write(WriteRequest request) override;
  Task<Result<SourceObject>> copy(Context context, CopyRequest request) override;
  Task<Result<>> rename(Context context, RenameRequest request) override;
  Task<Result<>> remove(Context context, RemoveRequest request) override;

  // For tests and for people who look into a mount.
  const Pace& pace() const { return pace_; }

 private:
  enum class Kind : uint8_t { kObject, kListing, kChange };
  struct Question {
    const char* verb;
    const std::string& key;  // of the request in the asking coroutine
    uint64_t bytes;          // that go one way or the other
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
  // When such a request gives up.
  Clock::time_point end_of_wait(const Attempts& attempts) const;
  // Waits until the circuit lets a request through, if this one waits; else its refusal.
  Task<Result<>> pass_circuit(Context context, Question question, Attempts* attempts);
  AttemptTerms terms_of(const Question& question, Attempts& attempts, bool probe);
  // Tells all parts how an attempt went and gives its leave back; whether another may help.
  bool learn(const Question& question, Attempts& attempts, Leave leave, const Status* failure);
  // When the next attempt may be made, or why there is none.
  Result<Clock::time_point> next(const Context& context, const Question& question,
                                 const Attempts& attempts);
  // The same for a request that waits.
  Result<Clock::time_point> next_of_wait(const Attempts& attempts);
  std::string io_timeout_passed() const;
  Status refused(const Question& question, const Attempts& attempts,
                 const Circuit::Refusal& refusal, const std::string& reason = "") const;
  Clock::duration delay_after(const Attempts& attempts);
  // Half to all of it, at random.
  Clock::duration jittered(Clock::duration delay);
  // None of changes: how long they take is not the store's speed alone.
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
