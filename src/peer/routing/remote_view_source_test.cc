// SPDX-License-Identifier: Apache-2.0
// A client's handling of views from workers: newer ones, older ones, and a restored registry.
#include "peer/routing/remote_view_source.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/wait_until_test.h"
#include "runtime/shared_promise.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using testing::wait_until;

// Answers by its script, then has no news.
class RemoteViewSourceTest : public ::testing::Test {
 protected:
  // One worker's answers: the view of a revision; 0: no news; negative: no answer.
  using Script = std::vector<RegistryRevision>;
  static constexpr RegistryRevision kRejects = -2;
  static constexpr RegistryRevision kWantsTls = -4;
  // As 0, but first the view is requested again.
  static constexpr RegistryRevision kForceRefresh = -100;

  ~RemoteViewSourceTest() override {
    if (views_) executor_.block_on(views_->stop());
  }

  void follow(Script script, std::vector<std::string> seeds = {"a:1"},
              Clock::duration pause = milliseconds(1)) {
    script_ = std::move(script);
    RemoteViewSourceOptions options{.seeds = std::move(seeds)};
    options.poll = [this](Context context, std::string address, RegistryRevision) {
      record_poll(std::move(address));
      return answer(this, std::move(context));
    };
    options.changed = [this](const ClusterViewPtr& view) {
      std::lock_guard lock(mutex_);
      received_.push_back(view->revision);
    };
    options.backoff_min = pause;
    views_ = RemoteViewSource::start(std::move(options), executor_);
    started_ = true;
    EXPECT_TRUE(wait_until([&] { return done(); }));
  }
  Result<> first_view(Clock::duration timeout) {
    return executor_.block_on(views_->first_view(Context::background().with_timeout(timeout)));
  }
  std::vector<RegistryRevision> received() const {
    std::lock_guard lock(mutex_);
    return received_;
  }
  std::vector<std::string> polled() const {
    std::lock_guard lock(mutex_);
    return polled_;
  }

 private:
  void record_poll(std::string address) {
    std::lock_guard lock(mutex_);
    polled_.push_back(std::move(address));
  }
  static Task<Result<ClusterViewPtr>> answer(RemoteViewSourceTest* self, Context context) {
    const auto next = self->next();
    if (!next) {
      Result<> ended = co_await sleep_for(context, std::chrono::hours(1));
      co_return Error(ended.error());
    }
    if (*next == kForceRefresh) {
      // The poll may begin before views_ is set.
      while (!self->started_) (void)co_await sleep_for(context, milliseconds(1));
      self->views_->force_refresh();
      co_return ClusterViewPtr();
    }
    if (*next == kRejects) co_return error(StatusCode::kPermissionDenied, "made to refuse");
    if (*next == kWantsTls) co_return error(StatusCode::kInvalidArgument, "made to want TLS");
    if (*next < 0) co_return error(StatusCode::kUnavailable, "made not to answer");
    if (*next == 0) co_return ClusterViewPtr();
    ClusterView view;
    view.revision = *next;
    co_return std::make_shared<const ClusterView>(std::move(view));
  }
  std::optional<RegistryRevision> next() {
    std::lock_guard lock(mutex_);
    if (at_ > script_.size()) return std::nullopt;
    if (at_ == script_.size()) {
      ++at_;
      return std::nullopt;
    }
    return script_[at_++];
  }
  bool done() const {
    std::lock_guard lock(mutex_);
    return at_ > script_.size();
  }

  Executor executor_;
  mutable std::mutex mutex_;
  Script script_;
  size_t at_ = 0;
  std::vector<RegistryRevision> received_;
  std::vector<std::string> polled_;  // by address
  std::unique_ptr<RemoteViewSource> views_;
  std::atomic<bool> started_ = false;
};

TEST_F(RemoteViewSourceTest, EachNewerViewIsPublished) {
  follow({3, 0, 5, 5, 9});
  EXPECT_EQ(received(), (std::vector<RegistryRevision>{3, 5, 9}));
}

TEST_F(RemoteViewSourceTest, AWorkerThatIsBehindIsPassedOver) {
  follow({9, 5, 10, 5, 0, 5, 11});
  EXPECT_EQ(received(), (std::vector<RegistryRevision>{9, 10, 11}));
}

TEST_F(RemoteViewSourceTest, LowerRevisionTwiceInARowIsAccepted) {
  follow({9, 5, 5, 6});
  EXPECT_EQ(received(), (std::vector<RegistryRevision>{9, 5, 6}));
}

