// SPDX-License-Identifier: Apache-2.0
// Parts of the FUSE server that need no kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <latch>
#include <thread>

#include "frontends/fuse/connection/mount_point.h"
#include "frontends/fuse/error_numbers.h"
#include "frontends/fuse/invalidation_thread.h"
#include "frontends/fuse/log_rate_limiter.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

// A fake kernel that takes a name only when allowed.
class SlowKernel {
 public:
  InvalidationThread::Kernel callbacks() {
    return {.invalidate = [this](const KernelInvalidation& name) { send(name.name); },
            .invalidate_all = [this] { send("ALL"); }};
  }
  void allow(int count) {
    std::lock_guard lock(mutex_);
    allowed_ += count;
    changed_.notify_all();
  }
  void wait_for_arrivals(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= count; });
  }
  void wait_for_sent(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return sent_.size() >= count; });
  }
  std::vector<std::string> sent() {
    std::lock_guard lock(mutex_);
    return sent_;
  }

 private:
  void send(const std::string& name) {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return allowed_ > 0; });
    --allowed_;
    sent_.push_back(name);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t arrived_ = 0;
  int allowed_ = 0;
  std::vector<std::string> sent_;
};

KernelInvalidation blocking_name(std::string name) {
  return {.parent = 1, .name = std::move(name), .node = 3, .may_block = true};
}
KernelInvalidation blocking_expiry(std::string name) {
  return {.parent = 1, .name = std::move(name), .node = 3, .expire_only = true, .may_block = true};
}

TEST(InvalidationThread, SendsInOrderAndInvalidatesAllOnOverflow) {
  SlowKernel kernel;
  InvalidationThread thread(kernel.callbacks(), 3);
  thread.push({1, "first", 2});
  kernel.wait_for_arrivals(1);
  for (const char* name : {"a", "b", "c", "d", "e"}) thread.push({1, name, 3});
  EXPECT_EQ(thread.pending(), 1u);
  kernel.allow(2);
  kernel.wait_for_sent(2);  // all names are invalidated
  kernel.allow(100);
  thread.push({1, "g", 3});
  thread.push({1, "last", 3});
  kernel.wait_for_sent(4);
  thread.stop();
  thread.push({1, "too late", 3});
  EXPECT_THAT(kernel.sent(), ElementsAre("first", "ALL", "g", "last"));
}

TEST(InvalidationThread, BlockingPushIsNotLostOnOverflow) {
  SlowKernel kernel;
  InvalidationThread thread(kernel.callbacks(), 3);
  thread.push({1, "first", 2});
  kernel.wait_for_arrivals(1);
  thread.push(blocking_expiry("p1"));
  thread.push({1, "a", 3});
  thread.push({1, "b", 3});
  std::thread waiting([&] {
    thread.push(blocking_expiry("p2"));
    thread.push(blocking_expiry("p3"));
  });
  thread.push({1, "c", 3});  // one too many: plain names are dropped, `expire_only` ones stay
  kernel.allow(100);
  waiting.join();
  kernel.wait_for_sent(5);
  thread.stop();
  EXPECT_THAT(kernel.sent(), ElementsAre("first", "ALL", "p1", "p2", "p3"));
}

TEST(InvalidationThread, BlockingPushContinuesAfterOverflow) {
  SlowKernel kernel;
  InvalidationThread thread(kernel.callbacks(), 2);
  thread.push(blocking_name("first"));
  kernel.wait_for_arrivals(1);
  thread.push(blocking_name("a"));
  thread.push(blocking_name("b"));
  std::thread waiting([&] { thread.push(blocking_name("c")); });
  thread.push({1, "non-blocking", 3});  // all become one, so there is room, though nothing was sent
  kernel.allow(100);
  waiting.join();
  EXPECT_TRUE(thread.flush());
  thread.stop();
  EXPECT_THAT(kernel.sent().front(), "first");
  EXPECT_EQ(std::ranges::count(kernel.sent(), "ALL"), 1);
}

TEST(InvalidationThread, FlushEndsWhenAllIsSent) {
  SlowKernel kernel;
  InvalidationThread thread(kernel.callbacks(), 100, 100ms);
  EXPECT_TRUE(thread.flush()) << "there was nothing";
  for (const char* name : {"a", "b", "c"}) thread.push({1, name, 3});
  EXPECT_FALSE(thread.flush()) << "the kernel takes nothing";
  std::thread flushing([&] {
    while (!thread.flush()) {
    }
    EXPECT_THAT(kernel.sent(), ElementsAre("a", "b", "c"));
  });
  kernel.allow(3);
  flushing.join();
  thread.stop();
}

TEST(InvalidationThread, StuckKernelTimesOut) {
  SlowKernel kernel;
  InvalidationThread thread(kernel.callbacks(), 2, 50ms);
  thread.push({1, "first", 2});
  kernel.wait_for_arrivals(1);
  for (int i = 0; i < 5; ++i) thread.push(blocking_expiry("p"));
  for (int i = 0; i < 5; ++i) thread.push(blocking_name("n"));
  kernel.allow(100);
  while (!thread.flush()) {
  }
  thread.stop();
  EXPECT_EQ(std::ranges::count(kernel.sent(), "p"), 5) << "expirations are kept";
  EXPECT_EQ(std::ranges::count(kernel.sent(), "ALL"), 1);
}

