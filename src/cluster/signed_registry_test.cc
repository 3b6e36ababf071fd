// SPDX-License-Identifier: Apache-2.0
// Effects of a registry writer without the cluster's secret on readers: `stranger_` writes below
// the signature layer.
#include "cluster/signed_registry.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <future>

#include "cluster/cluster_records.h"
#include "cluster/embedded_registry.h"
#include "cluster/faulty_registry_test.h"
#include "cluster/record_signer_test.h"
#include "cluster/recorded_events_test.h"
#include "cluster/registry_cache.h"
#include "cluster/registry_view_source.h"
#include "cluster/wait_until_test.h"
#include "telemetry/metric_values_test.h"

namespace leat {
namespace {

using testing::FaultyRegistry;
using testing::KnownKeys;
using testing::RecordedEvents;
using testing::wait_until;

ClusterMount mount_at(const std::string& path, const std::string& source) {
  return {.path = path, .source = source};
}

// Refuses every change.
class RejectingRegistry : public FaultyRegistry {
 public:
  RejectingRegistry(Registry& behind, StatusCode why) : FaultyRegistry(behind), why_(why) {}
  Task<Result<RegistryRevision>> commit(Context, RegistryChange) override {
    co_return error(why_, "made to fail");
  }

 private:
  const StatusCode why_;
};

class SignedRegistryTest : public ::testing::Test {
 protected:
  SignedRegistryTest()
      : stranger_(EmbeddedRegistry::open({}, make_disk(executor_), executor_).value()),
        worker_(worker(keys_)) {}
  ~SignedRegistryTest() override { executor_.block_on(stranger_->stop()); }

  std::unique_ptr<SignedRegistry> worker(std::shared_ptr<const RecordSigner> signer,
                                         std::string cluster = "test") {
    return SignedRegistry::create(std::make_unique<FaultyRegistry>(*stranger_), std::move(signer),
                                  std::move(cluster));
  }
  Result<RegistryRevision> commit(Registry& registry, RegistryChange change) {
    return executor_.block_on(registry.commit(Context::background(), std::move(change)));
  }
  RegistryRevision put(Registry& registry, const std::string& key, const std::string& value) {
    auto made = commit(registry, {.puts = {{key, value}}});
    EXPECT_TRUE(made) << made.error().to_string();
    return made.value_or(0);
  }
  RegistryView list(Registry& registry, const std::string& prefix = "") {
    return executor_.block_on(registry.list(Context::background(), prefix)).value();
  }
  // Returns "" for an absent key.
  std::string value(Registry& registry, const std::string& key) {
    for (const RegistryEntry& entry : list(registry, key).entries) {
      if (entry.key == key) return entry.value;
    }
    return "";
  }
  std::optional<RecordFault> fault_of(SignedRegistry& registry, const std::string& key) {
    for (const RejectedRecord& record : registry.rejected()) {
      if (record.key == key) return record.fault;
    }
    return std::nullopt;
  }

