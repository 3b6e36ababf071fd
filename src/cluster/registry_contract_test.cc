// SPDX-License-Identifier: Apache-2.0
// The contract of every registry, tested with each: the embedded one, a real etcd, an etcd with
// users, and one with mutual TLS.
//
// Each of them drops history but no present state: etcd up to the compacted revision, the embedded
// one all but its last changes. The consequences for watches are the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>

#include "base/units.h"
#include "cluster/embedded_registry.h"
#include "cluster/etcd_test.h"
#include "cluster/faulty_registry_test.h"
#include "cluster/recorded_events_test.h"
#include "cluster/registry_cache.h"
#include "cluster/wait_until_test.h"
#include "runtime/shared_promise.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::EtcdServers;
using testing::FaultyRegistry;
using testing::RecordedEvents;

constexpr auto kPatience = seconds(20);

// A separate registry for each test, and how to compact it.
struct Subject {
  std::unique_ptr<Registry> registry;
  // Drops the history before `revision`. If that needs further changes, of other keys, `keep_up`
  // waits for the watches that must follow them.
  std::function<void(RegistryRevision revision, std::function<void()> keep_up)> compact;
  // Returns true if a stalled watch must reread from the registry after this many changes of 16
  // KiB.
  std::function<bool(int changes)> outruns;
  std::shared_ptr<EtcdServers> servers;
};

constexpr int kHistoryMax = 50;

Subject embedded(Executor& executor) {
  EmbeddedRegistryOptions options{.history_max = kHistoryMax};
  auto registry = EmbeddedRegistry::open(options, make_disk(executor), executor);
  LEAT_CHECK(registry);
  Subject subject;
  subject.registry = std::move(*registry);
  Registry* raw = subject.registry.get();
  subject.compact = [raw, &executor](RegistryRevision, std::function<void()> keep_up) {
    for (int i = 0; i < kHistoryMax * 2; ++i) {
      auto filled =
          executor.block_on(raw->commit(Context::background(), {.puts = {{"filler", "x"}}}));
      ASSERT_TRUE(filled);
      if (i % (kHistoryMax / 5) == 0) keep_up();
    }
  };
  subject.outruns = [](int changes) { return changes > kHistoryMax; };
  return subject;
}

// etcd buffers some thousand changes for a watch, besides those in transit, and counts the watches
// that fell behind.
bool outruns_a_watch_of(const EtcdServers& servers, int changes) {
  constexpr int kBetweenLooks = 100;
  return changes % kBetweenLooks == 0 &&
         servers.metrics().contains("\netcd_debugging_mvcc_slow_watcher_total 1");
}

Subject subject_of(std::shared_ptr<EtcdServers> servers, const EtcdOptions& options) {
  Subject subject;
  subject.registry = EtcdRegistry::create(options);
  subject.servers = servers;
  subject.compact = [servers, with_users = !options.user.empty()](RegistryRevision revision,
                                                                  const std::function<void()>&) {
    servers->compact(revision, 0, with_users ? servers->root_token() : "");
  };
  subject.outruns = [servers](int changes) { return outruns_a_watch_of(*servers, changes); };
  return subject;
}

Subject etcd(Executor&) {
  auto servers = EtcdServers::start();
  return servers ? subject_of(servers, servers->options()) : Subject();
}

Subject etcd_with_users(Executor&) {
  auto servers = EtcdServers::start();
  if (!servers) return {};
  servers->add_user();
  EtcdOptions options = servers->options();
  options.user = EtcdServers::kUser;
  options.password = EtcdServers::kPassword;
  return subject_of(servers, options);
}

Subject etcd_with_tls(Executor&) {
  auto servers = EtcdServers::start(1, EtcdServers::Transport::kTls);
  return servers ? subject_of(servers, servers->options()) : Subject();
}

struct Kind {
  const char* name;
  Subject (*make)(Executor&);
};

