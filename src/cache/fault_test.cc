// SPDX-License-Identifier: Apache-2.0
// Failing disk: at the n-th call for every n, for a while, for ever. The store rejects or drops.
// It never serves a wrong byte, and works again when the disk does.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cerrno>
#include <thread>

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

// A typical workload; every call may fail, none may return wrong bytes.
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

// Expects that the store accepts and returns everything.
void expect_works(TestStore& store) {
  for (const auto& ref : some_objects()) {
    EXPECT_TRUE(store.write_whole(ref)) << ref->key;
    EXPECT_TRUE(store.holds(ref)) << ref->key;
  }
}

// One failure at call n of a life, for every n. Then the same store continues, and another one
// opens the directory.
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

TEST(Fault, AFullDiskCostsWritesAndATenthOfTheCache) {
  TempDirectory directory;
  Harness harness(directory.path());
  TestStore store(harness.options, harness.disk);
  expect_works(store);
  ASSERT_TRUE(store.flush());
  harness.disk->fault = [](FaultyDisk::Call call, uint64_t) {
    return call == FaultyDisk::Call::kWrite ? ENOSPC : 0;
  };
  uint64_t used = store->stats().used_bytes;
  for (int i = 0; i < 50; ++i) {
    auto file = object(fmt::format("more{}", i), 5 * kBlockBytes);
    Result<> kept = store.write_whole(file);
    ASSERT_FALSE(kept);
    EXPECT_EQ(kept.error().code(), StatusCode::kNoSpace);
    EXPECT_EQ(store.read_fails(file, {0, 1}), StatusCode::kNotFound);
    // A small object is accepted, and dropped when the disk rejects it.
    auto small = object(fmt::format("small{}", i), 5000);
    Result<> taken = store.write_whole(small);
    Result<> flushed = store.flush();
    EXPECT_FALSE(taken && flushed);
    EXPECT_EQ(store.read_fails(small, {0, 1}), StatusCode::kNotFound);
  }
  EXPECT_LE(store->stats().used_bytes, used + 64 * kKiB) << "rejected writes cost no capacity";
  auto objects = some_objects();
  EXPECT_GE(std::ranges::count_if(objects, [&](const auto& ref) { return store.holds(ref); }), 3);
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
  ASSERT_TRUE(store.flush());
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
  ASSERT_TRUE(store.flush());
  std::stop_source stop;
  stop.request_stop();
  Context ended = Context::background().with_cancel(stop.get_token());
  for (const auto& ref : some_objects()) {
    Result<Bytes> bytes = store.executor().block_on(store->read(ended, ref, {0, 1}));
    ASSERT_FALSE(bytes);
    EXPECT_EQ(bytes.error().code(), StatusCode::kCancelled);
    EXPECT_TRUE(store.holds(ref));
  }
  EXPECT_EQ(store->stats().corrupt_blocks, 0u);
}

TEST(Fault, ConcurrentVerificationHidesNoBadRead) {
  TempDirectory directory;
  Harness harness(directory.path());
  auto file = object("file", 3 * kBlockBytes);
  {
    TestStore store(harness.options);
    ASSERT_TRUE(store.write_whole(file));
    store.close();
  }
  TestStore store(harness.options, harness.disk);
  ASSERT_TRUE(store.ok());
  std::atomic<bool> first = true;
  // The first reader gets wrong bytes; before it checks them, another reader gets the right ones.
  harness.disk->after_read = [&](std::span<std::byte> bytes) {
    if (bytes.size() != kBlockBytes || !first.exchange(false)) return;
    EXPECT_EQ(store.read_fails(file, {0, kBlockBytes}), std::nullopt);
    bytes[7] ^= std::byte{1};
  };
  EXPECT_EQ(store.read_fails(file, {0, kBlockBytes}), StatusCode::kNotFound);
  EXPECT_FALSE(first);
}

