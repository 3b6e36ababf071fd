// SPDX-License-Identifier: Apache-2.0
// A hanging cache disk delays nothing else: not the other directories, not a start, not the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "cache/multi_dir/hanging_disk_test.h"
#include "cache/multi_dir/multi_dir_store.h"

namespace leat {
namespace {

using testing::HasSubstr;

// Nothing hangs by the clock, however slow the machine: the tests pass a later `now`.
constexpr HealthTimes kTimes = {.hang_timeout = std::chrono::minutes(5),
                                .call_hang_timeout = std::chrono::minutes(5),
                                .drain_timeout = std::chrono::minutes(5),
                                .probe_interval = std::chrono::milliseconds(20),
                                .probe_backoff_min = std::chrono::milliseconds(20),
                                .probe_backoff_max = std::chrono::milliseconds(100)};
constexpr auto kAhead = std::chrono::minutes(6);

// Returns the number of disk threads in this process.
int disk_threads() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    count += name == "leat-cache" ? 1 : 0;
  }
  return count;
}

class HangTest : public testing::Test {
 protected:
  ~HangTest() override {
    if (store_ != nullptr) end();
    hang_->release();
  }

  // Starts a store over `directories`, of which the first can hang; other disks are made only after
  // a hang.
  std::future<Result<>> starting(std::vector<std::string> directories, HealthTimes times = kTimes) {
    executor_.emplace(ExecutorOptions{.threads = 2});
    std::vector<PageStoreOptions> options;
    for (const std::string& path : directories) options.push_back(TestStore::options(path));
    auto made = std::make_shared<size_t>(0);
    auto make = [this, made, count = directories.size()]() -> std::shared_ptr<Disk> {
      auto disk = std::make_shared<FaultyDisk>(make_disk(*executor_));
      const size_t number = (*made)++;
      if (number != 0 && number < count) return disk;
      return std::make_shared<HangingDisk>(disk, hang_);
    };
    store_ = std::make_unique<MultiDirStore>(std::move(options), *executor_, make, times);
    return later(store_->start(Context::background()));
  }
  void start(std::vector<std::string> directories, HealthTimes times = kTimes) {
    Result<> started = starting(std::move(directories), times).get();
    ASSERT_TRUE(started) << started.error().to_string();
  }
  // The store closes, and its executor ends, while calls hang.
  void end() {
    std::future<void> closed = later(store_->close());
    while (closed.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
      if (hang_->hanging() > 0) poll_later();
    }
    store_ = nullptr;
    executor_ = std::nullopt;
  }
  template <class T>
  std::future<T> later(Task<T> task) {
    return boost::asio::co_spawn(executor_->any(), std::move(task), boost::asio::use_future);
  }
  std::future<Result<Bytes>> reading(const FileRefPtr& ref) {
    return later(store_->read(Context::background(), ref, {0, ref->size}));
  }
  std::future<Result<>> writing(const FileRefPtr& ref) {
    return later(store_->write(Context::background(), ref, 0, content(*ref, {0, ref->size})));
  }
  bool holds(const FileRefPtr& ref) {
    Result<Bytes> bytes = reading(ref).get();
    if (bytes) EXPECT_TRUE(same(*bytes, content(ref))) << ref->key;
    return bytes.has_value();
  }
  void flush() { ASSERT_TRUE(later(store_->flush(Context::background())).get()); }
  void poll_later() { store_->poll_health(0, Clock::now() + kAhead); }
  DirectoryState state(size_t directory) { return store_->directories()[directory].state; }
  bool comes_to(size_t directory, DirectoryState wanted) {
    for (int i = 0; i < 1000; ++i) {
      if (state(directory) == wanted) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // its probes take time
    }
    return false;
  }
  uint64_t files(size_t directory) { return store_->directories()[directory].stats.files; }
  // Writes files of 256 KiB that go to that directory.
  std::vector<FileRefPtr> write_files(size_t directory, size_t count, const std::string& prefix) {
    std::vector<FileRefPtr> refs;
    for (int i = 0; refs.size() < count; ++i) {
      auto ref = object(fmt::format("{}/{}", prefix, i), 256 * kKiB);
      const uint64_t before = files(directory);
      EXPECT_TRUE(writing(ref).get());
      if (files(directory) > before) refs.push_back(ref);
    }
    return refs;
  }
  // After release(): waits until the threads of given-up disks have returned and ended.
  static void wait_for_threads_to_end() {
    while (disk_threads() > 0) std::this_thread::yield();
  }

