// SPDX-License-Identifier: Apache-2.0
#include "peer/invalidation/invalidation_subscriber.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "cluster/wait_until_test.h"

namespace leat {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using testing::wait_until;

struct Poll {
  size_t worker;
  uint64_t after;

  friend bool operator==(const Poll&, const Poll&) = default;
};

class InvalidationSubscriberTest : public ::testing::Test {
 protected:
  using Answers = std::function<Result<Invalidations>(const Poll&)>;

  ~InvalidationSubscriberTest() override {
    if (subscriber_) executor_.block_on(subscriber_->stop());
  }

  void follow(Answers answers, Clock::duration lease) {
    answers_ = std::move(answers);
    InvalidationSubscriberOptions options{.lease = lease, .backoff = milliseconds(1)};
    options.poll = [this](Context context, size_t worker, uint64_t after) {
      return answer(this, std::move(context), {worker, after});
    };
    options.changed = [this](Invalidations changes) { return take(this, std::move(changes)); };
    subscriber_ = InvalidationSubscriber::start(std::move(options), executor_);
  }
  static Result<Invalidations> silence() {
    return error(StatusCode::kUnavailable, "made not to answer");
  }
  static Invalidations change(uint64_t number, const std::string& key) {
    return {.number = number, .items = {Invalidation{.mount = "/data", .key = key}}};
  }
  size_t polls() {
    std::lock_guard lock(mutex_);
    return polls_.size();
  }
  std::vector<Poll> first_polls(size_t count) {
    EXPECT_TRUE(wait_until([&] { return polls() >= count; }));
    std::lock_guard lock(mutex_);
    return {polls_.begin(), polls_.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  std::vector<Clock::time_point> deadlines() {
    std::lock_guard lock(mutex_);
    return deadlines_;
  }
  std::vector<std::string> received() {
    std::lock_guard lock(mutex_);
    return received_;
  }

 private:
  static Task<Result<Invalidations>> answer(InvalidationSubscriberTest* self, Context context,
                                            Poll poll) {
    {
      std::lock_guard lock(self->mutex_);
      self->polls_.push_back(poll);
      self->deadlines_.push_back(context.deadline);
    }
    Result<Invalidations> news = self->answers_(poll);
    // No news: answers after a while, as a worker does.
    if (news && news->number == poll.after) {
      Result<> slept = co_await sleep_for(context, milliseconds(1));
      if (!slept) co_return Error(slept.error());
    }
    co_return news;
  }
  static Task<> take(InvalidationSubscriberTest* self, Invalidations changes) {
    std::lock_guard lock(self->mutex_);
    for (const Invalidation& one : changes.items)
      self->received_.push_back(one.mount + ":" + one.key);
    co_return;
  }

  Executor executor_;
  std::mutex mutex_;
  std::vector<Poll> polls_;
  std::vector<Clock::time_point> deadlines_;
  std::vector<std::string> received_;
  Answers answers_;

 protected:
  std::atomic<bool> silent_ = true;
  std::unique_ptr<InvalidationSubscriber> subscriber_;
};

TEST_F(InvalidationSubscriberTest, InvalidationsArePassedOnInOrder) {
  const Answers answers = [](const Poll& of) -> Result<Invalidations> {
    if (of.after == 0) return change(7, "a");
    if (of.after == 7) return change(9, "b");
    return Invalidations{.number = 9, .items = {}};
  };
  follow(answers, hours(1));
  EXPECT_EQ(first_polls(4), (std::vector<Poll>{{0, 0}, {0, 7}, {0, 9}, {0, 9}}));
  EXPECT_EQ(received(), (std::vector<std::string>{"/data:a", "/data:b"}));
}

TEST_F(InvalidationSubscriberTest, SilentWorkerIsReplacedByTheNext) {
  const Answers answers = [](const Poll& of) -> Result<Invalidations> {
    if (of.worker == 0) return of.after == 0 ? change(7, "a") : silence();
    return of.after == 0 ? change(3, "b") : Invalidations{.number = 3, .items = {}};
  };
  follow(answers, hours(1));
  EXPECT_EQ(first_polls(4), (std::vector<Poll>{{0, 0}, {0, 7}, {1, 0}, {1, 3}}));
  EXPECT_EQ(received(), (std::vector<std::string>{"/data:a", "/data:b"}));
}

TEST_F(InvalidationSubscriberTest, LeaseEndsWithoutAnswersAndReturns) {
  const Answers answers = [this](const Poll& of) -> Result<Invalidations> {
    if (silent_) return silence();
    return of.after == 0 ? change(3, "b") : Invalidations{.number = 3, .items = {}};
  };
  follow(answers, milliseconds(20));
  EXPECT_TRUE(wait_until([&] { return !subscriber_->lease_valid(); }));
  EXPECT_TRUE(wait_until([&] { return !received().empty(); }));
  const size_t polled = polls();
  first_polls(polled + 3);
  EXPECT_EQ(received(), (std::vector<std::string>{"/:"}));
  EXPECT_FALSE(subscriber_->lease_valid());
  silent_ = false;
  EXPECT_TRUE(wait_until([&] { return received().size() >= 2; }));
  EXPECT_EQ(received()[1], "/data:b");
}

// Each request has the deadline of the lease.
TEST_F(InvalidationSubscriberTest, SeveralThatDoNotAnswerShareTheTime) {
  const Clock::time_point begun = Clock::now();
  follow([](const Poll&) { return silence(); }, hours(1));
  first_polls(3);
  for (const Clock::time_point deadline : deadlines()) {
    EXPECT_GE(deadline, begun + hours(1));
    EXPECT_EQ(deadline, deadlines().front());
  }
}

TEST_F(InvalidationSubscriberTest, LeaseIsValidUntilItsEnd) {
  follow([](const Poll&) { return silence(); }, hours(1));
  first_polls(5);
  EXPECT_TRUE(received().empty());
  EXPECT_TRUE(subscriber_->lease_valid());
}

}  // namespace
}  // namespace leat
