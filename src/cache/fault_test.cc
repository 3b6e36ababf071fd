// SPDX-License-Identifier: Apache-2.0
// A disk that fails: at the n-th call for every n, for a while, for ever. The store refuses or
// forgets; it never serves a wrong byte, and works again when the disk does.
#include <gtest/gtest.h>

#include <cerrno>

#include "cache/store_fixture_test.h"

namespace leat {
namespace {

struct Harness {
  explicit Harness(const std::string& path) : real_executor({.threads = 1}) {
    disk = std::make_shared<FaultyDisk>(make_disk(real_executor));
    options = TestStore::options(path);
  }
  Executor real_executor;
  std::shared_ptr<FaultyDisk> disk;
  PageStoreOptions options;
};

std::vector<FileRefPtr> some_objects() {
  return {object("f0", 3 * kBlockBytes + 9), object("s0", 5000), object("f1", 2 * kBlockBytes),
          object("s1", 70'000)};
}

void expect_right_or_missing(TestStore& store, const FileRefPtr& ref) {
  store.read_fails(ref, {0, ref->size});
  store.read_fails(ref, {ref->size / 2, 100});
  if (auto hot = store->try_read(*ref, {0, ref->size})) EXPECT_TRUE(same(*hot, content(ref)));
}

// What a job does to a store; every call may fail, none may answer wrong bytes.
void live(TestStore& store) {
  auto objects = some_objects();
  for (const auto& ref : objects) {
    Result<> kept = store.write_whole(ref);
    if (!kept) EXPECT_FALSE(kept.error().message().empty());
  }
  for (const auto& ref : objects) expect_right_or_missing(store, ref);
  Result<> flushed = store.flush();
  static_cast<void>(flushed);
  if (auto backing = store->backing(*objects[0])) EXPECT_EQ(backing->size(), objects[0]->size);
  store->drop(objects[2]->id);
  Result<> again = store.write_whole(objects[2]);
  static_cast<void>(again);
  for (const auto& ref : objects) expect_right_or_missing(store, ref);
}

// The store as it is now takes and gives everything.
void expect_works(TestStore& store) {
  for (const auto& ref : some_objects()) {
    EXPECT_TRUE(store.write_whole(ref)) << ref->key;
    EXPECT_TRUE(store.holds(ref)) << ref->key;
  }
}

// One failure at call n of a life, for every n; then the same store goes on, and another opens what
// is left.
void fail_each_call_once(int failure) {
  uint64_t calls = UINT64_MAX;
  for (uint64_t n = 1; n <= calls; ++n) {
    SCOPED_TRACE(testing::Message() << "call " << n);
    TempDirectory directory;
    Harness harness(directory.path());
    {
      TestStore store(harness.options, harness.disk);
      ASSERT_TRUE(store.ok());
      uint64_t opened = harness.disk->calls;
      harness.disk->fault = [=](FaultyDisk::Call, uint64_t number) {
        return number == opened + n ? failure : 0;
      };
      live(store);
      calls = harness.disk->calls - opened;
      harness.disk->fault = nullptr;
      expect_works(store);
      store.close();
    }
    TestStore store(harness.options);
    ASSERT_TRUE(store.ok()) << store.failure().to_string();
    for (const auto& ref : some_objects()) EXPECT_TRUE(store.holds(ref)) << ref->key;
  }
  EXPECT_GT(calls, 20u);
}

TEST(Fault, EioAtEachCall) {
  fail_each_call_once(EIO);
}
TEST(Fault, EnospcAtEachCall) {
  fail_each_call_once(ENOSPC);
}

TEST(Fault, WhileOpeningItIsAnErrorOrNothing) {
  TempDirectory directory;
  Harness harness(directory.path());

  uint64_t calls;
  {
    TestStore store(harness.options);
    expect_works(store);
    store.close();
  }
  {
    TestStore store(harness.options, harness.disk);
    calls = harness.disk->calls;
    ASSERT_TRUE(store.ok());
  }
  for (uint64_t n = 1; n <= calls + 3; ++n) {
    SCOPED_TRACE(testing::Message() << "call " << n);
    harness.disk->calls = 0;
    harness.disk->fault = [=](FaultyDisk::Call, uint64_t number) { return number == n ? EIO : 0; };
    TestStore store(harness.options, harness.disk);

    if (!store.ok()) continue;

    for (const auto& ref : some_objects()) expect_right_or_missing(store, ref);
  }

  EXPECT_GT(calls, 12u);

  TestStore store(harness.options);
  ASSERT_TRUE(store.ok());
  expect_works(store);
}

TEST(Fault, AFullDiskCostsWritesOnly) {
  TempDirectory directory;
  Harness harness(directory.path());
  TestStore store(harness.options, harness.disk);
  expect_works(store);
  harness.disk->fault = [](FaultyDisk::Call call, uint64_t) {
    return call == FaultyDisk::Call::kWrite ? ENOSPC : 0;
  };
  uint64_t used = store->stats().used_bytes;
  for (int i = 0; i < 50; ++i) {
    for (uint64_t size : {5000ul, 5 * kBlockBytes}) {
      auto ref = object(fmt::format("more{}", i), size);
      Result<> kept = store.write_whole(ref);
      ASSERT_FALSE(kept);
      EXPECT_EQ(kept.error().code(), StatusCode::kNoSpace);
      EXPECT_EQ(store.read_fails(ref, {0, 1}), StatusCode::kNotFound);
    }
  }
  EXPECT_LE(store->stats().used_bytes, used + 64 * kKiB) << "refused writes cost no capacity";
  for (const auto& ref : some_objects()) EXPECT_TRUE(store.holds(ref));
  harness.disk->fault = nullptr;
  auto ref = object("more0", 5 * kBlockBytes);
  EXPECT_TRUE(store.write_whole(ref));
  EXPECT_TRUE(store.holds(ref));
}

TEST(Fault, ABlockThatCannotBeReadIsFetchedAgain) {
  TempDirectory directory;
  Harness harness(directory.path());
  TestStore store(harness.options, harness.disk);
  expect_works(store);
  harness.disk->fault = [](FaultyDisk::Call call, uint64_t) {
    return call == FaultyDisk::Call::kRead ? EIO : 0;
  };
  for (const auto& ref : some_objects()) {
    EXPECT_EQ(store.read_fails(ref, {0, 1}), StatusCode::kNotFound);
    EXPECT_FALSE(store->missing(*ref, {0, 1}).empty());
  }
  EXPECT_GE(store->stats().corrupt_blocks, 4u);
  harness.disk->fault = nullptr;
  expect_works(store);
}

TEST(Fault, AnEndedReadSaysNothingAboutTheDisk) {
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  expect_works(store);
  std::stop_source stop;
  stop.request_stop();
  Context ended = Context::background().with_cancel(stop.get_token());
  for (const auto& ref : some_objects()) {
    Result<Bytes> bytes = store.executor().wait(store->read(ended, ref, {0, 1}));
    ASSERT_FALSE(bytes);
    EXPECT_EQ(bytes.error().code(), StatusCode::kCancelled);
    EXPECT_TRUE(store.holds(ref));
  }
  EXPECT_EQ(store->stats().corrupt_blocks, 0u);
}

TEST(Fault, AFailedSyncForgetsWhatItCannotVouchFor) {
  TempDirectory directory;
  Harness harness(directory.path());
  TestStore store(harness.options, harness.disk);
  ASSERT_TRUE(store.ok());
  harness.disk->fault = [](FaultyDisk::Call call, uint64_t) {
    return call == FaultyDisk::Call::kSync ? EIO : 0;
  };
  for (const auto& ref : some_objects()) EXPECT_TRUE(store.write_whole(ref));
  EXPECT_FALSE(store.flush());
  // Whoever syncs, the flush or the worker beside it: nothing unsynced is handed to the kernel.
  EXPECT_EQ(store->backing(*some_objects()[0]), nullptr);
  harness.disk->fault = nullptr;
  expect_works(store);
  EXPECT_TRUE(store.flush());
}

}  // namespace
}  // namespace leat