  TempDirectory a_, b_;
  std::shared_ptr<Hang> hang_ = std::make_shared<Hang>();
  std::optional<Executor> executor_;
  std::unique_ptr<MultiDirStore> store_;
};

TEST_F(HangTest, TheOtherDirectoriesReadAndWriteMeanwhile) {
  start({a_.path(), b_.path()});
  const auto of_a = write_files(0, 12, "a"), of_b = write_files(1, 4, "b");
  const auto more_of_b = write_files(1, 4, "more");
  for (const FileRefPtr& ref : more_of_b) ASSERT_GT(store_->drop(ref->id), 0u);
  flush();
  hang_->begin(Hang::everything);
  std::vector<std::future<Result<Bytes>>> reads;
  for (const FileRefPtr& ref : of_a) reads.push_back(reading(ref));
  hang_->wait_for(8);  // all of its threads
  for (const FileRefPtr& ref : of_b) EXPECT_TRUE(holds(ref));
  for (const FileRefPtr& ref : more_of_b) {
    EXPECT_TRUE(writing(ref).get());
    EXPECT_TRUE(holds(ref));
  }
  EXPECT_EQ(state(0), DirectoryState::kNormal);  // too short by the clock
  for (auto& read : reads) {
    EXPECT_EQ(read.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  }
  poll_later();
  EXPECT_EQ(state(0), DirectoryState::kDown);
  for (auto& read : reads) EXPECT_EQ(read.get().error().code(), StatusCode::kNotFound);
  // Its objects are cached again, elsewhere.
  for (const FileRefPtr& ref : of_a) {
    EXPECT_TRUE(writing(ref).get());
    EXPECT_TRUE(holds(ref));
  }
}

TEST_F(HangTest, AWriteIsRefusedAndTheNextGoesElsewhere) {
  start({a_.path(), b_.path()});
  const auto of_a = write_files(0, 1, "a");
  ASSERT_GT(store_->drop(of_a[0]->id), 0u);
  flush();
  const uint64_t of_b = files(1);
  // Matches the creation of its file and no other call.
  hang_->begin([](Hang::Call call, const std::string& path) {
    return call == Hang::Call::kMetadata && path.ends_with(".data");
  });
  std::future<Result<>> write = writing(of_a[0]);
  hang_->wait_for(1);
  poll_later();
  Result<> refused = write.get();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::kUnavailable);
  EXPECT_THAT(refused.error().message(), HasSubstr(a_.path()));
  EXPECT_TRUE(writing(of_a[0]).get());
  EXPECT_TRUE(holds(of_a[0]));
  EXPECT_EQ(files(1), of_b + 1);
  end();
  hang_->release();
  wait_for_threads_to_end();
}

TEST_F(HangTest, OnlyDirectoryHangsAndAllReadsMiss) {
  start({a_.path()});
  const auto of_a = write_files(0, 1, "a");
  hang_->begin(Hang::everything);
  std::future<Result<Bytes>> read = reading(of_a[0]);
  hang_->wait_for(1);
  poll_later();
  EXPECT_EQ(read.get().error().code(), StatusCode::kNotFound);
  EXPECT_FALSE(store_->missing(*of_a[0], {0, of_a[0]->size}).empty());
  EXPECT_EQ(store_->try_read(*of_a[0], {0, 1}), std::nullopt);
  EXPECT_EQ(store_->backing(*of_a[0]), nullptr);
  EXPECT_EQ(writing(of_a[0]).get().error().code(), StatusCode::kNoSpace);
}

