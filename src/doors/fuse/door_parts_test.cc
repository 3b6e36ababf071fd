// SPDX-License-Identifier: Apache-2.0
// Parts of the FUSE server that need no kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <latch>
#include <thread>

#include "doors/fuse/connection/mount_point.h"
#include "doors/fuse/error_numbers.h"
#include "doors/fuse/invalidation_thread.h"
#include "doors/fuse/log_limit.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

// A fake kernel that takes a name only when allowed.
class SlowKernel {
 public:
  InvalidationThread::Kernel face() {
    return {.tell = [this](const Invalidation& name) { tell(name.name); },
            .forget_all = [this] { tell("ALL"); }};
  }
  void let(int count) {
    std::lock_guard lock(mutex_);
    let_ += count;
    changed_.notify_all();
  }
  void await_arrivals(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= count; });
  }
  void await_told(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return told_.size() >= count; });
  }
  std::vector<std::string> told() {
    std::lock_guard lock(mutex_);
    return told_;
  }

 private:
  void tell(const std::string& name) {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return let_ > 0; });
    --let_;
    told_.push_back(name);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t arrived_ = 0;
  int let_ = 0;
  std::vector<std::string> told_;
};

Invalidation patient_name(std::string name) {
  return {.parent = 1, .name = std::move(name), .node = 3, .patient = true};
}
Invalidation patient_belief(std::string name) {
  return {.parent = 1, .name = std::move(name), .node = 3, .only_belief = true, .patient = true};
}

TEST(InvalidationThread, TellsEachNameInOrderAndForgetsAllWhenThereAreTooMany) {
  SlowKernel kernel;
  InvalidationThread thread(kernel.face(), 3);
  thread.push({1, "first", 2});
  kernel.await_arrivals(1);
  for (const char* name : {"a", "b", "c", "d", "e"}) thread.push({1, name, 3});
  EXPECT_EQ(thread.pending(), 1u);
  kernel.let(2);
  kernel.await_told(2);  // all names are forgotten
  kernel.let(100);
  thread.push({1, "g", 3});
  thread.push({1, "last", 3});
  kernel.await_told(4);
  thread.stop();
  thread.push({1, "too late", 3});
  EXPECT_THAT(kernel.told(), ElementsAre("first", "ALL", "g", "last"));
}

TEST(InvalidationThread, APatientOneWaitsForRoomAndIsNotLostWhenAllNamesAreForgotten) {
  SlowKernel kernel;
  InvalidationThread thread(kernel.face(), 3);
  thread.push({1, "first", 2});
  kernel.await_arrivals(1);
  thread.push(patient_belief("p1"));
  thread.push({1, "a", 3});
  thread.push({1, "b", 3});
  std::thread waiting([&] {
    thread.push(patient_belief("p2"));
    thread.push(patient_belief("p3"));
  });
  thread.push({1, "c", 3});  // one too many: plain names are dropped, `only_belief` ones stay
  kernel.let(100);
  waiting.join();
  kernel.await_told(5);
  thread.stop();
  EXPECT_THAT(kernel.told(), ElementsAre("first", "ALL", "p1", "p2", "p3"));
}

TEST(InvalidationThread, APatientOneGoesOnWhenTheNamesBeforeItGaveWay) {
  SlowKernel kernel;
  InvalidationThread thread(kernel.face(), 2);
  thread.push(patient_name("first"));
  kernel.await_arrivals(1);
  thread.push(patient_name("a"));
  thread.push(patient_name("b"));
  std::thread waiting([&] { thread.push(patient_name("c")); });
  thread.push({1, "impatient", 3});  // all become one, so there is room, though nothing was sent
  kernel.let(100);
  waiting.join();
  EXPECT_TRUE(thread.flush());
  thread.stop();
  EXPECT_THAT(kernel.told().front(), "first");
  EXPECT_EQ(std::ranges::count(kernel.told(), "ALL"), 1);
}

