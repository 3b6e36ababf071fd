// SPDX-License-Identifier: Apache-2.0
// What every registry promises, asked of each of them: the embedded one, a real etcd, and an etcd
// that wants users.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>

#include "cluster/embedded_registry.h"
#include "cluster/etcd_test.h"
#include "runtime/shared_result.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::EtcdServers;

constexpr auto kPatience = seconds(20);

// A registry of its own for each test, and how its past is forgotten.
struct Subject {
  std::unique_ptr<Registry> registry;
  std::function<void(RegistryRevision)> compact;
  std::shared_ptr<EtcdServers> servers;
};

constexpr size_t kHistoryMax = 50;

Subject embedded(Executor& executor) {
  EmbeddedRegistryOptions options{.history_max = kHistoryMax};
  auto registry = EmbeddedRegistry::open(options, make_disk(executor), executor);
  LEAT_CHECK(registry);
  Subject subject;
  subject.registry = std::move(*registry);
  Registry* raw = subject.registry.get();
  subject.compact = [raw, &executor](RegistryRevision) {
    for (size_t i = 0; i < kHistoryMax * 2; ++i) {
      auto filled = executor.wait(raw->commit(Context::background(), {.puts = {{"filler", "x"}}}));
      ASSERT_TRUE(filled);
    }
  };
  return subject;
}

Subject etcd(Executor&) {
  auto servers = EtcdServers::start();
  if (!servers) return {};
  Subject subject;
  subject.registry = EtcdRegistry::create(servers->options());
  subject.servers = servers;
  subject.compact = [servers](RegistryRevision revision) {
    servers->ask("/v3/kv/compaction", fmt::format(R"({{"revision":"{}"}})", revision));
  };
  return subject;
}

Subject etcd_with_users(Executor&) {
  auto servers = EtcdServers::start();
  if (!servers) return {};
  servers->add_user();
  EtcdOptions options = servers->options();
  options.user = EtcdServers::kUser;
  options.password = EtcdServers::kPassword;
  Subject subject;
  subject.registry = EtcdRegistry::create(options);
  subject.servers = servers;
  subject.compact = [servers](RegistryRevision revision) {
    servers->ask("/v3/kv/compaction", fmt::format(R"({{"revision":"{}"}})", revision), 0,
                 servers->root_token());
  };
  return subject;
}

struct Kind {
  const char* name;
  Subject (*make)(Executor&);
};

// What a watch was told; its sink may be called from any thread.
class Told {
 public:
  RegistrySink sink() {
    return [this](RegistryEvents events) { return take(std::move(events)); };
  }
  bool wait_until_it_stands() {
    std::unique_lock lock(mutex_);
    return more_.wait_for(lock, kPatience, [&] { return stands_; });
  }
  bool wait_for(size_t events) { return wait_until(events, kPatience); }
  bool wait_until(size_t events, Clock::duration patience) {
    std::unique_lock lock(mutex_);
    return more_.wait_for(lock, patience, [&] { return events_.size() >= events; });
  }
  std::vector<RegistryEvent> events() const {
    std::lock_guard lock(mutex_);
    return events_;
  }
  std::vector<size_t> batches() const {
    std::lock_guard lock(mutex_);
    return batches_;
  }

 private:
  Task<Result<>> take(RegistryEvents events) {
    std::lock_guard lock(mutex_);
    stands_ = true;
    more_.notify_all();
    if (events.events.empty()) co_return Result<>();
    EXPECT_EQ(events.revision, events.events.back().entry.changed);
    batches_.push_back(events.events.size());
    std::ranges::move(events.events, std::back_inserter(events_));
    more_.notify_all();
    co_return Result<>();
  }

  mutable std::mutex mutex_;
  std::condition_variable more_;
  bool stands_ = false;
  std::vector<RegistryEvent> events_;
  std::vector<size_t> batches_;
};

