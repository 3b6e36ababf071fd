// SPDX-License-Identifier: Apache-2.0
// Sessions and elections while the registry is present, absent, and has lost state.
#include "cluster/election.h"

#include <gtest/gtest.h>

#include <atomic>

#include "cluster/embedded_registry.h"
#include "cluster/faulty_registry_test.h"
#include "cluster/wait_until_test.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::FaultyRegistry;
using testing::wait_until;

constexpr auto kTtl = seconds(2);

// Counts the changes that no registry could make.
class CountingRegistry : public FaultyRegistry {
 public:
  using FaultyRegistry::FaultyRegistry;
  Task<Result<RegistryRevision>> commit(Context context, RegistryChange change) override {
    auto made = co_await FaultyRegistry::commit(std::move(context), std::move(change));
    if (!made && made.error().code() == StatusCode::kInvalidArgument) ++invalid;
    co_return made;
  }
  std::atomic<int> invalid = 0;
};

class ElectionTest : public ::testing::Test {
 protected:
  ElectionTest() : registry_(EmbeddedRegistry::open({}, make_disk(executor_), executor_).value()) {}
  ~ElectionTest() override { executor_.block_on(registry_->stop()); }

  // A candidate with its own connection to the registry.
  struct Candidate {
    Candidate(Registry& registry, const std::string& name, seconds ttl, Executor& on)
        : executor(on), faulty(registry) {
      session = RegistrySession::start(faulty, {.ttl = ttl}, executor);
      session->put("workers/" + name, name);
      election = Election::start(faulty, *session, {.name = name}, executor);
    }
    ~Candidate() {
      const Context context = Context::background().with_timeout(seconds(5));
      executor.block_on(election->stop(context));
      executor.block_on(session->stop(context));
    }

    Executor& executor;
    FaultyRegistry faulty;
    std::unique_ptr<RegistrySession> session;
    std::unique_ptr<Election> election;
  };

  std::unique_ptr<Candidate> candidate(const std::string& name, seconds ttl = kTtl) {
    return std::make_unique<Candidate>(*registry_, name, ttl, executor_);
  }
  std::vector<std::string> keys() {
    std::vector<std::string> names;
    auto view = executor_.block_on(registry_->list(Context::background(), ""));
    for (const auto& entry : view->entries) names.push_back(entry.key);
    return names;
  }

  Executor executor_;
  std::unique_ptr<Registry> registry_;
};

TEST_F(ElectionTest, OneLeadsAndTheNextOneAfterIt) {
  auto a = candidate("a");
  ASSERT_TRUE(wait_until([&] { return a->election->leads(); }));
  auto b = candidate("b");
  ASSERT_TRUE(wait_until([&] { return b->election->leader() == "a"; }));
  EXPECT_FALSE(b->election->leads());
  a.reset();
  ASSERT_TRUE(wait_until([&] { return b->election->leads(); }));
  ASSERT_TRUE(
      wait_until([&] { return keys() == std::vector<std::string>{"leader", "workers/b"}; }));
}

TEST_F(ElectionTest, DisconnectedLeaderStopsBeforeTheNext) {
  auto a = candidate("a");
  ASSERT_TRUE(wait_until([&] { return a->election->leads(); }));
  const auto before = a->election->condition();
  auto b = candidate("b");
  a->faulty.disconnect();
  std::atomic<bool> two = false;
  ASSERT_TRUE(wait_until([&] {
    const bool b_leads = b->election->leads();
    if (b_leads && a->election->leads()) two = true;
    return b_leads;
  }));
  EXPECT_FALSE(two);
  EXPECT_EQ(a->session->lease(), 0);
  auto late = executor_.block_on(registry_->commit(
      Context::background(), {.conditions = {*before}, .puts = {{"ring", "of a"}}}));
  ASSERT_FALSE(late) << "what a began while it led is refused afterwards";
  EXPECT_EQ(late.error().code(), StatusCode::kVersionChanged);
  a->faulty.connect();
  ASSERT_TRUE(wait_until([&] { return a->election->leader() == "b" && a->session->lease() != 0; }));
  EXPECT_TRUE(b->election->leads());
  ASSERT_TRUE(wait_until([&] {
    return keys() == std::vector<std::string>{"leader", "workers/a", "workers/b"};
  })) << "its entries are there again";
}

TEST_F(ElectionTest, AShortAbsenceChangesNothing) {
  auto a = candidate("a", seconds(60));
  ASSERT_TRUE(wait_until([&] { return a->election->leads(); }));
  const RegistryLease lease = a->session->lease();
  // A put causes a request at once.
  a->faulty.disconnect();
  a->session->put("extra", "x");
  ASSERT_TRUE(wait_until([&] { return a->session->trouble().has_value(); }));
  a->faulty.connect();
  ASSERT_TRUE(wait_until([&] {
    a->session->put("extra", "x");
    return !a->session->trouble();
  }));
  EXPECT_EQ(a->session->lease(), lease);
}

TEST_F(ElectionTest, LostLeaseIsReplaced) {
  auto a = candidate("a");
  ASSERT_TRUE(wait_until([&] { return a->election->leads(); }));
  const RegistryLease lease = a->session->lease();
  ASSERT_TRUE(executor_.block_on(registry_->revoke(Context::background(), lease)));
  ASSERT_TRUE(wait_until([&] { return a->session->lease() != lease && a->election->leads(); }));
  EXPECT_TRUE(
      wait_until([&] { return keys() == std::vector<std::string>{"leader", "workers/a"}; }));
}

TEST_F(ElectionTest, EntriesOfASessionChangeAndGo) {
  auto a = candidate("a");
  a->session->put("workers/a", "elsewhere");
  a->session->put("extra", "x");
  ASSERT_TRUE(wait_until([&] { return keys().size() == 3; }));
  a->session->remove("extra");
  a->session->remove("never there");
  ASSERT_TRUE(wait_until([&] { return keys().size() == 2; }));
  auto view = executor_.block_on(registry_->list(Context::background(), "workers/a"));
  EXPECT_EQ(view->entries.at(0).value, "elsewhere");
  EXPECT_EQ(view->entries.at(0).lease, a->session->lease());
}

// While the registry cannot be reached both wait to be written.
TEST_F(ElectionTest, PutAfterRemoveIsOneChange) {
  CountingRegistry faulty(*registry_);
  auto session = RegistrySession::start(faulty, {.ttl = seconds(60)}, executor_);
  const auto value = [&] {
    const auto view = executor_.block_on(registry_->list(Context::background(), "a"));
    return view->entries.empty() ? "" : view->entries.front().value;
  };
  session->put("a", "1");
  EXPECT_TRUE(wait_until([&] { return value() == "1"; }));
  faulty.disconnect();
  session->remove("a");
  session->put("a", "2");
  faulty.connect();
  EXPECT_TRUE(wait_until([&] {
    session->put("b", "x");  // it writes at once if there is something to put
    return value() == "2";
  }));
  EXPECT_EQ(faulty.invalid, 0) << "no change both puts a key and removes it";
  executor_.block_on(session->stop(Context::background().with_timeout(seconds(5))));
}

}  // namespace
}  // namespace leat