TEST(InvalidationThread, AFlushEndsWhenAllWasToldAndNotBefore) {
  SlowKernel kernel;
  InvalidationThread thread(kernel.face(), 100, 100ms);
  EXPECT_TRUE(thread.flush()) << "there was nothing";
  for (const char* name : {"a", "b", "c"}) thread.push({1, name, 3});
  EXPECT_FALSE(thread.flush()) << "the kernel takes nothing";
  std::thread flushing([&] {
    while (!thread.flush()) {
    }
    EXPECT_THAT(kernel.told(), ElementsAre("a", "b", "c"));
  });
  kernel.let(3);
  flushing.join();
  thread.stop();
}

TEST(InvalidationThread, AKernelThatTakesNothingIsNotWaitedForForEver) {
  SlowKernel kernel;
  InvalidationThread thread(kernel.face(), 2, 50ms);
  thread.push({1, "first", 2});
  kernel.await_arrivals(1);
  for (int i = 0; i < 5; ++i) thread.push(patient_belief("p"));
  for (int i = 0; i < 5; ++i) thread.push(patient_name("n"));
  kernel.let(100);
  while (!thread.flush()) {
  }
  thread.stop();
  EXPECT_EQ(std::ranges::count(kernel.told(), "p"), 5) << "what is said of belief is kept";
  EXPECT_EQ(std::ranges::count(kernel.told(), "ALL"), 1);
}

TEST(InvalidationThread, NamesThatGaveWayAreNotTakenForWhatIsStillToBeTold) {
  SlowKernel kernel;
  InvalidationThread thread(kernel.face(), 3, 1h);
  thread.push({1, "first", 2});
  kernel.await_arrivals(1);
  thread.push(patient_belief("p"));
  std::jthread flushing([&] {
    EXPECT_TRUE(thread.flush());
    EXPECT_EQ(std::ranges::count(kernel.told(), "p"), 1);
  });
  std::this_thread::sleep_for(20ms);  // so that it waits for two
  for (const char* name : {"a", "b", "c"}) thread.push({1, name, 3});
  kernel.let(1);
  kernel.await_told(1);
  std::this_thread::sleep_for(20ms);
  kernel.let(100);
}

TEST(InvalidationThread, WhoFlushesCanGiveUp) {
  SlowKernel kernel;
  InvalidationThread thread(kernel.face(), 2, 1h);
  thread.push({1, "first", 2});
  kernel.await_arrivals(1);
  std::stop_source given_up;
  std::jthread flushing([&] { EXPECT_FALSE(thread.flush(given_up.get_token())); });
  given_up.request_stop();
  flushing.join();
  EXPECT_FALSE(thread.flush(given_up.get_token()));
  kernel.let(1);
  EXPECT_TRUE(thread.flush());
}

TEST(InvalidationThread, TheEndLetsGoOfAPatientOne) {
  std::latch arrived(1), let_go(1);
  InvalidationThread thread({.tell =
                                 [&](const Invalidation&) {
                                   arrived.count_down();
                                   let_go.wait();
                                 },
                             .forget_all = [] {}},
                            1);
  thread.push({1, "first", 2});
  arrived.wait();
  thread.push({1, "second", 2});
  std::thread waiting([&] { thread.push(patient_belief("p")); });
  std::thread ending([&] { thread.stop(); });
  waiting.join();
  let_go.count_down();
  ending.join();
}

TEST(LogLimit, AdmitsSoManyASecondAndCountsTheRest) {
  Clock::time_point now = Clock::now();
  LogLimit limit(2, [&now] { return now; });
  EXPECT_EQ(limit.admit(), 0u);
  EXPECT_EQ(limit.admit(), 0u);
  EXPECT_EQ(limit.admit(), std::nullopt);
  EXPECT_EQ(limit.admit(), std::nullopt);
  now += 1s;
  EXPECT_EQ(limit.admit(), 2u);
  EXPECT_EQ(limit.admit(), 0u);
}

TEST(MountPoint, DeviceIsThatOfTheNewestMountAndNamesAreUnescaped) {
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
  EXPECT_EQ(to_errno(StatusCode::kChanged), ESTALE);
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