class RegistryContract : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    subject_ = GetParam().make(executor_);
    ASSERT_TRUE(subject_.registry) << EtcdServers::kHowToGetIt;
  }
  void TearDown() override {
    stop_watching();
    if (subject_.registry) executor_.wait(subject_.registry->stop());
    subject_ = {};
  }

  Registry& registry() { return *subject_.registry; }
  Context patient() { return Context::background().with_timeout(kPatience); }

  Result<RegistryRevision> commit(RegistryChange change) {
    return executor_.wait(registry().commit(patient(), std::move(change)));
  }
  RegistryRevision put(const std::string& key, const std::string& value, RegistryLease lease = 0) {
    auto revision = commit({.puts = {{key, value, lease}}});
    EXPECT_TRUE(revision) << revision.error().to_string();
    return revision.value_or(0);
  }
  RegistryView list(const std::string& prefix) {
    auto view = executor_.wait(registry().list(patient(), prefix));
    EXPECT_TRUE(view) << view.error().to_string();
    return view.value_or(RegistryView());
  }
  std::vector<std::string> keys(const std::string& prefix) {
    std::vector<std::string> names;
    for (const auto& entry : list(prefix).entries) names.push_back(entry.key);
    return names;
  }
  RegistryLease grant(seconds ttl) {
    auto lease = executor_.wait(registry().grant(patient(), ttl));
    EXPECT_TRUE(lease) << lease.error().to_string();
    return lease.value_or(0);
  }

  void watch(Told& told, const std::string& prefix, RegistryRevision after) {
    auto ended = SharedResult<bool>::make();
    executor_.spawn(watch_until_stopped(registry(), stop_, prefix, after, told.sink(), ended));
    watches_.push_back(ended);
  }
  void stop_watching() {
    stop_.request_stop();
    for (auto& ended : watches_) {
      auto seen = executor_.wait(ended->wait(patient(), "the end of a watch"));
      EXPECT_TRUE(seen) << "a watch goes on though nobody wants it";
    }
    watches_.clear();
  }

  Executor executor_;
  Subject subject_;

 private:
  static Task<> watch_until_stopped(Registry& registry, std::stop_source stop, std::string prefix,
                                    RegistryRevision after, RegistrySink sink,
                                    std::shared_ptr<SharedResult<bool>> ended) {
    Context context = Context::background().with_cancel(stop.get_token());
    Result<> result = co_await registry.watch(context, prefix, after, std::move(sink));
    EXPECT_FALSE(result) << "a watch has no good end";
    if (!result) {
      EXPECT_EQ(result.error().code(), StatusCode::kCancelled) << result.error().to_string();
    }
    ended->set(true);
  }

  std::stop_source stop_;
  std::vector<std::shared_ptr<SharedResult<bool>>> watches_;
};

TEST_P(RegistryContract, WhatIsPutIsListedWithItsRevisions) {
  const RegistryRevision first = put("workers/a", "one");
  const RegistryRevision second = put("workers/b", std::string("\0\xff\"", 3));
  const RegistryRevision third = put("workers/a", "three");
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  const RegistryView view = list("workers/");
  EXPECT_EQ(view.revision, third);
  EXPECT_EQ(view.entries,
            (std::vector<RegistryEntry>{
                {.key = "workers/a", .value = "three", .changed = third, .created = first},
                {.key = "workers/b",
                 .value = std::string("\0\xff\"", 3),
                 .changed = second,
                 .created = second}}));
}

TEST_P(RegistryContract, APrefixIsOfBytes) {
  for (const char* key : {"a", "a/", "a/b", "a0", "a\xff", "a\xff/b", "b"}) put(key, "x");
  EXPECT_EQ(keys("a/"), (std::vector<std::string>{"a/", "a/b"}));
  EXPECT_EQ(keys("a\xff"), (std::vector<std::string>{"a\xff", "a\xff/b"}));
  EXPECT_EQ(keys("").size(), 7u);
  EXPECT_EQ(keys("c").size(), 0u);
}

