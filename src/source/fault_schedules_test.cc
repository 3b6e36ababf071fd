// SPDX-License-Identifier: Apache-2.0
// Tests a thousand stores that fail at random, through all layers between `open_source` and the
// socket. A read returns bytes of the demanded version, or fails with a code and a message with the
// reason. No request waits beyond its deadline, and nothing is left behind.
//
// LEAT_FAULT_SEED=… begins with that schedule, LEAT_FAULT_SCHEDULES=… sets their number.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_future.hpp>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>

#include "runtime/executor.h"
#include "runtime/gate.h"
#include "source/fault_schedule_test.h"
#include "source/retry/retrying_source.h"
#include "source/stores/version_forms_source.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using testing::BadStore;
using testing::FaultSchedule;
using testing::StoredVersion;
using testing::StoreFault;

using Operation = FaultSchedule::Operation;

// Totals of all schedules of a process.
struct Tally {
  std::mutex mutex;
  std::map<std::string, uint64_t> outcomes;  // by code
  uint64_t requests = 0, faults = 0;
  Clock::duration latest{};  // beyond a deadline or a cancellation
  // Wake-up delay of this machine, which other programs share.
  std::atomic<Clock::duration> lateness{};

  Clock::duration slack() const { return 1500ms + 4 * lateness.load(); }

  static Task<> watch(Tally* tally, Context context) {
    for (Result<> slept; slept;) {
      const Clock::time_point wanted = Clock::now() + 20ms;
      slept = co_await sleep_for(context, 20ms);
      const Clock::duration late = Clock::now() - wanted;
      if (late > tally->lateness.load()) tally->lateness = late;
    }
  }
};

class ScheduleRun {
 public:
  ScheduleRun(uint64_t seed, Tally& tally)
      : plan_(seed), tally_(tally), store_(plan_.terms, [this](auto& request, unsigned nth) {
          return plan_.fault_of(request, nth);
        }) {
    for (const auto& [key, content] : plan_.objects) store_.objects().put(key, content);
    std::string url = fmt::format("s3://bucket?endpoint={}", store_.endpoint());
    if (!plan_.terms.is_signed) url += "&anonymous=true";
    if (plan_.terms.client_ceiling > 0) {
      url += fmt::format("&requests_per_second={}", plan_.terms.client_ceiling);
    }
    source_ = open_source(StoreUrl::parse(url).value()).value();
  }

  static Task<bool> all(ScheduleRun* run) {
    auto executor = co_await boost::asio::this_coro::executor;
    Gate activity;
    auto spawn = [&](Task<> task) {
      boost::asio::co_spawn(executor, then_leave(std::move(task), *activity.enter()),
                            boost::asio::detached);
    };
    for (auto& operations : run->plan_.callers) spawn(caller(run, &operations));
    if (run->plan_.refuses) spawn(refuse(run));
    activity.close();
    co_await activity.wait_idle();
    run->expect_nothing_left();
    co_return true;
  }

  const std::vector<std::string>& problems() const { return problems_; }
  std::string described() const { return plan_.described(); }

 private:
  struct Asked {
    Context context;
    std::shared_ptr<std::atomic<Clock::time_point>> cancelled_at;
    size_t first_version;  // current when it began; from 0
    std::string etag;      // demanded
  };

  static Task<> then_leave(Task<> task, Gate::Holder token) { co_await std::move(task); }

  static Task<> refuse(ScheduleRun* run) {
    (void)co_await sleep_for({}, run->plan_.refuses->first);
    run->store_.refuse();
    (void)co_await sleep_for({}, run->plan_.refuses->second);
    run->store_.accept_again();
  }

  static Task<> give_up(Clock::duration after, std::stop_source stop,
                        std::shared_ptr<std::atomic<Clock::time_point>> at, Context until) {
    (void)co_await sleep_for(until, after);
    at->store(Clock::now());
    stop.request_stop();
  }

  static Task<> caller(ScheduleRun* run, const std::vector<Operation>* operations) {
    for (const Operation& one : *operations) {
      (void)co_await sleep_for({}, one.pause);
      Asked asked;
      std::stop_source stop, done;
      if (one.deadline) asked.context = asked.context.with_timeout(*one.deadline);
      asked.cancelled_at =
          std::make_shared<std::atomic<Clock::time_point>>(Clock::time_point::max());
      auto over = SharedPromise<bool>::make();
      if (one.cancel) {
        asked.context.cancel = stop.get_token();
        auto leave = [](Task<> task, std::shared_ptr<SharedPromise<bool>> over) -> Task<> {
          co_await std::move(task);
          over->set(true);
        };
        boost::asio::co_spawn(co_await boost::asio::this_coro::executor,
                              leave(give_up(*one.cancel, stop, asked.cancelled_at,
                                            Context::background().with_cancel(done.get_token())),
                                    over),
                              boost::asio::detached);
      }
      const size_t versions = run->store_.objects().versions(one.key);
      asked.first_version = versions == 0 ? 0 : versions - 1;
      if (one.demands_version) {
        asked.etag = one.stale || versions == 0
                         ? "\"never\""
                         : run->store_.objects().version(one.key, versions - 1).etag;
      }
      Result<> outcome;
      if (one.kind == Operation::Kind::kRead) outcome = co_await run->read(one, asked);
      if (one.kind == Operation::Kind::kStat) outcome = co_await run->stat(one, asked);
      if (one.kind == Operation::Kind::kList) outcome = co_await run->list(one, asked);
      run->check_end(one, asked, outcome);
      done.request_stop();
      if (one.cancel) (void)co_await over->wait({}, "the caller's other half");
    }
  }