TEST_F(HangTest, HangEndsOperatorCommands) {
  start({a_.path(), b_.path()});
  write_files(0, 2, "a");
  flush();
  // No other operation makes these calls: a flush's, with which a verification begins, and those of
  // a listing and an eviction.
  hang_->begin([](Hang::Call call, const std::string& path) {
    return (call == Hang::Call::kSync && path.ends_with("/segments")) || path.ends_with(".meta");
  });
  auto steps = std::make_unique<uint64_t>(0);
  auto listen = [&steps = *steps](const VerifyStep& step) { steps += step.objects; };
  auto verified = later(store_->verify(Context::background(), listen));
  hang_->wait_for(1);
  auto flushed = later(store_->flush(Context::background()));
  hang_->wait_for(2);
  auto listed = later(store_->objects(Context::background(), "", 100));
  hang_->wait_for(3);
  auto evicted = later(store_->evict(std::nullopt, 64 * kMiB));
  hang_->wait_for(4);
  poll_later();
  EXPECT_EQ(verified.get().error().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(flushed.get());
  static_cast<void>(listed.get());
  evicted.get();
  steps = nullptr;
  hang_->release();
  ASSERT_TRUE(comes_to(0, DirectoryState::kNormal));
}

TEST_F(HangTest, StartContinuesWithoutAHungDirectory) {
  hang_->begin(Hang::everything);
  std::future<Result<>> started = starting({a_.path(), b_.path()});
  hang_->wait_for(1);
  poll_later();
  ASSERT_TRUE(started.get());
  EXPECT_EQ(state(0), DirectoryState::kDown);
  const auto of_b = write_files(1, 4, "b");
  for (const FileRefPtr& ref : of_b) EXPECT_TRUE(holds(ref));
  store_->set_pool_policy(PoolId{7}, {.quota_bytes = 8 * kMiB});
  hang_->release();
  ASSERT_TRUE(comes_to(0, DirectoryState::kNormal)) << store_->directories()[0].why;
  for (const FileRefPtr& ref : write_files(0, 4, "a")) EXPECT_TRUE(holds(ref));
  EXPECT_EQ(store_->pools()[1].policy.quota_bytes, 8 * kMiB);
}

TEST_F(HangTest, AStartWithNothingElseFails) {
  hang_->begin(Hang::everything);
  std::future<Result<>> started = starting({a_.path()});
  hang_->wait_for(1);
  poll_later();
  Result<> failed = started.get();
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message(), HasSubstr(a_.path()));
  store_ = nullptr;
}

TEST_F(HangTest, RecoveredDiskIsReopenedWithItsContent) {
  start({a_.path(), b_.path()});
  const auto of_a = write_files(0, 6, "a");
  auto dropped = of_a.back();
  flush();
  for (int round = 0; round < 2; ++round) {
    hang_->begin(Hang::everything);
    std::future<Result<Bytes>> read = reading(of_a[0]);
    hang_->wait_for(1);
    poll_later();
    EXPECT_FALSE(read.get());
    if (round == 1) EXPECT_EQ(store_->drop(dropped->id), 0u);
    hang_->release();
    ASSERT_TRUE(comes_to(0, DirectoryState::kNormal)) << store_->directories()[0].why;
    EXPECT_EQ(store_->backing(*of_a[0]), nullptr);  // not verified since the reopening
    for (size_t i = 0; i + 1 < of_a.size(); ++i) EXPECT_TRUE(holds(of_a[i])) << i;
    EXPECT_EQ(holds(dropped), round == 0);
  }
}

// It belongs to the previous opening and changes nothing.
TEST_F(HangTest, EndlessCallDoesNotBlockReopening) {
  HealthTimes times = kTimes;
  times.drain_timeout = std::chrono::milliseconds(50);
  start({a_.path()}, times);
  const auto of_a = write_files(0, 2, "a");
  flush();
  hang_->begin([](Hang::Call call, const std::string&) { return call == Hang::Call::kRead; }, 1);
  std::future<Result<Bytes>> read = reading(of_a[0]);
  hang_->wait_for(1);
  poll_later();
  EXPECT_EQ(read.get().error().code(), StatusCode::kNotFound);
  EXPECT_EQ(hang_->hanging(), 1);
  ASSERT_TRUE(comes_to(0, DirectoryState::kNormal)) << store_->directories()[0].why;
  for (const FileRefPtr& ref : of_a) EXPECT_TRUE(holds(ref));
  EXPECT_EQ(hang_->hanging(), 1);
}