TEST_P(RegistryContract, AChangeIsMadeUnderItsConditionsOrNotAtAll) {
  auto made = commit({.conditions = {{"leader", 0}}, .puts = {{"leader", "a"}, {"term", "1"}}});
  ASSERT_TRUE(made) << made.error().to_string();
  auto refused = commit({.conditions = {{"leader", 0}}, .puts = {{"term", "2"}}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::kChanged);
  EXPECT_EQ(list("term").entries[0].value, "1");
  EXPECT_EQ(list("term").entries[0].changed, *made);
  EXPECT_EQ(list("leader").entries[0].changed, *made) << "one change, one revision";

  auto again = commit({.conditions = {{"leader", *made}},
                       .puts = {{"leader", "b"}},
                       .removals = {"term", "never there"}});
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(keys(""), std::vector<std::string>{"leader"});
}

TEST_P(RegistryContract, RefusesWhatCannotBe) {
  EXPECT_EQ(commit({.puts = {{"a", "1"}, {"a", "2"}}}).error().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(
      commit({.puts = {{"a", std::string(Registry::kValueBytesMax + 1, 'x')}}}).error().code(),
      StatusCode::kInvalidArgument);
  EXPECT_TRUE(commit({.puts = {{"a", std::string(Registry::kValueBytesMax, 'x')}}}));
  EXPECT_EQ(executor_.wait(registry().grant(patient(), seconds(0))).error().code(),
            StatusCode::kInvalidArgument);
}

TEST_P(RegistryContract, WhatComesAtOnceComesOneAfterTheOther) {
  put("count", "0");
  constexpr int kTasks = 6, kTimes = 20;
  std::vector<std::future<void>> tasks;
  for (int task = 0; task < kTasks; ++task) {
    tasks.push_back(std::async(std::launch::async, [this] {
      for (int done = 0; done < kTimes;) {
        const RegistryEntry entry = list("count").entries.at(0);
        auto changed = commit({.conditions = {{"count", entry.changed}},
                               .puts = {{"count", std::to_string(std::stoi(entry.value) + 1)}}});
        if (changed) ++done;
      }
    }));
  }
  for (auto& task : tasks) task.get();
  EXPECT_EQ(list("count").entries.at(0).value, std::to_string(kTasks * kTimes));
}

TEST_P(RegistryContract, ThousandsOfEntriesAreListedWhole) {
  constexpr int kEntries = 2500;
  for (int i = 0; i < kEntries; i += 100) {
    RegistryChange change;
    for (int k = i; k < i + 100; ++k) change.puts.push_back({fmt::format("job/{:05}", k), "x"});
    ASSERT_TRUE(commit(change));
  }
  const auto names = keys("job/");
  ASSERT_EQ(names.size(), size_t{kEntries});
  EXPECT_TRUE(std::ranges::is_sorted(names));
  EXPECT_EQ(names.back(), "job/02499");
}

TEST_P(RegistryContract, ALeaseThatNobodyKeepsTakesItsEntriesAlong) {
  Told told;
  put("workers/stays", "x");
  const RegistryLease lease = grant(seconds(1));
  const RegistryRevision from = put("workers/goes", "x", lease);
  EXPECT_EQ(list("workers/goes").entries.at(0).lease, lease);
  watch(told, "workers/", from);
  ASSERT_TRUE(told.wait_for(1));
  EXPECT_EQ(told.events()[0].kind, RegistryEvent::Kind::kRemoved);
  EXPECT_EQ(told.events()[0].entry.key, "workers/goes");
  EXPECT_EQ(keys("workers/"), std::vector<std::string>{"workers/stays"});
  EXPECT_EQ(executor_.wait(registry().keep_alive(patient(), lease)).error().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(commit({.puts = {{"workers/goes", "x", lease}}}).error().code(), StatusCode::kNotFound);
}

TEST_P(RegistryContract, ALeaseThatIsKeptStays) {
  Told told;
  const RegistryLease kept = grant(seconds(2)), lost = grant(seconds(2));
  put("kept", "x", kept);
  const RegistryRevision from = put("lost", "x", lost);
  watch(told, "", from);
  while (!told.wait_until(1, milliseconds(300))) {
    auto ttl = executor_.wait(registry().keep_alive(patient(), kept));
    ASSERT_TRUE(ttl) << ttl.error().to_string();
    EXPECT_GE(*ttl, seconds(1));
  }
  EXPECT_EQ(told.events()[0].entry.key, "lost");
  EXPECT_EQ(keys(""), std::vector<std::string>{"kept"});
}

TEST_P(RegistryContract, ALeaseIsGivenBackAtOnceAndTwice) {
  const RegistryLease lease = grant(seconds(60));
  put("a", "x", lease);
  put("b", "x", lease);
  put("b", "stays", 0);
  EXPECT_TRUE(executor_.wait(registry().revoke(patient(), lease)));
  EXPECT_EQ(keys(""), std::vector<std::string>{"b"});
  EXPECT_TRUE(executor_.wait(registry().revoke(patient(), lease)));
}

TEST_P(RegistryContract, AWatchSeesEachChangeOnceAndInOrder) {
  Told told;
  const RegistryRevision from = put("w/before", "x");
  watch(told, "w/", from);
  ASSERT_TRUE(told.wait_until_it_stands());
  std::vector<std::string> expected;
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(commit({.puts = {{fmt::format("w/{}", i), "x"}, {fmt::format("v/{}", i), "x"}}}));
    expected.push_back(fmt::format("w/{}", i));
  }
  ASSERT_TRUE(commit({.removals = {"w/7"}}));
  expected.push_back("w/7");
  ASSERT_TRUE(told.wait_for(expected.size()));
  const auto events = told.events();
  ASSERT_EQ(events.size(), expected.size());
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].entry.key, expected[i]);
    if (i > 0) EXPECT_LT(events[i - 1].entry.changed, events[i].entry.changed);
  }
  EXPECT_EQ(events.back().kind, RegistryEvent::Kind::kRemoved);
}