  Task<Result<>> read(const Operation& one, const Asked& asked) {
    std::string into(one.size, '?');
    ReadRequest request{.key = one.key, .range = {one.offset, one.size}, .if_version = {}};
    if (one.demands_version) request.if_version = Version::etag(asked.etag);
    Result<> done =
        co_await source_->read(asked.context, request, std::as_writable_bytes(std::span(into)));
    if (!done) co_return done;
    if (!was_there(one, asked, [&](const StoredVersion& version) {
          return (asked.etag.empty() || asked.etag == version.etag) &&
                 version.content->substr(one.offset, one.size) == into;
        })) {
      problem(one, "brought bytes that were not there");
    }
    co_return done;
  }

  Task<Result<>> stat(const Operation& one, const Asked& asked) {
    Result<SourceObject> got = co_await source_->stat(asked.context, {.key = one.key});
    if (!got) co_return Error(got.error());
    if (!was_there(one, asked,
                   [&](const StoredVersion& version) { return is_that(*got, version); })) {
      problem(one, fmt::format("told of {} bytes, {}", got->size, got->version.value));
    }
    co_return Result<>();
  }

  Task<Result<>> list(const Operation& one, const Asked& asked) {
    ListRequest request{.prefix = one.key, .recursive = one.recursive, .token = ""};
    std::vector<std::string> names;
    std::map<std::string, size_t> first_versions;
    for (auto& [key, content] : plan_.objects) {
      first_versions[key] = store_.objects().versions(key) - 1;
    }
    do {
      Result<ListPage> page = co_await source_->list(asked.context, request);
      if (!page) co_return Error(page.error());
      for (const SourceObject& object : page->objects) {
        names.push_back(object.key);
        if (object.kind == FileKind::kDirectory) continue;
        Operation entry = one;
        entry.key = object.key;
        Asked of_entry = asked;
        of_entry.first_version = first_versions[object.key];
        if (!was_there(entry, of_entry,
                       [&](const StoredVersion& version) { return is_that(object, version); })) {
          problem(one, fmt::format("told of '{}' with {} bytes", object.key, object.size));
        }
      }
      request.token = page->next_token;
    } while (!request.token.empty());
    if (names != expected_names(one)) {
      problem(one, fmt::format("brought {}, not {}", names, expected_names(one)));
    }
    co_return Result<>();
  }

  std::vector<std::string> expected_names(const Operation& one) const {
    std::set<std::string> names;
    for (const auto& [key, content] : plan_.objects) {
      if (!key.starts_with(one.key)) continue;
      const size_t slash = one.recursive ? std::string::npos : key.find('/', one.key.size());
      names.insert(slash == std::string::npos ? key : key.substr(0, slash + 1));
    }
    return {names.begin(), names.end()};
  }

  static bool is_that(const SourceObject& object, const StoredVersion& version) {
    return object.size == version.content->size() && object.version.value == version.etag;
  }

  // Whether it is one of the versions that were current since the operation began.
  template <class Is>
  bool was_there(const Operation& one, const Asked& asked, Is is) const {
    const size_t versions = store_.objects().versions(one.key);
    for (size_t i = asked.first_version; i < versions; ++i) {
      if (is(store_.objects().version(one.key, i))) return true;
    }
    return false;
  }

  void check_end(const Operation& one, const Asked& asked, const Result<>& outcome) {
    const Clock::time_point now = Clock::now();
    const Clock::time_point cancelled_at = asked.cancelled_at->load();
    const Clock::time_point due = std::min(asked.context.deadline, cancelled_at);
    const Clock::duration late = due < now ? now - due : Clock::duration::zero();
    if (late > tally_.slack()) problem(one, fmt::format("ended {} too late", late));
    {
      std::lock_guard lock(tally_.mutex);
      ++tally_.outcomes[outcome ? "right" : std::string(to_string(outcome.error().code()))];
      tally_.latest = std::max(tally_.latest, late);
    }
    if (outcome) return;
    const std::string text = outcome.error().to_string();
    if (!may_fail(one, asked, outcome.error().code(), cancelled_at < now, now)) {
      problem(one, "failed without a reason: " + text);
    }
    if (!text.contains("s3://bucket/" + one.key) || !text.contains(verb(one))) {
      problem(one, "failed with a message that does not say what: " + text);
    }
  }

