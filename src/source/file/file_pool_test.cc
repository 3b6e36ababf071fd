// SPDX-License-Identifier: Apache-2.0
#include "source/file/file_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "runtime/executor.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class FilePoolTest : public ::testing::Test {
 protected:
  ~FilePoolTest() override {
    if (!woken_) wake_.set_value();
  }
  // A call that hangs until wake().
  Result<int> hang(Context context) {
    auto call = [until = until_]() -> Result<int> {
      until.wait();
      return 1;
    };
    return executor_->block_on(pool_.run(std::move(context), "a read", call));
  }
  void wake() {
    wake_.set_value();
    woken_ = true;
  }

  std::promise<void> wake_;
  bool woken_ = false;
  std::shared_future<void> until_ = wake_.get_future().share();
  FilePool pool_{2};
  std::optional<Executor> executor_{std::in_place};
};

TEST_F(FilePoolTest, ACallThatHangsIsLeftBehindByItsContext) {
  auto late = hang(Context::background().with_timeout(5ms));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), StatusCode::kTimedOut);
  std::stop_source stop;
  std::jthread canceller([&] { stop.request_stop(); });
  auto cancelled = hang(Context::background().with_cancel(stop.get_token()));
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code(), StatusCode::kCancelled);
  executor_.reset();  // does not wait for hanging calls
}

TEST_F(FilePoolTest, CallersTimeOutWhileAllThreadsHang) {
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(hang(Context::background().with_timeout(1ms)));
  auto call = []() -> Result<int> { return 7; };
  auto waited =
      executor_->block_on(pool_.run(Context::background().with_timeout(5ms), "a read", call));
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code(), StatusCode::kTimedOut);
  EXPECT_THAT(waited.error().to_string(), HasSubstr("calls before this one"));
  wake();
  EXPECT_EQ(executor_->block_on(pool_.run(Context::background(), "a read", call)).value(), 7);
}

}  // namespace
}  // namespace leat