TEST(InvalidationThread, FlushDoesNotCountOverflowedNames) {
  SlowKernel kernel;
  InvalidationThread thread(kernel.callbacks(), 3, 1h);
  thread.push({1, "first", 2});
  kernel.wait_for_arrivals(1);
  thread.push(blocking_expiry("p"));
  std::jthread flushing([&] {
    EXPECT_TRUE(thread.flush());
    EXPECT_EQ(std::ranges::count(kernel.sent(), "p"), 1);
  });
  std::this_thread::sleep_for(20ms);  // so that it waits for two
  for (const char* name : {"a", "b", "c"}) thread.push({1, name, 3});
  kernel.allow(1);
  kernel.wait_for_sent(1);
  std::this_thread::sleep_for(20ms);
  kernel.allow(100);
}

TEST(InvalidationThread, FlushCanBeCancelled) {
  SlowKernel kernel;
  InvalidationThread thread(kernel.callbacks(), 2, 1h);
  thread.push({1, "first", 2});
  kernel.wait_for_arrivals(1);
  std::stop_source cancel;
  std::jthread flushing([&] { EXPECT_FALSE(thread.flush(cancel.get_token())); });
  cancel.request_stop();
  flushing.join();
  EXPECT_FALSE(thread.flush(cancel.get_token()));
  kernel.allow(1);
  EXPECT_TRUE(thread.flush());
}

TEST(InvalidationThread, StopReleasesABlockingPush) {
  std::latch arrived(1), let_go(1);
  InvalidationThread thread({.invalidate =
                                 [&](const KernelInvalidation&) {
                                   arrived.count_down();
                                   let_go.wait();
                                 },
                             .invalidate_all = [] {}},
                            1);
  thread.push({1, "first", 2});
  arrived.wait();
  thread.push({1, "second", 2});
  std::thread waiting([&] { thread.push(blocking_expiry("p")); });
  std::thread ending([&] { thread.stop(); });
  waiting.join();
  let_go.count_down();
  ending.join();
}

TEST(LogRateLimiter, AdmitsSoManyASecondAndCountsTheRest) {
  Clock::time_point now = Clock::now();
  LogRateLimiter limit(2, [&now] { return now; });
  EXPECT_EQ(limit.admit(), 0u);
  EXPECT_EQ(limit.admit(), 0u);
  EXPECT_EQ(limit.admit(), std::nullopt);
  EXPECT_EQ(limit.admit(), std::nullopt);
  now += 1s;
  EXPECT_EQ(limit.admit(), 2u);
  EXPECT_EQ(limit.admit(), 0u);
}

TEST(MountPoint, DeviceIsOfNewestMountAtUnescapedPath) {
  constexpr std::string_view kTable =
      "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "40 22 0:41 / /mnt/a\\040b rw,nosuid - fuse.leat s3://b rw\n"
      "41 22 0:42 / /mnt/ab rw - fuse.leat s3://b rw\n"
      "42 40 0:43 / /mnt/a\\040b rw - fuse.leat s3://b rw\n";
  const std::vector<MountinfoLine> mounts = parse_mountinfo(kTable);
  EXPECT_EQ(device_of_mount(mounts, "/mnt/a b"), "0:43");
  EXPECT_EQ(device_of_mount(mounts, "/mnt/ab"), "0:42");
  EXPECT_EQ(device_of_mount(mounts, "/mnt"), "");
}

TEST(MountPoint, LinesAreReadWithAndWithoutOptionalFields) {
  EXPECT_THAT(parse_mountinfo("22 1 8:1 / / rw shared:1 master:2 - ext4 /dev/sda1 rw\n"
                              "40 22 0:41 / /a\\040b rw - fuse.leat leat:s3://b rw\n\n"),
              ElementsAre(MountinfoLine{"8:1", "/", "ext4", "/dev/sda1"},
                          MountinfoLine{"0:41", "/a\\040b", "fuse.leat", "leat:s3://b"}));
}

TEST(MountPoint, SaysWhyADirectoryCannotBeMountedOn) {
  EXPECT_EQ(resolve_mountpoint("/no/such/place").error().code(), StatusCode::kNotFound);
  EXPECT_EQ(resolve_mountpoint("/proc/self/status").error().code(), StatusCode::kNotDirectory);
  EXPECT_EQ(unmount_path("/no/such/place", true).error().code(), StatusCode::kNotFound);
}

TEST(ErrorNumbers, ProgramsSeeWhatTheyCanActOn) {
  EXPECT_EQ(to_errno(StatusCode::kNotFound), ENOENT);
  EXPECT_EQ(to_errno(StatusCode::kVersionChanged), ESTALE);
  EXPECT_EQ(to_errno(StatusCode::kReadOnly), EROFS);
  EXPECT_EQ(to_errno(StatusCode::kPermissionDenied), EACCES);
  EXPECT_EQ(to_errno(StatusCode::kCancelled), EINTR);
  EXPECT_EQ(to_errno(StatusCode::kTimedOut), ETIMEDOUT);
  EXPECT_EQ(to_errno(StatusCode::kUnavailable), EIO);
  EXPECT_FALSE(worth_logging(StatusCode::kNotFound));
  EXPECT_TRUE(worth_logging(StatusCode::kUnavailable));
}

}  // namespace
}  // namespace leat