TEST_P(RegistryContract, AWatchIsToldOfOneChangeAtOnce) {
  Told told;
  const RegistryRevision from = put("w/before", "x");
  ASSERT_TRUE(commit({.puts = {{"w/1", "x"}, {"w/2", "x"}, {"w/3", "x"}}}));
  watch(told, "w/", from);
  ASSERT_TRUE(told.wait_for(3));
  EXPECT_EQ(told.batches()[0], 3u);
}

TEST_P(RegistryContract, AWatchBeginsInThePast) {
  Told told;
  const RegistryRevision from = put("w/0", "x");
  for (int i = 1; i < 20; ++i) put(fmt::format("w/{}", i), "x");
  watch(told, "w/", from);
  ASSERT_TRUE(told.wait_for(19));
  EXPECT_EQ(told.events()[0].entry.key, "w/1");
}

TEST_P(RegistryContract, APastThatIsForgottenIsToldOf) {
  const RegistryRevision first = put("w/0", "x");
  RegistryRevision last = first;
  for (int i = 1; i < 10; ++i) last = put("w/0", std::to_string(i));
  subject_.compact(last);
  Told told;
  auto ended = executor_.wait(registry().watch(patient(), "w/", first, told.sink()));
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code(), StatusCode::kOutOfRange) << ended.error().to_string();
  EXPECT_EQ(list("w/").entries.at(0).value, "9");
}

TEST_P(RegistryContract, ARevisionThatIsStillToComeIsToldOf) {
  const RegistryRevision last = put("w/0", "x");
  Told told;
  auto ended = executor_.wait(registry().watch(patient(), "w/", last + 1, told.sink()));
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code(), StatusCode::kOutOfRange) << ended.error().to_string();
}

TEST_P(RegistryContract, ASinkThatRefusesEndsItsWatch) {
  const RegistryRevision from = put("w/0", "x");
  put("w/1", "x");
  RegistrySink refuses = [](RegistryEvents) -> Task<Result<>> {
    co_return error(StatusCode::kBusy, "enough");
  };
  auto ended = executor_.wait(registry().watch(patient(), "w/", from, refuses));
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code(), StatusCode::kBusy) << ended.error().to_string();
}

TEST_P(RegistryContract, AContextThatEndedAsksNothing) {
  std::stop_source stop;
  stop.request_stop();
  const Context gone = patient().with_cancel(stop.get_token());
  EXPECT_EQ(executor_.wait(registry().list(gone, "")).error().code(), StatusCode::kCancelled);
  EXPECT_EQ(executor_.wait(registry().commit(gone, {.puts = {{"a", "x"}}})).error().code(),
            StatusCode::kCancelled);
  EXPECT_TRUE(keys("").empty());
}

INSTANTIATE_TEST_SUITE_P(Registries, RegistryContract,
                         ::testing::Values(Kind{"embedded", embedded}, Kind{"etcd", etcd},
                                           Kind{"etcd_with_users", etcd_with_users}),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace leat