  Executor executor_;
  const std::shared_ptr<KnownKeys> keys_ =
      std::make_shared<KnownKeys>(std::vector<std::string>{"one"});
  const std::unique_ptr<Registry> stranger_;
  const std::unique_ptr<SignedRegistry> worker_;
};

TEST_F(SignedRegistryTest, ReadersSeeWhatWorkersPut) {
  const RegistryRevision first = put(*worker_, "a", "one");
  const RegistryRevision second = put(*worker_, "a", "two");
  EXPECT_LT(first, second);
  const RegistryView view = list(*worker(keys_), "a");
  ASSERT_EQ(view.entries.size(), 1u);
  EXPECT_EQ(view.entries[0].value, "two");
  EXPECT_EQ(view.entries[0].changed, second);
  EXPECT_EQ(view.revision, second);
  EXPECT_TRUE(value(*stranger_, "a").starts_with("leat-record-1 one "));
  EXPECT_TRUE(worker_->rejected().empty());
}

TEST_F(SignedRegistryTest, UnsignedRecordIsHidden) {
  const RegistryRevision changed = put(*stranger_, "a", R"({"v":1})");
  EXPECT_EQ(list(*worker_).entries.size(), 0u);
  ASSERT_EQ(worker_->rejected().size(), 1u);
  EXPECT_EQ(worker_->rejected()[0].key, "a");
  EXPECT_EQ(worker_->rejected()[0].fault, RecordFault::kUnsigned);
  EXPECT_EQ(worker_->rejected()[0].changed, changed);
  commit(*stranger_, {.removals = {"a"}}).value();
  EXPECT_EQ(list(*worker_).entries.size(), 0u);
  EXPECT_TRUE(worker_->rejected().empty());
}

TEST_F(SignedRegistryTest, AlteredRecordIsHidden) {
  put(*worker_, "a", "good");
  std::string text = value(*stranger_, "a");
  text.replace(text.find("good"), 4, "evil");
  put(*stranger_, "a", text);
  EXPECT_EQ(value(*worker_, "a"), "");
  EXPECT_EQ(fault_of(*worker_, "a"), RecordFault::kForged);
  for (const char* broken : {"leat-record-1 ", "leat-record-1 one", "leat-record-1 one x", "\n",
                             "leat-record-1 one \n", "leat-record-1 \n\n"}) {
    put(*stranger_, "a", broken);
    EXPECT_EQ(value(*worker_, "a"), "") << broken;
  }
}

TEST_F(SignedRegistryTest, RecordPutBackIsHidden) {
  put(*worker_, "a", "old");
  const std::string old = value(*stranger_, "a");
  put(*worker_, "a", "new");
  put(*stranger_, "a", old);
  EXPECT_EQ(value(*worker_, "a"), "") << "an old value";
  commit(*worker_, {.removals = {"a"}}).value();
  put(*stranger_, "a", old);
  EXPECT_EQ(value(*worker_, "a"), "") << "a removed one";
  // Fails even with the original change number.
  commit(*stranger_, {.removals = {"a"}}).value();
  put(*stranger_, "a", "");
  put(*stranger_, "a", old);
  EXPECT_EQ(value(*worker_, "a"), "");
  EXPECT_EQ(value(*worker(keys_), "a"), "") << "a reader that has just come";
  EXPECT_EQ(fault_of(*worker_, "a"), RecordFault::kForged);
}

TEST_F(SignedRegistryTest, RecordMovedToAnotherKeyIsHidden) {
  commit(*worker_, {.puts = {{"a", "one"}, {"b", "two"}}}).value();
  const std::string of_a = value(*stranger_, "a"), of_b = value(*stranger_, "b");
  commit(*stranger_, {.puts = {{"a", of_b}, {"b", of_a}, {"c", of_a}}}).value();
  EXPECT_TRUE(list(*worker_).entries.empty());
  EXPECT_EQ(worker_->rejected().size(), 3u);
}

TEST_F(SignedRegistryTest, RecordOfAnotherClusterIsHidden) {
  const auto other = worker(keys_, "other");
  put(*other, "a", "theirs");
  EXPECT_EQ(value(*worker_, "a"), "");
  EXPECT_EQ(fault_of(*worker_, "a"), RecordFault::kForged);
}

TEST_F(SignedRegistryTest, EachRecordIsCountedOnce) {
  put(*stranger_, "a", "x");
  list(*worker_);
  const RejectedRecord first = worker_->rejected().at(0);
  list(*worker_, "a");
  EXPECT_EQ(worker_->rejected().size(), 1u);
  const RegistryRevision again = put(*stranger_, "a", "y");
  list(*worker_);
  EXPECT_EQ(worker_->rejected().at(0).changed, again);
  EXPECT_NE(first.changed, again);
}

TEST_F(SignedRegistryTest, RejectedRecordIsCountedByReason) {
  const auto counted = [](std::string_view reason) {
    return testing::metric("leat_cluster_rejected_records_total",
                           fmt::format("reason=\"{}\"", reason));
  };
  const double unsigned_before = counted("unsigned"), unknown_before = counted("unknown_key");
  put(*stranger_, "a", "x");
  list(*worker_);
  EXPECT_EQ(counted("unsigned"), unsigned_before + 1);
  EXPECT_EQ(counted("unknown_key"), unknown_before);
  put(*worker(std::make_shared<KnownKeys>(std::vector<std::string>{"two"})), "b", "theirs");
  list(*worker_);
  EXPECT_EQ(counted("unsigned"), unsigned_before + 1);
  EXPECT_EQ(counted("unknown_key"), unknown_before + 1);
}

TEST_F(SignedRegistryTest, WatchShowsForgedChangeAsRemoval) {
  auto watched = worker(keys_);
  std::stop_source stop;
  RecordedEvents recorded;
  auto watch = std::async(std::launch::async, [&] {
    return executor_.block_on(watched->watch(Context::background().with_cancel(stop.get_token()),
                                             "m/", list(*stranger_).revision, recorded.sink()));
  });
  ASSERT_TRUE(recorded.wait_until_started());
  const RegistryRevision signed_at = put(*worker_, "m/a", "one");
  ASSERT_TRUE(recorded.wait_for_revision(signed_at));
  const RegistryRevision forged_at = put(*stranger_, "m/a", "two");
  ASSERT_TRUE(recorded.wait_for_revision(forged_at));
  stop.request_stop();
  EXPECT_FALSE(watch.get());
  const auto events = recorded.events();
  ASSERT_EQ(events.size(), 2u) << "the value and the forgery; that the key was reserved is no news";
  EXPECT_EQ(events[0].kind, RegistryEvent::Kind::kPut);
  EXPECT_EQ(events[0].entry.value, "one");
  EXPECT_EQ(events[1].kind, RegistryEvent::Kind::kRemoved);
  EXPECT_EQ(events[1].entry.value, "");
}

TEST_F(SignedRegistryTest, ForgedMountIsNotInTheView) {
  auto map = RegistryViewSource::start(*worker_, {.cluster = "test"}, executor_);
  put(*worker_, mount_key("/good"), encode_mount(mount_at("/good", "s3://a/")));
  put(*stranger_, mount_key("/evil"), encode_mount(mount_at("/evil", "file:///etc")));
  const RegistryRevision last =
      put(*worker_, mount_key("/last"), encode_mount(mount_at("/last", "s3://a/")));
  EXPECT_TRUE(wait_until([&] { return map->view()->revision >= last; }));
  EXPECT_EQ(map->view()->mounts.size(), 2u);
  EXPECT_FALSE(map->view()->mounts.contains("/evil"));
  executor_.block_on(map->stop());
}

TEST_F(SignedRegistryTest, PutReplacesHiddenRecord) {
  put(*stranger_, "a", "theirs");
  EXPECT_TRUE(commit(*worker_, {.conditions = {{"a", 0}}, .puts = {{"a", "ours"}}}));
  EXPECT_EQ(value(*worker_, "a"), "ours");
  auto taken = commit(*worker_, {.conditions = {{"a", 0}}, .puts = {{"a", "again"}}});
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code(), StatusCode::kVersionChanged);
}

TEST_F(SignedRegistryTest, HiddenRecordBesideAbsentIsReplaced) {
  put(*stranger_, "b", "theirs");
  EXPECT_TRUE(commit(*worker_, {.conditions = {{"a", 0}, {"b", 0}}, .puts = {{"b", "ours"}}}));
  EXPECT_EQ(value(*worker_, "b"), "ours");
}

TEST_F(SignedRegistryTest, ReservedKeyIsAbsentAndCanBeTaken) {
  put(*stranger_, "a", "");
  EXPECT_TRUE(list(*worker_).entries.empty());
  EXPECT_TRUE(worker_->rejected().empty());
  EXPECT_TRUE(commit(*worker_, {.conditions = {{"a", 0}}, .puts = {{"a", "ours"}}}));
  EXPECT_EQ(value(*worker_, "a"), "ours");
}

TEST_F(SignedRegistryTest, UnknownSecretBlocksCreation) {
  const auto other = worker(std::make_shared<KnownKeys>(std::vector<std::string>{"two"}));
  put(*other, "leader", "theirs");
  auto refused = commit(*worker_, {.conditions = {{"leader", 0}}, .puts = {{"leader", "ours"}}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(value(*other, "leader"), "theirs");
  EXPECT_EQ(value(*worker_, "leader"), "");
  EXPECT_EQ(fault_of(*worker_, "leader"), RecordFault::kUnknownKey);
}

TEST_F(SignedRegistryTest, ChangeIsMadeUnderItsConditions) {
  const RegistryRevision lead = put(*worker_, "leader", "a");
  ASSERT_TRUE(commit(*worker_, {.conditions = {{"leader", lead}}, .puts = {{"ring", "1"}}}));
  const RegistryRevision other = put(*worker_, "leader", "b");
  auto refused = commit(*worker_, {.conditions = {{"leader", lead}}, .puts = {{"ring", "2"}}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::kVersionChanged);
  EXPECT_EQ(
      commit(*worker_, {.conditions = {{"leader", lead}}, .removals = {"ring"}}).error().code(),
      StatusCode::kVersionChanged);
  EXPECT_EQ(commit(*worker_, {.conditions = {{"none", lead}}, .puts = {{"x", "2"}}}).error().code(),
            StatusCode::kVersionChanged);
  EXPECT_EQ(value(*worker_, "ring"), "1");
  EXPECT_EQ(value(*stranger_, "x"), "") << "nothing is reserved for it";
  auto made = commit(*worker_, {.conditions = {{"leader", other}},
                                .puts = {{"leader", "c"}, {"term", "3"}},
                                .removals = {"ring", "none"}});
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ(value(*worker_, "leader"), "c");
  EXPECT_EQ(value(*worker_, "term"), "3");
  EXPECT_EQ(value(*worker_, "ring"), "");
}

TEST_F(SignedRegistryTest, RejectsInvalidChanges) {
  EXPECT_EQ(commit(*worker_, {.puts = {{"a", "1"}, {"a", "2"}}}).error().code(),
            StatusCode::kInvalidArgument);
  const std::string large(Registry::kValueBytesMax, 'x');
  EXPECT_EQ(commit(*worker_, {.puts = {{"a", large}}}).error().code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(list(*stranger_).entries.empty());
}

TEST_F(SignedRegistryTest, ConcurrentPutsAreAllMade) {
  constexpr int kTasks = 4, kTimes = 10;
  std::vector<std::future<int>> tasks;
  for (int task = 0; task < kTasks; ++task) {
    tasks.push_back(std::async(std::launch::async, [this, task] {
      const auto own = worker(keys_);
      int created = 0;
      for (int i = 0; i < kTimes; ++i) {
        const std::string key = "k" + std::to_string(i);
        if (commit(*own, {.conditions = {{key, 0}}, .puts = {{key, std::to_string(task)}}})) {
          ++created;
        }
      }
      return created;
    }));
  }
  int created = 0;
  for (auto& task : tasks) created += task.get();
  EXPECT_EQ(created, kTimes) << "each by one of them";
  EXPECT_EQ(list(*worker_).entries.size(), size_t(kTimes));
  EXPECT_TRUE(worker_->rejected().empty());
}

TEST_F(SignedRegistryTest, LeaseTakesItsRecordsAlong) {
  const auto lease =
      executor_.block_on(worker_->grant(Context::background(), std::chrono::seconds(60))).value();
  ASSERT_TRUE(commit(*worker_, {.puts = {{"w", "here", lease}}}));
  EXPECT_EQ(list(*worker_).entries.at(0).lease, lease);
  ASSERT_TRUE(executor_.block_on(worker_->revoke(Context::background(), lease)));
  EXPECT_TRUE(list(*stranger_).entries.empty());
  EXPECT_EQ(commit(*worker_, {.puts = {{"w", "here", lease}}}).error().code(),
            StatusCode::kNotFound);
}

TEST_F(SignedRegistryTest, SecretsAreExchangedInSteps) {
  const auto keys = std::make_shared<KnownKeys>(std::vector<std::string>{"one", "two"});
  const auto reader = worker(keys);
  const auto lease =
      executor_.block_on(worker_->grant(Context::background(), std::chrono::seconds(60))).value();
  ASSERT_TRUE(commit(*worker_, {.puts = {{"m", "mount"}, {"w", "worker", lease}}}));
  put(*stranger_, "evil", "x");
  keys->set({"two", "one"});
  auto again = executor_.block_on(reader->sign_again(Context::background()));
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(*again, 2u);
  EXPECT_EQ(executor_.block_on(reader->sign_again(Context::background())), 0u);
  keys->set({"two"});
  EXPECT_EQ(value(*reader, "m"), "mount");
  EXPECT_EQ(value(*reader, "w"), "worker");
  EXPECT_EQ(list(*reader, "w").entries.at(0).lease, lease);
  EXPECT_EQ(value(*reader, "evil"), "");
}

TEST_F(SignedRegistryTest, SigningAgainPassesOverChanges) {
  put(*worker_, "m", "mount");
  const auto keys = std::make_shared<KnownKeys>(std::vector<std::string>{"two", "one"});
  const auto sign_again = [&](StatusCode why) {
    const auto signer =
        SignedRegistry::create(std::make_unique<RejectingRegistry>(*stranger_, why), keys, "test");
    return executor_.block_on(signer->sign_again(Context::background()));
  };
  EXPECT_EQ(sign_again(StatusCode::kVersionChanged), 0u) << "another worker has put it meanwhile";
  EXPECT_EQ(sign_again(StatusCode::kNotFound), 0u) << "its lease has gone";
  const auto lost = sign_again(StatusCode::kUnavailable);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code(), StatusCode::kUnavailable);
}

TEST_F(SignedRegistryTest, NewKeysReachACache) {
  const auto keys = std::make_shared<KnownKeys>(std::vector<std::string>{"two"});
  const auto reader = worker(keys);
  put(*worker_, "m/a", "mount");
  auto cache =
      RegistryCache::start(*reader, "m/", {.backoff_min = std::chrono::milliseconds(5)}, executor_);
  ASSERT_TRUE(executor_.block_on(cache->first_view(Context::background())));
  EXPECT_TRUE(cache->view()->entries.empty());
  keys->set({"two", "one"});
  reader->keys_changed();
  EXPECT_TRUE(wait_until([&] { return cache->view()->entries.size() == 1; }));
  executor_.block_on(cache->stop());
}

TEST_F(SignedRegistryTest, KeysChangeBetweenListingAndWatch) {
  const auto keys = std::make_shared<KnownKeys>(std::vector<std::string>{"two"});
  const auto reader = worker(keys);
  put(*worker_, "m/a", "mount");
  bool first = true;
  auto after_listing = [&](const RegistryView&) {
    if (!std::exchange(first, false)) return;
    keys->set({"two", "one"});
    reader->keys_changed();
  };
  auto cache = RegistryCache::start(
      *reader, "m/", {.backoff_min = std::chrono::milliseconds(5), .changed = after_listing},
      executor_);
  EXPECT_TRUE(wait_until([&] { return cache->view()->entries.size() == 1; }));
  executor_.block_on(cache->stop());
}

}  // namespace
}  // namespace leat