// A mirror of "w/" and all of its states.
class CacheHistory {
 public:
  CacheHistory(Registry& registry, Executor& executor) : executor_(executor) {
    RegistryCacheOptions options{.backoff_min = milliseconds(20), .backoff_max = milliseconds(200)};
    options.changed = [this](const RegistryView& view) {
      std::lock_guard lock(mutex_);
      views_.push_back(view);
    };
    options.relisted = [this] { ++listed_anew_; };
    cache_ = RegistryCache::start(registry, "w/", std::move(options), executor);
  }
  ~CacheHistory() { executor_.block_on(cache_->stop()); }

  bool wait_for(RegistryRevision revision) {
    return testing::wait_until([&] {
      std::lock_guard lock(mutex_);
      return !views_.empty() && views_.back().revision >= revision;
    });
  }
  bool wait_for_trouble() {
    return testing::wait_until([&] { return cache_->trouble().has_value(); });
  }
  RegistryView view() const { return *cache_->view(); }
  int relisted() const { return listed_anew_; }
  // Returns the values of one entry, one for each put.
  std::vector<std::string> values_of(const std::string& key) const {
    std::lock_guard lock(mutex_);
    std::vector<std::string> values;
    RegistryRevision seen = 0;
    for (const RegistryView& view : views_) {
      const auto found = std::ranges::find(view.entries, key, &RegistryEntry::key);
      if (found == view.entries.end() || found->changed == seen) continue;
      seen = found->changed;
      values.push_back(found->value);
    }
    return values;
  }

 private:
  Executor& executor_;
  mutable std::mutex mutex_;
  std::vector<RegistryView> views_;
  std::atomic<int> listed_anew_ = 0;
  std::unique_ptr<RegistryCache> cache_;
};

class RegistryContract : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    subject_ = GetParam().make(executor_);
    ASSERT_TRUE(subject_.registry) << EtcdServers::kHowToGetIt;
  }
  void TearDown() override {
    stop_watching();
    if (subject_.registry) executor_.block_on(subject_.registry->stop());
    subject_ = {};
  }

  Registry& registry() { return *subject_.registry; }
  Context patient() { return Context::background().with_timeout(kPatience); }

  Result<RegistryRevision> commit(RegistryChange change) {
    return executor_.block_on(registry().commit(patient(), std::move(change)));
  }
  RegistryRevision put(const std::string& key, const std::string& value, RegistryLease lease = 0) {
    auto revision = commit({.puts = {{key, value, lease}}});
    EXPECT_TRUE(revision) << revision.error().to_string();
    return revision.value_or(0);
  }
  RegistryView list(const std::string& prefix) {
    auto view = executor_.block_on(registry().list(patient(), prefix));
    EXPECT_TRUE(view) << view.error().to_string();
    return view.value_or(RegistryView());
  }
  std::vector<std::string> keys(const std::string& prefix) {
    std::vector<std::string> names;
    for (const auto& entry : list(prefix).entries) names.push_back(entry.key);
    return names;
  }
  RegistryLease grant(seconds ttl) {
    auto lease = executor_.block_on(registry().grant(patient(), ttl));
    EXPECT_TRUE(lease) << lease.error().to_string();
    return lease.value_or(0);
  }

  void watch(RecordedEvents& recorded, const std::string& prefix, RegistryRevision after) {
    auto ended = SharedPromise<bool>::make();
    executor_.spawn(watch_until_stopped(registry(), stop_, prefix, after, recorded.sink(), ended));
    watches_.push_back(ended);
  }
  void stop_watching() {
    stop_.request_stop();
    for (auto& ended : watches_) {
      auto seen = executor_.block_on(ended->wait(patient(), "the end of a watch"));
      EXPECT_TRUE(seen) << "a watch goes on though nobody wants it";
    }
    watches_.clear();
  }

  Executor executor_;
  Subject subject_;

 private:
  static Task<> watch_until_stopped(Registry& registry, std::stop_source stop, std::string prefix,
                                    RegistryRevision after, RegistrySink sink,
                                    std::shared_ptr<SharedPromise<bool>> ended) {
    Context context = Context::background().with_cancel(stop.get_token());
    Result<> result = co_await registry.watch(context, prefix, after, std::move(sink));
    EXPECT_FALSE(result) << "a watch has no good end";
    if (!result) {
      EXPECT_EQ(result.error().code(), StatusCode::kCancelled) << result.error().to_string();
    }
    ended->set(true);
  }

  std::stop_source stop_;
  std::vector<std::shared_ptr<SharedPromise<bool>>> watches_;
};