// The hanging opening has locked the directory, and never returns to unlock it.
TEST_F(HangTest, EndlessOpeningReleasesTheLock) {
  for (const char* at : {"/superblock", "/superblock.new", "/segments"}) {
    TempDirectory a, b;
    hang_->begin([at](Hang::Call, const std::string& path) { return path.ends_with(at); }, 1);
    HealthTimes times = kTimes;
    times.drain_timeout = std::chrono::milliseconds(50);
    std::future<Result<>> started = starting({a.path(), b.path()}, times);
    hang_->wait_for(1);
    poll_later();
    ASSERT_TRUE(started.get());
    EXPECT_TRUE(comes_to(0, DirectoryState::kNormal)) << at << ": " << store_->directories()[0].why;
    EXPECT_EQ(hang_->hanging(), 1) << at;
    for (const FileRefPtr& ref : write_files(0, 2, "a")) EXPECT_TRUE(holds(ref));
    end();
    hang_->release();
    wait_for_threads_to_end();
  }
}

TEST_F(HangTest, ACloseEndsWithoutItAndTheNextStartHasAll) {
  start({a_.path(), b_.path()});
  const auto of_a = write_files(0, 3, "a"), of_b = write_files(1, 3, "b");
  flush();
  hang_->begin(Hang::everything);
  std::future<void> closed = later(store_->close());
  hang_->wait_for(1);
  poll_later();
  closed.get();
  store_ = nullptr;
  executor_ = std::nullopt;
  hang_->release();
  wait_for_threads_to_end();
  start({a_.path(), b_.path()});
  for (const FileRefPtr& ref : of_a) EXPECT_TRUE(holds(ref));
  for (const FileRefPtr& ref : of_b) EXPECT_TRUE(holds(ref));
}

// Reads, writes, a flush, small objects in a write buffer: all complete after the objects they used
// are destroyed.
TEST_F(HangTest, LateAnswersTouchNothing) {
  start({a_.path(), b_.path()});
  const auto of_a = write_files(0, 12, "a");
  hang_->begin(Hang::everything);
  std::vector<std::future<Result<Bytes>>> reads;
  for (const FileRefPtr& ref : of_a) reads.push_back(reading(ref));
  std::vector<std::future<Result<>>> writes;
  for (int i = 0; i < 200; ++i) {
    writes.push_back(writing(object(fmt::format("small/{}", i), 50'000)));
    writes.push_back(writing(object(fmt::format("large/{}", i), 256 * kKiB)));
  }
  auto flushed = later(store_->flush(Context::background()));
  hang_->wait_for(8);
  poll_later();
  for (auto& read : reads) EXPECT_FALSE(read.get());
  for (auto& write : writes) static_cast<void>(write.get());
  static_cast<void>(flushed.get());  // it may have begun only now
  end();
  hang_->release();
  wait_for_threads_to_end();
}

// A start that was given up continues to read, and has a file to mark complete.
TEST_F(HangTest, ALateStartSpawnsNothing) {
  start({a_.path(), b_.path()});
  hang_->begin([](Hang::Call call, const std::string&) { return call == Hang::Call::kSync; });
  write_files(0, 1, "a");
  hang_->wait_for(1);  // all of it is there, and not marked complete
  end();
  hang_->release();
  wait_for_threads_to_end();
  ASSERT_EQ(files_ending(a_.path(), ".meta").size(), 1u);
  hang_->begin([](Hang::Call, const std::string& path) { return path.ends_with(".meta"); });
  std::future<Result<>> started = starting({a_.path(), b_.path()});
  hang_->wait_for(1);
  poll_later();
  ASSERT_TRUE(started.get());
  end();
  hang_->release();
  wait_for_threads_to_end();
}

// A verification finds the last object of its segment wrong.
TEST_F(HangTest, ALateComparisonSpawnsNothing) {
  start({a_.path()});
  ASSERT_TRUE(writing(object("small", 5000)).get());
  end();
  flip_bit(files_ending(a_.path() + "/segments", ".data").at(0), 100);
  start({a_.path()});
  hang_->begin([](Hang::Call call, const std::string& path) {
    return call == Hang::Call::kRead && path.empty();
  });
  auto verified = later(store_->verify(Context::background(), [](const VerifyStep&) {}));
  hang_->wait_for(1);
  poll_later();
  EXPECT_FALSE(verified.get());
  end();
  hang_->release();
  wait_for_threads_to_end();
}

}  // namespace
}  // namespace leat
