// SPDX-License-Identifier: Apache-2.0
#include "peer/change_follower.h"

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

struct Question {
  size_t worker;
  uint64_t after;

  friend bool operator==(const Question&, const Question&) = default;
};

class ChangeFollowerTest : public ::testing::Test {
 protected:
  using Answers = std::function<Result<PeerChanges>(const Question&)>;

  ~ChangeFollowerTest() override {
    if (follower_) executor_.wait(follower_->stop());
  }

  void follow(Answers answers, Clock::duration lease) {
    answers_ = std::move(answers);
    ChangeFollowerOptions options{.lease = lease, .pause = milliseconds(1)};
    options.ask = [this](Context context, size_t worker, uint64_t after) {
      return answer(this, std::move(context), {worker, after});
    };
    options.changed = [this](PeerChanges changes) { return take(this, std::move(changes)); };
    follower_ = ChangeFollower::start(std::move(options), executor_);
  }
  static Result<PeerChanges> silence() {
    return error(StatusCode::kUnavailable, "made not to answer");
  }
  static PeerChanges change(uint64_t number, const std::string& key) {
    return {.number = number, .changes = {PeerChange{.mount = "/data", .key = key}}};
  }
  size_t questions() {
    std::lock_guard lock(mutex_);
    return questions_.size();
  }
  std::vector<Question> first_questions(size_t count) {
    EXPECT_TRUE(wait_until([&] { return questions() >= count; }));
    std::lock_guard lock(mutex_);
    return {questions_.begin(), questions_.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  std::vector<Clock::time_point> deadlines() {
    std::lock_guard lock(mutex_);
    return deadlines_;
  }
  std::vector<std::string> told() {
    std::lock_guard lock(mutex_);
    return told_;
  }

 private:
  static Task<Result<PeerChanges>> answer(ChangeFollowerTest* self, Context context,
                                          Question question) {
    {
      std::lock_guard lock(self->mutex_);
      self->questions_.push_back(question);
      self->deadlines_.push_back(context.deadline);
    }
    Result<PeerChanges> news = self->answers_(question);
    // No news: answers after a while, as a worker does.
    if (news && news->number == question.after) {
      Result<> slept = co_await sleep_for(context, milliseconds(1));
      if (!slept) co_return Error(slept.error());
    }
    co_return news;
  }
  static Task<> take(ChangeFollowerTest* self, PeerChanges changes) {
    std::lock_guard lock(self->mutex_);
    for (const PeerChange& one : changes.changes) self->told_.push_back(one.mount + ":" + one.key);
    co_return;
  }

  Executor executor_;
  std::mutex mutex_;
  std::vector<Question> questions_;
  std::vector<Clock::time_point> deadlines_;
  std::vector<std::string> told_;
  Answers answers_;

 protected:
  std::atomic<bool> silent_ = true;
  std::unique_ptr<ChangeFollower> follower_;
};

TEST_F(ChangeFollowerTest, WhatIsToldIsPassedOnAndTheNextQuestionIsForWhatCameAfter) {
  const Answers answers = [](const Question& of) -> Result<PeerChanges> {
    if (of.after == 0) return change(7, "a");
    if (of.after == 7) return change(9, "b");
    return PeerChanges{.number = 9, .changes = {}};
  };
  follow(answers, hours(1));
  EXPECT_EQ(first_questions(4), (std::vector<Question>{{0, 0}, {0, 7}, {0, 9}, {0, 9}}));
  EXPECT_EQ(told(), (std::vector<std::string>{"/data:a", "/data:b"}));
}

TEST_F(ChangeFollowerTest, AfterOneThatDoesNotAnswerTheNextIsAskedForAll) {
  const Answers answers = [](const Question& of) -> Result<PeerChanges> {
    if (of.worker == 0) return of.after == 0 ? change(7, "a") : silence();
    return of.after == 0 ? change(3, "b") : PeerChanges{.number = 3, .changes = {}};
  };
  follow(answers, hours(1));
  EXPECT_EQ(first_questions(4), (std::vector<Question>{{0, 0}, {0, 7}, {1, 0}, {1, 3}}));
  EXPECT_EQ(told(), (std::vector<std::string>{"/data:a", "/data:b"}));
}

TEST_F(ChangeFollowerTest, WhoHearsOfNobodyBelievesNothingUntilItHears) {
  const Answers answers = [this](const Question& of) -> Result<PeerChanges> {
    if (silent_) return silence();
    return of.after == 0 ? change(3, "b") : PeerChanges{.number = 3, .changes = {}};
  };
  follow(answers, milliseconds(20));
  EXPECT_TRUE(wait_until([&] { return !follower_->hears(); }));
  EXPECT_TRUE(wait_until([&] { return !told().empty(); }));
  const size_t asked = questions();
  first_questions(asked + 3);
  EXPECT_EQ(told(), (std::vector<std::string>{"/:"}));
  EXPECT_FALSE(follower_->hears());
  silent_ = false;
  EXPECT_TRUE(wait_until([&] { return told().size() >= 2; }));
  EXPECT_EQ(told()[1], "/data:b");
}

// Each request has the deadline of the lease.
TEST_F(ChangeFollowerTest, SeveralThatDoNotAnswerShareTheTime) {
  const Clock::time_point begun = Clock::now();
  follow([](const Question&) { return silence(); }, hours(1));
  first_questions(3);
  for (const Clock::time_point deadline : deadlines()) {
    EXPECT_GE(deadline, begun + hours(1));
    EXPECT_EQ(deadline, deadlines().front());
  }
}

TEST_F(ChangeFollowerTest, BeforeItsTimeHasPassedAllIsBelieved) {
  follow([](const Question&) { return silence(); }, hours(1));
  first_questions(5);
  EXPECT_TRUE(told().empty());
  EXPECT_TRUE(follower_->hears());
}

}  // namespace
}  // namespace leat