// The kernel accepts a write and fails to write it back later: the next read gets old bytes.
TEST(Fault, LostWriteIsDetectedAfterSuccess) {
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  auto file = object("file", 3 * kBlockBytes), small = object("small", 70'000);
  ASSERT_TRUE(store.write_range(file, {0, 2 * kBlockBytes}));
  ASSERT_TRUE(store.write_whole(small));
  auto segments = files_ending(directory.path() + "/segments", ".data");
  while (std::filesystem::file_size(segments.at(0)) == 0) std::this_thread::yield();
  flip_bit(file_of(directory.path(), file, ".data"), kBlockBytes + 100);
  flip_bit(segments.at(0), 100);
  // Bytes already in the file are read from memory until all of the write is done.
  until([&] { return !store->try_read(*small, {0, 1000}); });
  EXPECT_EQ(store->try_read(*file, {kBlockBytes, 1000}), std::nullopt);
  EXPECT_EQ(store->try_read(*small, {0, 1000}), std::nullopt);
  EXPECT_EQ(store.read_fails(file, {kBlockBytes, 1000}), StatusCode::kNotFound);
  EXPECT_EQ(store.read_fails(small, {0, 1000}), StatusCode::kNotFound);
  EXPECT_EQ(store.read_fails(file, {0, 1000}), std::nullopt);
  EXPECT_EQ(store->stats().corrupt_blocks, 2u);
}

TEST(Fault, DescriptorShortageKeepsCachedObjects) {
  TempDirectory directory;
  Harness harness(directory.path());
  {
    TestStore store(harness.options);
    expect_works(store);
    store.close();
  }
  TestStore store(harness.options, harness.disk);
  ASSERT_TRUE(store.ok());
  for (int failure : {EMFILE, ENFILE, ENOMEM}) {
    harness.disk->fault = [failure](FaultyDisk::Call call, uint64_t) {
      return call == FaultyDisk::Call::kMetadata ? failure : 0;
    };
    for (const auto& ref : some_objects()) {
      EXPECT_EQ(store.read_fails(ref, {0, 1}), StatusCode::kNotFound);
    }
  }
  harness.disk->fault = nullptr;
  for (const auto& ref : some_objects()) EXPECT_TRUE(store.holds(ref)) << ref->key;
  EXPECT_EQ(store->stats().corrupt_blocks, 0u);
}

TEST(Fault, DescriptorShortageKeepsPendingWrites) {
  TempDirectory directory;
  Harness harness(directory.path());
  TestStore store(harness.options, harness.disk);
  auto before = object("before", 5000), after = object("after", 5000);
  ASSERT_TRUE(store.write_whole(before));
  harness.disk->fault = [](FaultyDisk::Call call, uint64_t) {
    return call == FaultyDisk::Call::kMetadata ? EMFILE : 0;
  };
  ASSERT_TRUE(store.write_whole(after));
  Result<> flushed = store.flush();  // the folder cannot be opened
  static_cast<void>(flushed);
  harness.disk->fault = nullptr;
  EXPECT_TRUE(store.holds(before));
  EXPECT_TRUE(store.holds(after));
  EXPECT_EQ(store->stats().rejected_bytes, 0u);
}

TEST(Fault, UndeletableFileIsNotOverwritten) {
  TempDirectory directory;
  Harness harness(directory.path());
  TestStore store(harness.options, harness.disk);
  auto file = object("file", 3 * kBlockBytes);
  ASSERT_TRUE(store.write_whole(file));
  ASSERT_TRUE(store.flush());
  auto backing = store->backing(*file);
  ASSERT_NE(backing, nullptr);
  harness.disk->fault = [](FaultyDisk::Call call, uint64_t) {
    return call == FaultyDisk::Call::kMetadata ? EIO : 0;
  };
  EXPECT_EQ(store->drop(file->id), file->size);
  while (store->stats().files > 0) std::this_thread::yield();
  harness.disk->fault = nullptr;
  Result<> refused = store.write_whole(file);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().to_string().find(file->id.to_hex()), std::string::npos);
  std::string bytes(file->size, '\0');
  EXPECT_EQ(::pread(backing->fd(), bytes.data(), bytes.size(), 0),
            static_cast<ssize_t>(file->size));
  EXPECT_EQ(bytes, content(file).to_string());
  ASSERT_TRUE(store.write_whole(file)) << "by now it could be unlinked";
  EXPECT_TRUE(store.holds(file));
}

// The file is counted as long as it exists.
TEST(Fault, UnreadableFileIsReplacedAndUncharged) {
  TempDirectory directory;
  Harness harness(directory.path());
  auto file = object("file", 3 * kBlockBytes);
  uint64_t empty = 0;
  {
    TestStore store(harness.options, harness.disk);
    empty = store->stats().used_bytes;
    ASSERT_TRUE(store.write_whole(file));
    store.close();
  }
  // Tries each call until it is the one that reads the record.
  for (uint64_t n = 1;; ++n) {
    ASSERT_LT(n, 100u) << "no call reads it";
    harness.disk->calls = 0;
    harness.disk->fault = [n](FaultyDisk::Call, uint64_t number) { return number == n ? EIO : 0; };
    TestStore store(harness.options, harness.disk);
    harness.disk->fault = nullptr;
    if (!store.ok()) continue;
    const bool unread = store->stats().files == 0 && store->stats().used_bytes > empty;
    if (!unread) {
      ASSERT_TRUE(store.holds(file));
      continue;
    }
    ASSERT_FALSE(store.write_whole(file)) << "in its way";
    ASSERT_TRUE(store.write_whole(file));
    EXPECT_TRUE(store.holds(file));
    store->drop(file->id);
    ASSERT_TRUE(store.flush());
    until([&] { return store->stats().used_bytes == empty; });
    break;
  }
}

