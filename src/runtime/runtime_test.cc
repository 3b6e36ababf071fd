// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <latch>
#include <thread>

#include "base/id128.h"
#include "runtime/disk.h"
#include "runtime/executor.h"
#include "runtime/semaphore.h"
#include "runtime/shared_promise.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

Task<Result<int>> wait_for(std::shared_ptr<SharedPromise<int>> shared, Context context) {
  Result<int> value = co_await shared->wait(context, "the answer");
  co_return value;
}

Task<> count_when_set(std::shared_ptr<SharedPromise<int>> shared, std::atomic<int>* sum,
                      std::latch* done) {
  Result<int> value = co_await shared->wait(Context::background(), "the answer");
  sum->fetch_add(*value);
  done->count_down();
}

TEST(SharedPromise, WakesEveryWaiterOnce) {
  Executor executor;
  for (int round = 0; round < 200; ++round) {
    auto shared = SharedPromise<int>::make();
    std::atomic<int> sum = 0;
    std::latch done(20);
    std::thread setter([&] { shared->set(1); });
    for (int i = 0; i < 20; ++i) executor.spawn(count_when_set(shared, &sum, &done));
    done.wait();
    setter.join();
    EXPECT_EQ(sum, 20);
  }
}

TEST(SharedPromise, DeadlineAndCancellationEndOneWait) {
  Executor executor;
  auto shared = SharedPromise<int>::make();
  auto late = executor.block_on(wait_for(shared, Context::background().with_timeout(5ms)));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), StatusCode::kTimedOut);

  std::stop_source stop;
  std::thread canceller([&] { stop.request_stop(); });
  auto cancelled =
      executor.block_on(wait_for(shared, Context::background().with_cancel(stop.get_token())));
  canceller.join();
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code(), StatusCode::kCancelled);

  shared->set(7);
  EXPECT_EQ(executor.block_on(wait_for(shared, Context::background())).value(), 7);
}

TEST(SleepFor, EndsWithTimeDeadlineOrCancellation) {
  Executor executor;
  EXPECT_TRUE(executor.block_on(sleep_for(Context::background(), 1ms)));
  EXPECT_TRUE(executor.block_on(sleep_for(Context::background(), -1ms)));
  auto late = executor.block_on(sleep_for(Context::background().with_timeout(2ms), 1h));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), StatusCode::kTimedOut);
  // A cancellation at the start of the pause must not be lost.
  for (int round = 0; round < 500; ++round) {
    std::stop_source stop;
    std::latch both(2);
    std::thread canceller([&] {
      both.arrive_and_wait();
      stop.request_stop();
    });
    both.arrive_and_wait();
    auto cancelled =
        executor.block_on(sleep_for(Context::background().with_cancel(stop.get_token()), 1h));
    canceller.join();
    ASSERT_FALSE(cancelled);
    EXPECT_EQ(cancelled.error().code(), StatusCode::kCancelled);
  }
}

Task<> hold_a_permit(Semaphore* semaphore, std::atomic<int>* inside, std::atomic<int>* most,
                     std::latch* done) {
  {
    auto permit = co_await semaphore->acquire(Context::background(), 1, "a permit");
    int now = inside->fetch_add(1) + 1;
    int seen = most->load();
    while (now > seen && !most->compare_exchange_weak(seen, now)) {
    }
    auto pause = co_await sleep_for(Context::background(), 100us);
    EXPECT_TRUE(pause);
    inside->fetch_sub(1);
  }
  done->count_down();
}

TEST(Semaphore, NeverExceedsTheLimitAndIsFair) {
  Executor executor({.threads = 4});
  Semaphore semaphore(3);
  std::atomic<int> inside = 0, most = 0;
  std::latch done(100);
  for (int i = 0; i < 100; ++i) executor.spawn(hold_a_permit(&semaphore, &inside, &most, &done));
  done.wait();
  EXPECT_LE(most, 3);
  EXPECT_EQ(semaphore.in_use(), 0u);
}

Task<Result<uint64_t>> acquire_and_drop(Semaphore* semaphore, Context context, uint64_t count) {
  auto permit = co_await semaphore->acquire(context, count, "a permit");
  if (!permit) co_return Error(permit.error());
  co_return semaphore->in_use();
}

TEST(Semaphore, CancelledWaiterReturnsItsShare) {
  Executor executor;
  Semaphore semaphore(4);
  EXPECT_EQ(executor.block_on(acquire_and_drop(&semaphore, Context::background(), 100)).value(),
            4u);
  auto held = semaphore.try_acquire(4);
  ASSERT_TRUE(held);
  auto late =
      executor.block_on(acquire_and_drop(&semaphore, Context::background().with_timeout(2ms), 1));
  EXPECT_EQ(late.error().code(), StatusCode::kTimedOut);
  held.reset();
  EXPECT_TRUE(semaphore.try_acquire(4));
}

// Large parts bypass the page cache except for partial pages; readers see all of it.
TEST(Disk, LargeWritesOfAnyAlignmentAreRead) {
  Executor executor;
  auto disk = make_disk(executor);
  std::string path = testing::TempDir() + "/leat_disk_large_test_" + Id128::random().to_hex();
  std::string expected;
  File file = disk->open(path, O_RDWR | O_CREAT | O_TRUNC, 0600).value();
  unsigned round = 0;
  for (size_t size : {3u << 20, (3u << 20) + 123, (1u << 20) + 4095, 8192u, 2u << 20}) {
    Buffer buffer(size);
    for (size_t i = 0; i < size; ++i) buffer.data()[i] = std::byte(i * 7 + round);
    Bytes data = std::move(buffer);
    ASSERT_TRUE(
        executor.block_on(disk->write(Context::background(), file.fd(), data, expected.size())));
    expected += data.to_string();
    ++round;
    Buffer into(expected.size() + 1);
    auto got = executor.block_on(disk->read(Context::background(), file.fd(), into.span(), 0));
    ASSERT_TRUE(got);
    into.truncate(*got);
    EXPECT_TRUE(Bytes(std::move(into)).to_string() == expected) << size;
  }
  EXPECT_TRUE(disk->unlink(path));
}

TEST(Disk, WrittenBytesAreRead) {
  Executor executor;
  auto disk = make_disk(executor);
  std::string path = testing::TempDir() + "/leat_disk_test_" + Id128::random().to_hex();
  File file = disk->open(path, O_RDWR | O_CREAT | O_TRUNC, 0600).value();
  Bytes data = Bytes::copy_of(std::string(100000, 'x'));
  data.append(Bytes::copy_of(std::string(50000, 'y')));
  ASSERT_TRUE(executor.block_on(disk->write(Context::background(), file.fd(), data, 10)));
  Buffer into(200000);
  auto got = executor.block_on(disk->read(Context::background(), file.fd(), into.span(), 10));
  ASSERT_TRUE(got);
  ASSERT_EQ(*got, 150000u);
  into.truncate(*got);
  EXPECT_EQ(Bytes(std::move(into)).to_string(), data.to_string());
  EXPECT_TRUE(executor.block_on(disk->sync(Context::background(), file.fd())));
  Buffer hot(1000);
  EXPECT_EQ(disk->try_read(file.fd(), hot.span(), 10), 1000u);
  EXPECT_EQ(disk->try_read(file.fd(), hot.span(), 1 << 30), std::nullopt);
  EXPECT_TRUE(disk->unlink(path));
  EXPECT_EQ(disk->unlink(path).error().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace leat
