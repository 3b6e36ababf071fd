// SPDX-License-Identifier: Apache-2.0
// ScriptedSource: a source that handles each attempt by a function of the test: a list of results
// or the model of a store. It counts attempts; its objects are endless and full of one letter.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "source/retry/virtual_clock_test.h"
#include "source/source.h"

namespace leat::testing {

class ScriptedSource : public Source {
 public:
  // The arguments of an attempt.
  struct Attempt {
    Context context;
    AttemptTimeouts timeouts;
    uint64_t number;  // from 1
    std::string key;
    uint64_t bytes;

    // Fills the store's report if the caller wants one.
    void report(Clock::duration first_byte, Clock::duration retry_after = {}) const {
      if (timeouts.report != nullptr) *timeouts.report = {first_byte, retry_after};
    }
  };
  using Handler = std::function<Task<Result<>>(Attempt)>;

  explicit ScriptedSource(Handler handler) : handler_(std::move(handler)) {}

  uint64_t requests() const { return requests_; }
  unsigned in_flight() const { return in_flight_; }
  unsigned in_flight_max() const { return in_flight_max_; }

  const StoreId& id() const override { return id_; }
  const std::string& name() const override { return name_; }
  const SourceCapabilities& capabilities() const override { return capabilities_; }

  Task<Result<SourceObject>> stat(Context context, StatRequest request) override {
    Result<> done = co_await run_handler(context, request.timeouts, request.key, 0);
    if (!done) co_return Error(done.error());
    SourceObject object;
    object.key = request.key;
    co_return object;
  }
  Task<Result<ListPage>> list(Context context, ListRequest request) override {
    Result<> done = co_await run_handler(context, request.timeouts, request.prefix, 0);
    if (!done) co_return Error(done.error());
    co_return ListPage{};
  }
  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override {
    // The state after a store that breaks off.
    std::ranges::fill(into.first(into.size() / 2), std::byte{'?'});
    Result<> done = co_await run_handler(context, request.timeouts, request.key, into.size());
    if (done) std::ranges::fill(into, std::byte{'x'});
    co_return done;
  }

 private:
  struct Count {
    explicit Count(ScriptedSource& source) : source_(source) {
      ++source.requests_;
      unsigned now = ++source.in_flight_;
      unsigned most = source.in_flight_max_;
      while (now > most && !source.in_flight_max_.compare_exchange_weak(most, now)) {
      }
    }
    ~Count() { --source_.in_flight_; }
    ScriptedSource& source_;
  };

  Task<Result<>> run_handler(Context context, AttemptTimeouts timeouts, std::string key,
                             uint64_t bytes) {
    Count count(*this);
    Attempt attempt{std::move(context), timeouts, requests_, std::move(key), bytes};
    Result<> done = co_await handler_(std::move(attempt));
    co_return done;
  }

  const StoreId id_ = make_store_id("scripted", "", "", "bucket");
  const std::string name_ = "scripted://bucket";
  const SourceCapabilities capabilities_{.conditional_read = true};
  const Handler handler_;
  std::atomic<uint64_t> requests_ = 0;
  std::atomic<unsigned> in_flight_ = 0, in_flight_max_ = 0;
};

inline Result<> scripted_failure(StatusCode code) {
  if (code == StatusCode{}) return {};
  return error(code, fmt::format("cannot read scripted://bucket/k: {}", to_string(code)));
}

// Answers after 10 ms each, by the list and then with success; `StatusCode{}` is success.
inline ScriptedSource::Handler by_list(std::shared_ptr<VirtualClock> clock,
                                       std::vector<StatusCode> codes) {
  struct Script {
    static Task<Result<>> answer(std::shared_ptr<VirtualClock> clock, StatusCode code,
                                 ScriptedSource::Attempt attempt) {
      Result<> paused = co_await clock->pause(attempt.context, std::chrono::milliseconds(10));
      if (!paused) co_return paused;
      attempt.report(std::chrono::milliseconds(10));
      co_return scripted_failure(code);
    }
  };
  return [clock, codes](ScriptedSource::Attempt attempt) {
    StatusCode code = attempt.number <= codes.size() ? codes[attempt.number - 1] : StatusCode{};
    return Script::answer(clock, code, std::move(attempt));
  };
}

}  // namespace leat::testing
