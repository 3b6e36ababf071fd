// SPDX-License-Identifier: Apache-2.0
// Sessions and elections while the registry is present, absent, and has lost state.
#include "cluster/election.h"

#include <gtest/gtest.h>

#include <atomic>

#include "cluster/embedded_registry.h"
#include "cluster/registry_door_test.h"
#include "cluster/wait_until_test.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::RegistryDoor;
using testing::wait_until;

constexpr auto kTtl = seconds(2);

// Counts the changes that no registry could make.
class CountingDoor : public RegistryDoor {
 public:
  using RegistryDoor::RegistryDoor;
  Task<Result<RegistryRevision>> commit(Context context, RegistryChange change) override {
    auto made = co_await RegistryDoor::commit(std::move(context), std::move(change));
    if (!made && made.error().code() == StatusCode::kInvalidArgument) ++invalid;
    co_return made;
  }
  std::atomic<int> invalid = 0;
};

class ElectionTest : public ::testing::Test {
 protected:
  ElectionTest() : registry_(EmbeddedRegistry::open({}, make_disk(executor_), executor_).value()) {}
  ~ElectionTest() override { executor_.wait(registry_->stop()); }

  // A candidate with its own connection to the registry.
  struct Candidate {
    Candidate(Registry& registry, const std::string& name, seconds ttl, Executor& on)
        : executor(on), door(registry) {
      session = RegistrySession::start(door, {.ttl = ttl}, executor);
      session->put("workers/" + name, name);
      election = Election::start(door, *session, {.name = name}, executor);
    }
    ~Candidate() {
      const Context context = Context::background().with_timeout(seconds(5));
      executor.wait(election->stop(context));
      executor.wait(session->stop(context));
    }

    Executor& executor;
    RegistryDoor door;
    std::unique_ptr<RegistrySession> session;
    std::unique_ptr<Election> election;
  };

  std::unique_ptr<Candidate> candidate(const std::string& name, seconds ttl = kTtl) {
    return std::make_unique<Candidate>(*registry_, name, ttl, executor_);
  }
  std::vector<std::string> keys() {
    std::vector<std::string> names;
    auto view = executor_.wait(registry_->list(Context::background(), ""));
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

TEST_F(ElectionTest, WhoIsCutOffStopsLeadingBeforeAnotherOneBegins) {
  auto a = candidate("a");
  ASSERT_TRUE(wait_until([&] { return a->election->leads(); }));
  const auto before = a->election->condition();
  auto b = candidate("b");
  a->door.close();
  std::atomic<bool> two = false;
  ASSERT_TRUE(wait_until([&] {
    const bool b_leads = b->election->leads();
    if (b_leads && a->election->leads()) two = true;
    return b_leads;
  }));
  EXPECT_FALSE(two);
  EXPECT_EQ(a->session->lease(), 0);
  auto late = executor_.wait(registry_->commit(
      Context::background(), {.conditions = {*before}, .puts = {{"ring", "of a"}}}));
  ASSERT_FALSE(late) << "what a began while it led is refused afterwards";
  EXPECT_EQ(late.error().code(), StatusCode::kChanged);
  a->door.open();
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
  a->door.close();
  a->session->put("extra", "x");
  ASSERT_TRUE(wait_until([&] { return a->session->trouble().has_value(); }));
  a->door.open();
  ASSERT_TRUE(wait_until([&] {
    a->session->put("extra", "x");
    return !a->session->trouble();
  }));
  EXPECT_EQ(a->session->lease(), lease);
}

TEST_F(ElectionTest, ALeaseThatIsForgottenIsTakenAnew) {
  auto a = candidate("a");
  ASSERT_TRUE(wait_until([&] { return a->election->leads(); }));
  const RegistryLease lease = a->session->lease();
  ASSERT_TRUE(executor_.wait(registry_->revoke(Context::background(), lease)));
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
  auto view = executor_.wait(registry_->list(Context::background(), "workers/a"));
  EXPECT_EQ(view->entries.at(0).value, "elsewhere");
  EXPECT_EQ(view->entries.at(0).lease, a->session->lease());
}

// While the registry cannot be reached both wait to be written.
TEST_F(ElectionTest, PutAfterRemoveIsOneChange) {
  CountingDoor door(*registry_);
  auto session = RegistrySession::start(door, {.ttl = seconds(60)}, executor_);
  const auto value = [&] {
    const auto view = executor_.wait(registry_->list(Context::background(), "a"));
    return view->entries.empty() ? "" : view->entries.front().value;
  };
  session->put("a", "1");
  EXPECT_TRUE(wait_until([&] { return value() == "1"; }));
  door.close();
  session->remove("a");
  session->put("a", "2");
  door.open();
  EXPECT_TRUE(wait_until([&] {
    session->put("b", "x");  // it asks at once when there is something to put
    return value() == "2";
  }));
  EXPECT_EQ(door.invalid, 0) << "no change both puts a key and removes it";
  executor_.wait(session->stop(Context::background().with_timeout(seconds(5))));
}

}  // namespace
}  // namespace leat