TEST_F(RemoteViewSourceTest, ForcedRefreshAcceptsTheSameRevision) {
  follow({9, kForceRefresh, 9, 9, kForceRefresh, -1, 9});
  EXPECT_EQ(received(), (std::vector<RegistryRevision>{9, 9, 9}));
}

TEST_F(RemoteViewSourceTest, RejectionByAllWorkersFailsAtOnce) {
  follow({kRejects, kRejects}, {"a:1", "b:1"});
  auto seen = first_view(std::chrono::seconds(60));
  ASSERT_FALSE(seen);
  EXPECT_EQ(seen.error().code(), StatusCode::kPermissionDenied);
  EXPECT_NE(seen.error().to_string().find("made to refuse"), std::string::npos);
}

TEST_F(RemoteViewSourceTest, MissingTlsFailsAtOnce) {
  follow({kWantsTls, kRejects}, {"a:1", "b:1"});
  auto seen = first_view(std::chrono::seconds(60));
  ASSERT_FALSE(seen);
  EXPECT_NE(seen.error().to_string().find("rejects us"), std::string::npos);
}

TEST_F(RemoteViewSourceTest, OneRejectionAndOneSilenceKeepWaiting) {
  follow({kRejects, -1, kRejects, -1}, {"a:1", "b:1"});
  auto seen = first_view(milliseconds(50));
  EXPECT_EQ(seen.error().code(), StatusCode::kTimedOut);
  EXPECT_NE(seen.error().to_string().find("made not to answer"), std::string::npos) << "why";
}

TEST_F(RemoteViewSourceTest, AWaitForAQuietWorkerTimesOut) {
  follow({});
  auto seen = first_view(milliseconds(50));
  ASSERT_FALSE(seen);
  EXPECT_EQ(seen.error().code(), StatusCode::kTimedOut);
  EXPECT_EQ(seen.error().to_string().find("no worker"), std::string::npos) << "none has failed";
}

TEST_F(RemoteViewSourceTest, QuietWorkerIsPolledThreeTimes) {
  follow({0, 0, 0, 0, 0, 0, 0, 0, 0}, {"a:1", "b:1"});
  const auto all = polled();
  ASSERT_GE(all.size(), 9u);
  for (size_t i = 1; i < 9; ++i) EXPECT_EQ(all[i] != all[i - 1], i % 3 == 0) << i;
}

TEST_F(RemoteViewSourceTest, OneFailureAfterAnAnswerIsNoPause) {
  follow({-1, 3, -1, 4}, {"a:1", "b:1"}, std::chrono::hours(1));
  EXPECT_EQ(received(), (std::vector<RegistryRevision>{3, 4}));
}

TEST_F(RemoteViewSourceTest, AcceptedClientGetsAViewAgain) {
  follow({kRejects, 3});
  EXPECT_TRUE(first_view(std::chrono::seconds(60)));
}

TEST_F(RemoteViewSourceTest, TwoLaggingWorkersAreNotARestore) {
  follow({9, 5, -1, 5, 10}, {"a:1", "b:1"});
  EXPECT_EQ(received(), (std::vector<RegistryRevision>{9, 10}));
}

Task<Result<ClusterViewPtr>> no_answer(Context context) {
  Result<> slept = co_await sleep_for(context, std::chrono::hours(1));
  co_return error(StatusCode::kUnavailable, slept ? "nothing" : slept.error().message());
}

// Returns which of `seeds` a new source polls first.
size_t first_asked(size_t seeds, Executor& executor) {
  const auto polled = SharedPromise<size_t>::make();
  RemoteViewSourceOptions options;
  for (size_t i = 0; i < seeds; ++i) options.seeds.push_back(std::to_string(i));
  options.poll = [polled](Context context, std::string address,
                          RegistryRevision) -> Task<Result<ClusterViewPtr>> {
    if (!polled->ready()) polled->set(std::stoul(address));
    return no_answer(std::move(context));
  };
  const auto map = RemoteViewSource::start(std::move(options), executor);
  const size_t first = executor.block_on(polled->wait(Context::background(), "a question")).value();
  executor.block_on(map->stop());
  return first;
}

TEST(RemoteViewSource, ClientsBeginAtAllWorkersAlike) {
  constexpr size_t kWorkers = 4000, kClients = 400;
  Executor executor;
  size_t in_last_quarter = 0;
  for (size_t i = 0; i < kClients; ++i) in_last_quarter += first_asked(kWorkers, executor) >= 3000;
  // 100 on average; half or twice that is six standard deviations away.
  EXPECT_GT(in_last_quarter, kClients / 8);
  EXPECT_LT(in_last_quarter, kClients / 2);
}

}  // namespace
}  // namespace leat