  bool may_fail(const Operation& one, const Asked& asked, StatusCode code, bool cancelled,
                Clock::time_point now) const {
    const bool is_read = one.kind == Operation::Kind::kRead;
    const bool is_list = one.kind == Operation::Kind::kList;
    const size_t versions = store_.objects().versions(one.key);
    switch (code) {
      case StatusCode::kUnavailable:
      case StatusCode::kThrottled: {
        const BadStore::Counts counts = store_.counts();
        return counts.faults > 0 || counts.throttled > 0 || plan_.refuses;
      }
      case StatusCode::kTimedOut:
        return now >= asked.context.deadline;
      case StatusCode::kCancelled:
        return cancelled;
      case StatusCode::kNotFound:
        return !is_list && versions == 0;
      case StatusCode::kVersionChanged:
        return is_read && one.demands_version &&
               (one.stale || versions > asked.first_version + 1 ||
                store_.has_befallen(StoreFault::Kind::kWrongEtag, one.key));
      case StatusCode::kUnsupported:
        return is_read && store_.has_befallen(StoreFault::Kind::kWholeObject, one.key);
      default:
        return false;
    }
  }

  void expect_nothing_left() {
    auto* forms = dynamic_cast<VersionFormsSource*>(source_.get());
    auto* retrying = dynamic_cast<RetryingSource*>(forms->inner().get());
    if (retrying->pacer().in_flight() != 0 || retrying->pacer().waiting() != 0) {
      problems_.push_back(fmt::format("{} requests are under way and {} wait, of nobody",
                                      retrying->pacer().in_flight(), retrying->pacer().waiting()));
    }
    for (const std::string& violation : store_.violations()) problems_.push_back(violation);
    std::lock_guard lock(tally_.mutex);
    tally_.requests += store_.counts().requests;
    tally_.faults += store_.counts().faults + store_.counts().throttled;
  }

  static const char* verb(const Operation& one) {
    static constexpr const char* kVerbs[] = {"read", "stat", "list"};
    return kVerbs[static_cast<size_t>(one.kind)];
  }
  void problem(const Operation& one, const std::string& text) {
    std::lock_guard lock(problems_mutex_);
    problems_.push_back(fmt::format("a {} of '{}', {} bytes at {}, {}", verb(one), one.key,
                                    one.size, one.offset, text));
  }

  const FaultSchedule plan_;
  Tally& tally_;
  BadStore store_;
  SourcePtr source_;
  std::mutex problems_mutex_;
  std::vector<std::string> problems_;
};

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* given = std::getenv(variable);
  return given == nullptr ? otherwise : std::stoull(given);
}

constexpr unsigned kShards = 4;
// Most of a schedule is waiting.
constexpr unsigned kAtOnce = 24;
// Far more than the slowest schedule needs.
constexpr auto kHang = 150s;

class FaultSchedules : public ::testing::TestWithParam<unsigned> {};

TEST_P(FaultSchedules, BringWhatIsThereOrSayWhyNot) {
  const uint64_t first_seed = number_from("LEAT_FAULT_SEED", std::random_device()());
  const uint64_t count = number_from("LEAT_FAULT_SCHEDULES", 1000);
  std::cout << fmt::format("seeds from LEAT_FAULT_SEED={}, every {}th of {} from the {}th\n",
                           first_seed, kShards, count, GetParam());
  setenv("AWS_ACCESS_KEY_ID", "test", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "test-secret", 1);
  Tally tally;
  Executor executor({.threads = 2});
  std::stop_source stop;
  Context watching = Context::background().with_cancel(stop.get_token());
  auto watched = boost::asio::co_spawn(executor.any(), Tally::watch(&tally, watching),
                                       boost::asio::use_future);
  std::atomic<uint64_t> next = GetParam();
  auto work = [&] {
    for (uint64_t i = next.fetch_add(kShards); i < count; i = next.fetch_add(kShards)) {
      const uint64_t seed = first_seed + i;
      ScheduleRun run(seed, tally);
      auto ended =
          boost::asio::co_spawn(executor.any(), ScheduleRun::all(&run), boost::asio::use_future);
      if (ended.wait_for(kHang) != std::future_status::ready) {
        std::cerr << fmt::format("LEAT_FAULT_SEED={} hangs: {}\n", seed, run.described());
        std::abort();
      }
      for (const std::string& problem : run.problems()) {
        ADD_FAILURE() << fmt::format("LEAT_FAULT_SEED={} LEAT_FAULT_SCHEDULES=1 ({}): {}", seed,
                                     run.described(), problem);
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kAtOnce; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  stop.request_stop();
  watched.get();
  std::cout << fmt::format(
      "{} requests, {} of them failed by the store: {}; ended at most {} late\n", tally.requests,
      tally.faults, tally.outcomes,
      std::chrono::duration_cast<std::chrono::milliseconds>(tally.latest));
}

INSTANTIATE_TEST_SUITE_P(Shards, FaultSchedules, ::testing::Range(0u, kShards));

}  // namespace
}  // namespace leat
