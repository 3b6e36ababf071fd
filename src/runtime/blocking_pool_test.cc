// SPDX-License-Identifier: Apache-2.0
#include "runtime/blocking_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/executor.h"

namespace leat {
namespace {

using ::testing::HasSubstr;

class BlockingPoolTest : public ::testing::Test {
 protected:
  ~BlockingPoolTest() override {
    wake();
    pool_ = nullptr;
    // Threads left behind end now; their results are not wanted.
    while (threads_ > 0) std::this_thread::yield();
  }

  void wake() {
    if (!std::exchange(woken_, true)) wake_.set_value();
  }
  // Hangs until wake().
  std::future<Result<int>> hang() {
    std::future<void> begun;
    auto call = [until = until_, began = note_begun(begun)]() mutable -> Result<int> {
      began.set_value();
      until.wait();
      return 1;
    };
    auto answer = later(pool_->run(std::move(call)));
    begun.wait();
    return answer;
  }
  static std::promise<void> note_begun(std::future<void>& begun) {
    std::promise<void> promise;
    begun = promise.get_future();
    return promise;
  }
  template <class T>
  std::future<T> later(Task<T> task) {
    return boost::asio::co_spawn(executor_->any(), std::move(task), boost::asio::use_future);
  }
  static Result<int> seven() { return 7; }

  Result<> start(std::move_only_function<void()> body) {
    if (threads_left_-- <= 0) return error(StatusCode::kUnavailable, "no more threads");
    ++threads_;
    ++started_;
    std::thread([this, body = std::move(body)]() mutable {
      body();
      body = nullptr;
      --threads_;
    }).detach();
    return {};
  }

  std::promise<void> wake_;
  bool woken_ = false;
  std::shared_future<void> until_ = wake_.get_future().share();
  std::atomic<int> threads_ = 0, started_ = 0, threads_left_ = 1000;
  std::optional<Executor> executor_{ExecutorOptions{.threads = 2}};
  std::unique_ptr<BlockingPool> pool_ = std::make_unique<BlockingPool>(
      "leat-test", 2, [this](const std::string&, std::move_only_function<void()> body) {
        return start(std::move(body));
      });
};

TEST_F(BlockingPoolTest, ThreadsStartOnDemandUpToTheBound) {
  EXPECT_EQ(started_, 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(executor_->block_on(pool_->run(seven)).value(), 7);
  }
  auto first = hang(), second = hang();
  std::vector<std::future<Result<int>>> waiting;
  for (int i = 0; i < 20; ++i) waiting.push_back(later(pool_->run(seven)));
  EXPECT_EQ(started_, 2);
  EXPECT_EQ(waiting[0].wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  wake();
  for (auto& answer : waiting) EXPECT_EQ(answer.get().value(), 7);
  EXPECT_EQ(first.get().value() + second.get().value(), 2);
  EXPECT_EQ(started_, 2);
}

TEST_F(BlockingPoolTest, ShutDownRejectsQueuedCallsOnly) {
  auto first = hang(), second = hang();
  auto waiting = later(pool_->run(seven));
  pool_->shut_down();
  EXPECT_EQ(waiting.get().error().code(), StatusCode::kUnavailable);
  EXPECT_EQ(executor_->block_on(pool_->run(seven)).error().code(), StatusCode::kUnavailable);
  wake();
  EXPECT_EQ(first.get().value(), 1);
  EXPECT_EQ(second.get().value(), 1);
}

TEST_F(BlockingPoolTest, DestructorDoesNotWaitForHangingCalls) {
  auto answer = hang();
  pool_ = nullptr;
  EXPECT_EQ(answer.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  wake();
  EXPECT_EQ(answer.get().value(), 1);
}

TEST_F(BlockingPoolTest, ResultAfterTheExecutorIsDropped) {
  auto first = hang(), second = hang();
  pool_ = nullptr;
  executor_ = std::nullopt;
  wake();
  while (threads_ > 0) std::this_thread::yield();
}

TEST_F(BlockingPoolTest, FailedThreadStartIsAnErrorWithoutThread) {
  threads_left_ = 0;
  auto refused = executor_->block_on(pool_->run(seven));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("no more threads"));
  threads_left_ = 1;
  auto first = hang();
  auto waiting = later(pool_->run(seven));  // for the only thread
  wake();
  EXPECT_EQ(waiting.get().value(), 7);
}

Task<> set(std::shared_ptr<std::atomic<bool>> done) {
  *done = true;
  co_return;
}

TEST(Spawner, StartsNothingAfterTheExecutor) {
  std::optional<Executor> executor{std::in_place};
  const Spawner spawner(*executor);
  auto done = std::make_shared<std::atomic<bool>>(false);
  EXPECT_TRUE(spawner.spawn(set(done)));
  while (!*done) std::this_thread::yield();
  executor = std::nullopt;
  *done = false;
  EXPECT_FALSE(spawner.spawn(set(done)));
  EXPECT_FALSE(*done);
  EXPECT_EQ(done.use_count(), 1);
}

}  // namespace
}  // namespace leat
