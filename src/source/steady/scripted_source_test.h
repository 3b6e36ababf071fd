// SPDX-License-Identifier: Apache-2.0
// ScriptedSource: a source that answers each attempt by a function of the test: a list of answers
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

#include "source/source.h"
#include "source/steady/virtual_clock_test.h"

namespace leat::testing {

class ScriptedSource : public Source {
 public:
  // The arguments of an attempt; the test's answer to it.
  struct Asked {
    Context context;
    AttemptTerms terms;
    uint64_t number;  // from 1
    std::string key;
    uint64_t bytes;

    // Fills the store's report if the caller wants one.
    void report(Clock::duration first_byte, Clock::duration retry_after = {}) const {
      if (terms.report != nullptr) *terms.report = {first_byte, retry_after};
    }
  };
  using Answer = std::function<Task<Result<>>(Asked)>;

  explicit ScriptedSource(Answer answer) : answer_(std::move(answer)) {}

  uint64_t requests() const { return requests_; }
  unsigned in_flight() const { return in_flight_; }
  unsigned in_flight_max() const { return in_flight_max_; }

  const StoreId& id() const override { return id_; }
  const std::string& name() const override { return name_; }
  const SourceCapabilities& capabilities() const override { return capabilities_; }

  Task<Result<SourceObject>> stat(Context context, StatRequest request) override {
    Result<> done = co_await answered(context, request.terms, request.key, 0);
    if (!done) co_return Error(done.error());
    SourceObject object;
    object.key = request.key;
    co_return object;
  }
  Task<Result<ListPage>> list(Context context, ListRequest request) override {
    Result<> done = co_await answered(context, request.terms, request.prefix, 0);
    if (!done) co_return Error(done.error());
    co_return ListPage{};
  }
  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override {
    // The state after a store that breaks off.
    std::ranges::fill(into.first(into.size() / 2), std::byte{'?'});
    Result<> done = co_await answered(context, request.terms, request.key, into.size());
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

  Task<Result<>> answered(Context context, AttemptTerms terms, std::string key, uint64_t bytes) {
    Count count(*this);
    Asked asked{std::move(context), terms, requests_, std::move(key), bytes};
    Result<> done = co_await answer_(std::move(asked));
    co_return done;
  }

  const StoreId id_ = make_store_id("scripted", "", "", "bucket");
  const std::string name_ = "scripted://bucket";
  const SourceCapabilities capabilities_{.conditional_read = true};
  const Answer answer_;
  std::atomic<uint64_t> requests_ = 0;
  std::atomic<unsigned> in_flight_ = 0, in_flight_max_ = 0;
};

inline Result<> scripted_failure(StatusCode code) {
  if (code == StatusCode{}) return {};
  return error(code, fmt::format("cannot read scripted://bucket/k: {}", to_string(code)));
}

// Answers after 10 ms each, by the list and then with success; `StatusCode{}` is success.
inline ScriptedSource::Answer by_list(std::shared_ptr<VirtualClock> clock,
                                      std::vector<StatusCode> codes) {
  struct Script {
    static Task<Result<>> answer(std::shared_ptr<VirtualClock> clock, StatusCode code,
                                 ScriptedSource::Asked asked) {
      Result<> paused = co_await clock->pause(asked.context, std::chrono::milliseconds(10));
      if (!paused) co_return paused;
      asked.report(std::chrono::milliseconds(10));
      co_return scripted_failure(code);
    }
  };
  return [clock, codes](ScriptedSource::Asked asked) {
    StatusCode code = asked.number <= codes.size() ? codes[asked.number - 1] : StatusCode{};
    return Script::answer(clock, code, std::move(asked));
  };
}

}  // namespace leat::testing