// A quota, or no inodes: the file system shows room and accepts nothing.
TEST(Fault, AFullDiskThatShowsRoomIsMadeRoomOn) {
  TempDirectory directory;
  Harness harness(directory.path());
  TestStore store(harness.options, harness.disk);
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(store.write_whole(object(fmt::format("f{}", i), 3 * kBlockBytes)));
  }
  harness.disk->fault = [&](FaultyDisk::Call call, uint64_t) {
    bool full = store->stats().evicted_bytes == 0;
    return full && call == FaultyDisk::Call::kWrite ? EDQUOT : 0;
  };
  auto more = object("more", 3 * kBlockBytes);
  EXPECT_EQ(store.write_whole(more).error().code(), StatusCode::kNoSpace);
  while (store->stats().evicted_bytes == 0) std::this_thread::yield();
  EXPECT_GT(store->stats().files, 20u);
  while (!store.write_whole(more)) std::this_thread::yield();
  EXPECT_TRUE(store.holds(more));
  while (store->stats().capacity_bytes < harness.options.capacity_bytes) std::this_thread::yield();
}

TEST(Fault, AWriteSucceedsOnlyWhereItsBytesAreThen) {
  TempDirectory directory;
  Harness harness(directory.path());
  TestStore store(harness.options, harness.disk);
  ASSERT_TRUE(store.ok());
  harness.disk->fault = [](FaultyDisk::Call call, uint64_t number) {
    return call == FaultyDisk::Call::kWrite && number % 3 == 0 ? EIO : 0;
  };
  auto file = object("file", 64 * kBlockBytes);
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&] {
      for (uint64_t at = 0; at < file->size; at += 4 * kBlockBytes) {
        ByteRange range{at, 4 * kBlockBytes};
        if (store.write_range(file, range)) EXPECT_TRUE(store->missing(*file, range).empty()) << at;
        auto small = object(fmt::format("small{}", at), 5000);
        if (store.write_whole(small)) EXPECT_TRUE(store->missing(*small, {0, 1}).empty()) << at;
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
}

TEST(Fault, SegmentWithFailedSyncIsRemovedWhole) {
  TempDirectory directory;
  Harness harness(directory.path());
  TestStore store(harness.options, harness.disk);
  auto before = object("before", 5000), after = object("after", 5000);
  ASSERT_TRUE(store.write_whole(before));
  ASSERT_TRUE(store.flush());
  ASSERT_TRUE(store.write_whole(after));
  harness.disk->fault = [](FaultyDisk::Call call, uint64_t) {
    return call == FaultyDisk::Call::kSync ? EIO : 0;
  };
  EXPECT_FALSE(store.flush());
  harness.disk->fault = nullptr;
  EXPECT_FALSE(store.holds(before));
  EXPECT_FALSE(store.holds(after));
  ASSERT_TRUE(store.write_whole(after));
  EXPECT_TRUE(store.holds(after));
  while (store->stats().segments > 1) std::this_thread::yield();
}

// A move with its segment must not give a damaged object a new checksum.
TEST(Fault, MovedDamagedObjectGetsNoNewChecksum) {
  TempDirectory directory;
  auto options = TestStore::options(directory.path());
  options.capacity_bytes = 16 * kMiB;
  TestStore store(options);
  auto used = object("used", 50'000);
  ASSERT_TRUE(store.write_whole(used));
  ASSERT_TRUE(store.flush());
  ASSERT_TRUE(store.holds(used));
  flip_bit(files_ending(directory.path() + "/segments", ".data").at(0), 100);
  for (int i = 0; store->stats().evicted_bytes < options.capacity_bytes; ++i) {
    Result<> kept = store.write_whole(object(fmt::format("passing/{}", i), 60'000));
    static_cast<void>(kept);
  }
  EXPECT_EQ(store.read_fails(used, {0, used->size}), StatusCode::kNotFound);
  EXPECT_EQ(store->stats().corrupt_blocks, 1u);
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
  // Whether the flush or the background syncs: the kernel gets no unsynced file.
  EXPECT_EQ(store->backing(*some_objects()[0]), nullptr);
  harness.disk->fault = nullptr;
  expect_works(store);
  EXPECT_TRUE(store.flush());
}

// The kernel marks the pages of a failed sync clean, so the next sync proves nothing.
TEST(Fault, SegmentStaysFailedAfterALaterSync) {
  for (const uint64_t failing : {1, 2}) {
    TempDirectory directory;
    Harness harness(directory.path());
    TestStore store(harness.options, harness.disk);
    ASSERT_TRUE(store.ok());
    std::vector<FileRefPtr> refs;
    for (int i = 0; i < 10; ++i) refs.push_back(object(fmt::format("small/{}", i), 4096));
    for (const auto& ref : refs) ASSERT_TRUE(store.write_whole(ref));
    auto syncs = std::make_shared<std::atomic<uint64_t>>(0);
    harness.disk->fault = [syncs, failing](FaultyDisk::Call call, uint64_t) {
      return call == FaultyDisk::Call::kSync && ++*syncs == failing ? EIO : 0;
    };
    EXPECT_FALSE(store.flush());
    EXPECT_TRUE(store.flush());
    for (const auto& ref : refs) EXPECT_FALSE(store.holds(ref)) << failing;
    expect_works(store);
  }
}

}  // namespace
}  // namespace leat