TEST_P(RegistryContract, WhatIsPutIsListedWithItsRevisions) {
  const RegistryRevision first = put("workers/a", "one");
  const RegistryRevision second = put("workers/b", std::string("\0\xff\"", 3));
  const RegistryRevision third = put("workers/a", "three");
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  const RegistryView view = list("workers/");
  EXPECT_EQ(view.revision, third);
  EXPECT_EQ(
      view.entries,
      (std::vector<RegistryEntry>{
          {.key = "workers/a", .value = "three", .changed = third, .created = first, .version = 2},
          {.key = "workers/b",
           .value = std::string("\0\xff\"", 3),
           .changed = second,
           .created = second,
           .version = 1}}));
}

TEST_P(RegistryContract, APrefixIsOfBytes) {
  for (const char* key : {"a", "a/", "a/b", "a0", "a\xff", "a\xff/b", "b"}) put(key, "x");
  EXPECT_EQ(keys("a/"), (std::vector<std::string>{"a/", "a/b"}));
  EXPECT_EQ(keys("a\xff"), (std::vector<std::string>{"a\xff", "a\xff/b"}));
  EXPECT_EQ(keys("").size(), 7u);
  EXPECT_EQ(keys("c").size(), 0u);
}

TEST_P(RegistryContract, ChangeNeedsAllOfItsConditions) {
  auto made = commit({.conditions = {{"leader", 0}}, .puts = {{"leader", "a"}, {"term", "1"}}});
  ASSERT_TRUE(made) << made.error().to_string();
  auto refused = commit({.conditions = {{"leader", 0}}, .puts = {{"term", "2"}}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::kVersionChanged);
  EXPECT_EQ(list("term").entries[0].value, "1");
  EXPECT_EQ(list("term").entries[0].changed, *made);
  EXPECT_EQ(list("leader").entries[0].changed, *made) << "one change, one revision";

  auto again = commit({.conditions = {{"leader", *made}},
                       .puts = {{"leader", "b"}},
                       .removals = {"term", "never there"}});
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(keys(""), std::vector<std::string>{"leader"});
}

TEST_P(RegistryContract, RejectsInvalidChanges) {
  EXPECT_EQ(commit({.puts = {{"a", "1"}, {"a", "2"}}}).error().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(
      commit({.puts = {{"a", std::string(Registry::kValueBytesMax + 1, 'x')}}}).error().code(),
      StatusCode::kInvalidArgument);
  const auto second_too_large =
      commit({.puts = {{"b", "1"}, {"a", std::string(Registry::kValueBytesMax + 1, 'x')}}});
  ASSERT_FALSE(second_too_large);
  EXPECT_EQ(second_too_large.error().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(commit({.puts = {{"a", std::string(Registry::kValueBytesMax, 'x')}}}));
  EXPECT_EQ(executor_.block_on(registry().grant(patient(), seconds(0))).error().code(),
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

TEST_P(RegistryContract, ThousandsOfEntriesAreListed) {
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

TEST_P(RegistryContract, ExpiredLeaseRemovesItsEntries) {
  RecordedEvents recorded;
  put("workers/stays", "x");
  RegistryLease lease = 0;
  RegistryRevision from = 0;
  // On a busy machine a lease may end before its entry is put or seen.
  ASSERT_TRUE(testing::wait_until([&] {
    lease = grant(seconds(1));
    const auto made = commit({.puts = {{"workers/goes", "x", lease}}});
    if (!made) {
      EXPECT_EQ(made.error().code(), StatusCode::kNotFound) << made.error().to_string();
      return false;
    }
    from = *made;
    const RegistryView view = list("workers/goes");
    if (view.entries.empty()) return false;
    EXPECT_EQ(view.entries[0].lease, lease);
    return true;
  }));
  watch(recorded, "workers/", from);
  ASSERT_TRUE(recorded.wait_for(1));
  EXPECT_EQ(recorded.events()[0].kind, RegistryEvent::Kind::kRemoved);
  EXPECT_EQ(recorded.events()[0].entry.key, "workers/goes");
  EXPECT_EQ(keys("workers/"), std::vector<std::string>{"workers/stays"});
  EXPECT_EQ(executor_.block_on(registry().keep_alive(patient(), lease)).error().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(commit({.puts = {{"workers/goes", "x", lease}}}).error().code(), StatusCode::kNotFound);
}

TEST_P(RegistryContract, ALeaseThatIsKeptStays) {
  constexpr auto kTtl = seconds(2);
  Clock::time_point renewed_at;  // time of the last keep_alive() of `kept`
  const auto in_time = [&] { return Clock::now() - renewed_at < kTtl; };
  bool judged = false;
  // If a busy machine renewed too late, the attempt proves nothing and is repeated.
  while (!judged) {
    RecordedEvents recorded;
    renewed_at = Clock::now();
    const RegistryLease kept = grant(kTtl), lost = grant(kTtl);
    const auto from = commit({.puts = {{"kept", "x", kept}, {"lost", "x", lost}}});
    if (!in_time()) continue;
    ASSERT_TRUE(from) << from.error().to_string();
    watch(recorded, "", *from);
    while (in_time() && !recorded.wait_until(1, milliseconds(300))) {
      const Clock::time_point asking = Clock::now();
      auto ttl = executor_.block_on(registry().keep_alive(patient(), kept));
      if (!in_time()) break;
      ASSERT_TRUE(ttl) << ttl.error().to_string();
      EXPECT_GE(*ttl, seconds(1));
      renewed_at = asking;
    }
    const std::vector<std::string> left = keys("");
    judged = in_time();
    if (!judged) continue;
    EXPECT_EQ(recorded.events()[0].entry.key, "lost");
    EXPECT_EQ(left, std::vector<std::string>{"kept"});
  }
}

TEST_P(RegistryContract, LeaseCanBeRevokedTwice) {
  const RegistryLease lease = grant(seconds(60));
  put("a", "x", lease);
  put("b", "x", lease);
  put("b", "stays", 0);
  EXPECT_TRUE(executor_.block_on(registry().revoke(patient(), lease)));
  EXPECT_EQ(keys(""), std::vector<std::string>{"b"});
  EXPECT_TRUE(executor_.block_on(registry().revoke(patient(), lease)));
}

TEST_P(RegistryContract, AWatchSeesEachChangeOnceAndInOrder) {
  RecordedEvents recorded;
  const RegistryRevision from = put("w/before", "x");
  watch(recorded, "w/", from);
  ASSERT_TRUE(recorded.wait_until_started());
  std::vector<std::string> expected;
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(commit({.puts = {{fmt::format("w/{}", i), "x"}, {fmt::format("v/{}", i), "x"}}}));
    expected.push_back(fmt::format("w/{}", i));
  }
  ASSERT_TRUE(commit({.removals = {"w/7"}}));
  expected.push_back("w/7");
  ASSERT_TRUE(recorded.wait_for(expected.size()));
  const auto events = recorded.events();
  ASSERT_EQ(events.size(), expected.size());
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].entry.key, expected[i]);
    if (i > 0) EXPECT_LT(events[i - 1].entry.changed, events[i].entry.changed);
  }
  EXPECT_EQ(events.back().kind, RegistryEvent::Kind::kRemoved);
}

TEST_P(RegistryContract, WatchReceivesOneChangeAtOnce) {
  RecordedEvents recorded;
  const RegistryRevision from = put("w/before", "x");
  ASSERT_TRUE(commit({.puts = {{"w/1", "x"}, {"w/2", "x"}, {"w/3", "x"}}}));
  watch(recorded, "w/", from);
  ASSERT_TRUE(recorded.wait_for(3));
  EXPECT_EQ(recorded.batches()[0], 3u);
}

TEST_P(RegistryContract, AWatchBeginsInThePast) {
  RecordedEvents recorded;
  const RegistryRevision from = put("w/0", "x");
  for (int i = 1; i < 20; ++i) put(fmt::format("w/{}", i), "x");
  watch(recorded, "w/", from);
  ASSERT_TRUE(recorded.wait_for(19));
  EXPECT_EQ(recorded.events()[0].entry.key, "w/1");
}

TEST_P(RegistryContract, CompactedRevisionEndsTheWatch) {
  const RegistryRevision first = put("w/0", "x");
  RegistryRevision last = first;
  for (int i = 1; i < 10; ++i) last = put("w/0", std::to_string(i));
  subject_.compact(last, [] {});
  RecordedEvents recorded;
  auto ended = executor_.block_on(registry().watch(patient(), "w/", first, recorded.sink()));
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code(), StatusCode::kOutOfRange) << ended.error().to_string();
  EXPECT_EQ(list("w/").entries.at(0).value, "9");
}

// The watch's last revision is compacted, too: other keys have changed since.
TEST_P(RegistryContract, AWatchThatIsUpToDateOutlivesACompaction) {
  RecordedEvents recorded;
  const RegistryRevision from = put("w/0", "x");
  watch(recorded, "w/", from);
  const RegistryRevision heard = put("w/1", "x");
  ASSERT_TRUE(recorded.wait_for_revision(heard));
  put("v/0", "x");
  const RegistryRevision last = put("v/1", "x");
  int kept_up = 0;
  subject_.compact(last, [&] {
    EXPECT_TRUE(recorded.wait_for_revision(put(fmt::format("w/kept up {}", ++kept_up), "x")));
  });
  RecordedEvents of_past;
  auto in_past = executor_.block_on(registry().watch(patient(), "w/", from, of_past.sink()));
  ASSERT_FALSE(in_past);
  EXPECT_EQ(in_past.error().code(), StatusCode::kOutOfRange) << "the past is there still";

  const RegistryRevision next = put("w/2", "x");
  ASSERT_TRUE(recorded.wait_for_revision(next));
  const auto events = recorded.events();
  ASSERT_EQ(events.size(), static_cast<size_t>(kept_up) + 2);
  EXPECT_EQ(events.front().entry.key, "w/1");
  EXPECT_EQ(events.back().entry.key, "w/2");
  EXPECT_EQ(events.back().entry.changed, next);
}

TEST_P(RegistryContract, CacheRelistsIfWatchFallsBehindCompaction) {
  FaultyRegistry faulty(registry());
  CacheHistory history(faulty, executor_);
  ASSERT_TRUE(history.wait_for(put("w/gone", "x")));
  ASSERT_TRUE(history.wait_for(put("w/n", "0")));  // so the watch has started
  faulty.stall();
  const std::string padding(16 * kKiB, '.');
  int changes = 0;
  while (!subject_.outruns(changes)) {
    ASSERT_LT(++changes, 20'000);
    put("w/n", std::to_string(changes) + padding);
  }
  ASSERT_TRUE(commit({.removals = {"w/gone"}}));
  const RegistryRevision last = put("w/n", "last");
  subject_.compact(last, [] {});
  EXPECT_TRUE(faulty.watch_ends().empty()) << "it stands, and nothing is taken of it";
  faulty.resume();
  ASSERT_TRUE(history.wait_for(last));

  EXPECT_EQ(faulty.watch_ends(), std::vector<StatusCode>{StatusCode::kOutOfRange});
  EXPECT_TRUE(testing::wait_until([&] { return history.relisted() == 1; }));
  EXPECT_EQ(history.view().entries, list("w/").entries);
  // The values before the end have no gap.
  const std::vector<std::string> values = history.values_of("w/n");
  ASSERT_GE(values.size(), 2u);
  EXPECT_EQ(values.back(), "last");
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    EXPECT_EQ(values[i].substr(0, values[i].find('.')), std::to_string(i));
  }
  // Changes are followed again.
  ASSERT_TRUE(history.wait_for(put("w/n", "after")));
  EXPECT_EQ(history.view().entries, list("w/").entries);
  EXPECT_EQ(history.relisted(), 1);
}

TEST_P(RegistryContract, DisconnectedCacheRecoversFromCompaction) {
  FaultyRegistry faulty(registry());
  CacheHistory history(faulty, executor_);
  put("w/gone", "x");
  ASSERT_TRUE(history.wait_for(put("w/n", "0")));
  faulty.disconnect();
  ASSERT_TRUE(history.wait_for_trouble());
  ASSERT_TRUE(commit({.removals = {"w/gone"}}));
  put("w/n", "1");
  const RegistryRevision last = put("w/n", "2");
  subject_.compact(last, [] {});
  faulty.connect();
  ASSERT_TRUE(history.wait_for(last));
  EXPECT_EQ(history.view().entries, list("w/").entries);
  EXPECT_EQ(history.values_of("w/n"), (std::vector<std::string>{"0", "2"}));
  ASSERT_TRUE(history.wait_for(put("w/n", "3")));
  EXPECT_EQ(history.view().entries, list("w/").entries);
}

TEST_P(RegistryContract, FutureRevisionEndsTheWatch) {
  const RegistryRevision last = put("w/0", "x");
  RecordedEvents recorded;
  auto ended = executor_.block_on(registry().watch(patient(), "w/", last + 1, recorded.sink()));
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code(), StatusCode::kOutOfRange) << ended.error().to_string();
}

Task<Result<>> refuse(StatusCode why) {
  co_return error(why, "enough");
}

TEST_P(RegistryContract, SinkErrorEndsItsWatch) {
  const RegistryRevision from = put("w/0", "x");
  put("w/1", "x");
  for (const StatusCode why :
       {StatusCode::kBusy, StatusCode::kTimedOut, StatusCode::kUnavailable}) {
    RegistrySink refuses = [why](RegistryEvents) { return refuse(why); };
    auto ended = executor_.block_on(registry().watch(patient(), "w/", from, refuses));
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code(), why) << ended.error().to_string();
    EXPECT_TRUE(ended.error().to_string().contains("enough")) << ended.error().to_string();
  }
}

TEST_P(RegistryContract, EndedContextSendsNothing) {
  std::stop_source stop;
  stop.request_stop();
  const Context gone = patient().with_cancel(stop.get_token());
  EXPECT_EQ(executor_.block_on(registry().list(gone, "")).error().code(), StatusCode::kCancelled);
  EXPECT_EQ(executor_.block_on(registry().commit(gone, {.puts = {{"a", "x"}}})).error().code(),
            StatusCode::kCancelled);
  EXPECT_TRUE(keys("").empty());
}

INSTANTIATE_TEST_SUITE_P(Registries, RegistryContract,
                         ::testing::Values(Kind{"embedded", embedded}, Kind{"etcd", etcd},
                                           Kind{"etcd_with_users", etcd_with_users},
                                           Kind{"etcd_with_tls", etcd_with_tls}),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace leat
