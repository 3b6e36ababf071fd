// SPDX-License-Identifier: Apache-2.0
// Restarts: after close(), after kill -9 (a copy of the directory taken meanwhile), and on a
// damaged directory. No wrong bytes are served; bytes that cannot be served are dropped.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/read_file.h"
#include "cache/store_fixture_test.h"
#include "cache/superblock.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

struct Objects {
  FileRefPtr whole = object("whole", 6 * kBlockBytes + 77);
  FileRefPtr partial = object("partial", 8 * kBlockBytes);
  ByteRange part{2 * kBlockBytes, 3 * kBlockBytes};
  std::vector<FileRefPtr> small = {object("s0", 1), object("s1", 4096), object("s2", 70'000),
                                   object("s3", 127 * 1024)};

  void write(TestStore& store) const {
    ASSERT_TRUE(store.write_whole(whole));
    ASSERT_TRUE(store.write_range(partial, part));
    for (const auto& ref : small) ASSERT_TRUE(store.write_whole(ref));
  }
  void expect_all(TestStore& store) const {
    EXPECT_TRUE(store.holds(whole));
    EXPECT_EQ(store.read_fails(partial, part), std::nullopt);
    EXPECT_EQ(store.read_fails(partial, {0, 1}), StatusCode::kNotFound);
    for (const auto& ref : small) EXPECT_TRUE(store.holds(ref)) << ref->key;
  }
};

TEST(Recovery, ACleanRestartKeepsEverything) {
  TempDirectory directory;
  Objects objects;
  uint64_t used;
  {
    TestStore store(TestStore::options(directory.path()));
    objects.write(store);
    store.close();
    used = disk_bytes(directory.path());
  }
  TestStore store(TestStore::options(directory.path()));
  ASSERT_TRUE(store.ok());
  EXPECT_GE(store->stats().used_bytes, used);
  EXPECT_LE(store->stats().used_bytes, used + 64 * kKiB);
  EXPECT_EQ(store->backing(*objects.whole), nullptr) << "not verified yet";
  EXPECT_EQ(store->try_read(*objects.whole, {0, 10}), std::nullopt) << "not verified yet";
  objects.expect_all(store);
  EXPECT_NE(store->backing(*objects.whole), nullptr) << "all of it was read";
  EXPECT_TRUE(store->try_read(*objects.whole, {0, 10}));
  EXPECT_EQ(store->stats().corrupt_blocks, 0u);
}

// A segment without live objects stays while it has tombstones for earlier segments; then its own
// objects need tombstones, too.
TEST(Recovery, WhatWasDroppedStaysDropped) {
  TempDirectory directory;
  std::vector<FileRefPtr> earlier;
  for (int i = 0; i < 10; ++i) {
    earlier.push_back(object(fmt::format("earlier {}", i), 100 * kKiB));
  }
  FileRefPtr later = object("later", 100 * kKiB);
  {
    TestStore store(TestStore::options(directory.path()));
    for (const auto& ref : earlier) ASSERT_TRUE(store.write_whole(ref));
    ASSERT_TRUE(store.write_whole(later));
    ASSERT_EQ(store->stats().segments, 2u);
    EXPECT_EQ(store->drop(earlier[0]->id), earlier[0]->size);
    ASSERT_TRUE(store.flush());
    EXPECT_EQ(store->drop(later->id), later->size);
    store.close();
  }
  TestStore store(TestStore::options(directory.path()));
  EXPECT_FALSE(store.holds(later));
  EXPECT_FALSE(store.holds(earlier[0]));
  for (size_t i = 1; i < earlier.size(); ++i) EXPECT_TRUE(store.holds(earlier[i])) << i;
}

// The tombstone is written in the background, perhaps after the object is cached again.
TEST(Recovery, DroppedObjectCachedAgainIsThere) {
  TempDirectory directory;
  TestStore killed(TestStore::options(directory.path()));
  std::vector<FileRefPtr> again, gone;
  for (int i = 0; i < 60; ++i) {
    again.push_back(object(fmt::format("again {}", i), 5000));
    gone.push_back(object(fmt::format("gone {}", i), i % 10 == 0 ? 3 * kBlockBytes : 5000));
    ASSERT_TRUE(killed.write_whole(again.back()));
    ASSERT_TRUE(killed.write_whole(gone.back()));
    killed->drop(again.back()->id);
    ASSERT_TRUE(killed.write_whole(again.back()));
    killed->drop(gone.back()->id);
  }
  ASSERT_TRUE(killed.flush());
  auto copy = crash_copy(directory.path());
  TestStore store(TestStore::options(copy->path()));
  ASSERT_TRUE(store.ok());
  for (const auto& ref : again) EXPECT_TRUE(store.holds(ref)) << ref->key;
  for (const auto& ref : gone) EXPECT_FALSE(store.holds(ref)) << ref->key;
}

TEST(Recovery, KilledStoreIsVerifiedBeforeKernelReads) {
  TempDirectory directory;
  Objects objects;
  TestStore killed(TestStore::options(directory.path()));
  objects.write(killed);
  ASSERT_TRUE(killed.flush());
  auto copy = crash_copy(directory.path());
  TestStore store(TestStore::options(copy->path()));
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(store->backing(*objects.whole), nullptr);
  std::shared_ptr<BackingFile> backing;
  while (backing == nullptr) {  // verification runs concurrently
    std::this_thread::yield();
    backing = store->backing(*objects.whole);
  }
  objects.expect_all(store);
  EXPECT_EQ(store->stats().corrupt_blocks, 0u);
}

TEST(Recovery, KilledAtAnyMomentNothingWrongIsServed) {
  TempDirectory directory;
  TestStore killed(TestStore::options(directory.path()));
  std::vector<FileRefPtr> written;
  size_t flushed = 0;
  for (int i = 0; i < 12; ++i) {
    auto ref = object(fmt::format("k{}", i), i % 3 == 0 ? 5 * kBlockBytes : 9000u * (i + 1));
    ASSERT_TRUE(killed.write_whole(ref));
    if (i % 2 == 0) {
      ASSERT_TRUE(killed.flush());
      flushed = written.size() + 1;
    }
    written.push_back(ref);
    auto copy = crash_copy(directory.path());
    TestStore store(TestStore::options(copy->path()));
    ASSERT_TRUE(store.ok()) << store.failure().to_string();
    for (size_t at = 0; at < written.size(); ++at) {
      bool there = store.holds(written[at]);
      if (at < flushed) EXPECT_TRUE(there) << i;
    }
    auto more = object("more", 12345);
    EXPECT_TRUE(store.write_whole(more));
    EXPECT_TRUE(store.holds(more));
  }
}

TEST(Recovery, AFlippedBitIsNeverServed) {
  TempDirectory directory;
  Objects objects;
  {
    TestStore store(TestStore::options(directory.path()));
    objects.write(store);
    store.close();
  }
  flip_bit(file_of(directory.path(), objects.whole, ".data"), 3 * kBlockBytes + 5);
  flip_bit(file_of(directory.path(), objects.partial, ".data"), 3 * kBlockBytes + 5);
  flip_bit(files_ending(directory.path() + "/segments", ".data").at(0), 4096 + 100);  // s1

  TestStore store(TestStore::options(directory.path()));
  EXPECT_EQ(store.read_fails(objects.whole, {0, 10}), std::nullopt);
  EXPECT_EQ(store.read_fails(objects.whole, {3 * kBlockBytes + 100, 1}), StatusCode::kNotFound);
  EXPECT_EQ(store->cached_bytes(*objects.whole), 0u) << "a complete file goes as a whole";
  EXPECT_EQ(store.read_fails(objects.partial, objects.part), StatusCode::kNotFound);
  EXPECT_EQ(store->missing(*objects.partial, objects.part),
            (std::vector<ByteRange>{{3 * kBlockBytes, kBlockBytes}}));
  EXPECT_EQ(store.read_fails(objects.small[1], {4095, 1}), StatusCode::kNotFound);
  EXPECT_TRUE(store.holds(objects.small[2]));
  EXPECT_EQ(store->stats().corrupt_blocks, 3u);
  objects.write(store);  // fetched again
  objects.expect_all(store);
}

TEST(Recovery, AFlippedBitKeepsTheKernelAwayAfterAKill) {
  TempDirectory directory;
  Objects objects;
  TestStore killed(TestStore::options(directory.path()));
  objects.write(killed);
  ASSERT_TRUE(killed.flush());
  auto copy = crash_copy(directory.path());
  flip_bit(file_of(copy->path(), objects.whole, ".data"), 6 * kBlockBytes + 5);
  TestStore store(TestStore::options(copy->path()));
  EXPECT_EQ(store->backing(*objects.whole), nullptr);
  while (store->cached_bytes(*objects.whole) > 0) std::this_thread::yield();
  EXPECT_EQ(store->backing(*objects.whole), nullptr);
}

// Checks the kernel's view, if it has one.
void expect_right_for_kernel(TestStore& store, const FileRefPtr& ref) {
  auto backing = store->backing(*ref);
  if (backing == nullptr) return;
  std::string bytes(ref->size, '\0');
  EXPECT_EQ(::pread(backing->fd(), bytes.data(), bytes.size(), 0),
            static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(bytes, content(ref).to_string());
}

TEST(Recovery, RecoveredBlocksAreVerifiedBeforeDone) {
  for (bool flush : {true, false}) {
    TempDirectory directory;
    auto file = object("file", 6 * kBlockBytes);
    TestStore killed(TestStore::options(directory.path()));
    ASSERT_TRUE(killed.write_range(file, {0, 3 * kBlockBytes}));
    ASSERT_TRUE(killed.flush());
    auto copy = crash_copy(directory.path());
    flip_bit(file_of(copy->path(), file, ".data"), kBlockBytes + 5);
    {
      TestStore store(TestStore::options(copy->path()));
      ASSERT_TRUE(store.write_range(file, {3 * kBlockBytes, 3 * kBlockBytes}));
      if (flush) {
        ASSERT_TRUE(store.flush());
        EXPECT_EQ(store->missing(*file, {0, file->size}),
                  (std::vector<ByteRange>{{kBlockBytes, kBlockBytes}}));
      }
      store.close();
    }
    TestStore store(TestStore::options(copy->path()));
    expect_right_for_kernel(store, file);
    EXPECT_EQ(store.read_fails(file, {kBlockBytes, 10}), StatusCode::kNotFound);
    ASSERT_TRUE(store.write_whole(file));
    EXPECT_TRUE(store.holds(file));
  }
}

bool says_clean(const std::string& directory) {
  const std::string bytes = *read_file(directory + "/superblock");
  auto block = Superblock::decode(std::as_bytes(std::span(bytes)), directory);
  EXPECT_TRUE(block);
  return block && block->clean;
}

// Builds until 2026-11-27 give vouched files to the kernel unverified.
TEST(Recovery, TheSuperblockVouchesForVerifiedFiles) {
  TempDirectory directory;
  Objects objects;
  TestStore killed(TestStore::options(directory.path()));
  objects.write(killed);
  ASSERT_TRUE(killed.flush());
  auto damaged = crash_copy(directory.path()), intact = crash_copy(directory.path());
  flip_bit(file_of(damaged->path(), objects.whole, ".data"), kBlockBytes + 5);
  {
    TestStore store(TestStore::options(damaged->path()));
    store.close();
  }
  EXPECT_FALSE(says_clean(damaged->path()));
  {
    TestStore store(TestStore::options(intact->path()));
    objects.expect_all(store);
    store.close();
  }
  EXPECT_TRUE(says_clean(intact->path()));
}

TEST(Recovery, CopiesUnderOtherNamesAreLeftAlone) {
  TempDirectory directory;
  Objects objects;
  {
    TestStore store(TestStore::options(directory.path()));
    objects.write(store);
    store.close();
  }
  std::string folder = fs::path(file_of(directory.path(), objects.whole, "")).parent_path();
  std::string elsewhere = directory.path() + "/files/" + (folder.ends_with("00") ? "01" : "00");
  fs::copy(folder, folder + ".bak");
  fs::create_directory(elsewhere);
  std::string copied = elsewhere + "/" + objects.whole->id.to_hex();
  for (const char* suffix : {".data", ".meta"}) {
    fs::copy_file(file_of(directory.path(), objects.whole, suffix), copied + suffix);
  }
  TestStore store(TestStore::options(directory.path()));
  ASSERT_TRUE(store.ok());
  objects.expect_all(store);
  EXPECT_EQ(store->stats().files, 2u);
  EXPECT_TRUE(fs::exists(folder + ".bak") && fs::exists(copied + ".data"));
}

class Damaged : public testing::Test {
 protected:
  Damaged() {
    TestStore store(TestStore::options(directory.path()));
    objects.write(store);
    store.close();
  }
  // Opens, checks that nothing wrong is served and that everything can be written again.
  void expect_recovers() {
    TestStore store(TestStore::options(directory.path()));
    ASSERT_TRUE(store.ok()) << store.failure().to_string();
    lost.clear();
    std::vector<FileRefPtr> all = objects.small;
    all.push_back(objects.whole);
    for (const auto& ref : all) {
      auto code = store.read_fails(ref, {0, ref->size});
      if (code) lost.push_back(ref->key);
      EXPECT_EQ(code.value_or(StatusCode::kNotFound), StatusCode::kNotFound);
    }
    if (store.read_fails(objects.partial, objects.part)) lost.push_back("partial");
    std::ranges::sort(lost);
    objects.write(store);
    objects.expect_all(store);
    store.close();
    TestStore again(TestStore::options(directory.path()));
    objects.expect_all(again);
  }

  TempDirectory directory;
  Objects objects;
  std::vector<std::string> lost;
};

TEST_F(Damaged, TruncatedData) {
  fs::resize_file(file_of(directory.path(), objects.whole, ".data"), 100);
  fs::resize_file(files_ending(directory.path() + "/segments", ".data").at(0), 20'000);
  expect_recovers();
  EXPECT_EQ(lost, (std::vector<std::string>{"s2", "s3", "whole"}));
}

TEST_F(Damaged, TruncatedMeta) {
  fs::resize_file(file_of(directory.path(), objects.whole, ".meta"), 100);
  fs::resize_file(file_of(directory.path(), objects.partial, ".meta"), 0);
  expect_recovers();
  EXPECT_EQ(lost, (std::vector<std::string>{"partial", "whole"}));
}

TEST_F(Damaged, SwappedFiles) {
  for (const char* suffix : {".data", ".meta"}) {
    std::string a = file_of(directory.path(), objects.whole, suffix);
    std::string b = file_of(directory.path(), objects.partial, suffix);
    fs::rename(a, a + ".x");
    fs::rename(b, a);
    fs::rename(a + ".x", b);
  }
  expect_recovers();
  EXPECT_EQ(lost, (std::vector<std::string>{"partial", "whole"}));
}

TEST_F(Damaged, SwappedDataOfEqualSize) {
  auto twin = object("twin", objects.whole->size);
  {
    TestStore store(TestStore::options(directory.path()));
    ASSERT_TRUE(store.write_whole(twin));
    store.close();
  }
  std::string a = file_of(directory.path(), objects.whole, ".data");
  std::string b = file_of(directory.path(), twin, ".data");
  fs::rename(a, a + ".x");
  fs::rename(b, a);
  fs::rename(a + ".x", b);
  expect_recovers();
  EXPECT_EQ(lost, (std::vector<std::string>{"whole"}));
}

TEST_F(Damaged, HalvesMissing) {
  fs::remove(file_of(directory.path(), objects.whole, ".data"));
  fs::remove(file_of(directory.path(), objects.partial, ".meta"));
  fs::remove(files_ending(directory.path() + "/segments", ".index").at(0));
  expect_recovers();
  EXPECT_EQ(lost, (std::vector<std::string>{"partial", "s0", "s1", "s2", "s3", "whole"}));
}

TEST_F(Damaged, TornIndexTail) {
  std::string index = files_ending(directory.path() + "/segments", ".index").at(0);
  auto intact = fs::file_size(index);
  std::ofstream(index, std::ios::app | std::ios::binary) << std::string(50, 'x');
  expect_recovers();
  EXPECT_EQ(lost, std::vector<std::string>{});
  EXPECT_EQ(fs::file_size(index), intact);
}

TEST_F(Damaged, IndexCutAnywhere) {
  std::string segments = directory.path() + "/segments";
  std::string index = files_ending(segments, ".index").at(0);
  auto intact = crash_copy(segments);
  for (uint64_t size = fs::file_size(index); size-- > 0;) {
    if (size % 37 != 0 && size > 70) continue;
    fs::remove_all(segments);
    fs::copy(intact->path(), segments);
    fs::resize_file(index, size);
    TestStore store(TestStore::options(directory.path()));
    ASSERT_TRUE(store.ok());
    for (const auto& ref : objects.small) {
      EXPECT_EQ(store.read_fails(ref, {0, ref->size}).value_or(StatusCode::kNotFound),
                StatusCode::kNotFound);
    }
  }
}

TEST_F(Damaged, ASegmentOfAnotherDirectory) {
  TempDirectory other;
  auto foreign = object("foreign", 5000);
  {
    TestStore store(TestStore::options(other.path()));
    ASSERT_TRUE(store.write_whole(foreign));
    store.close();
  }
  fs::remove_all(directory.path() + "/segments");
  fs::copy(other.path() + "/segments", directory.path() + "/segments");
  TestStore store(TestStore::options(directory.path()));
  EXPECT_EQ(store.read_fails(foreign, {0, 1}), StatusCode::kNotFound);
}

TEST_F(Damaged, ASmallerCapacityEvictsDownAtOpen) {
  {
    TestStore store(TestStore::options(directory.path()));
    for (int i = 0; i < 60; ++i) {
      ASSERT_TRUE(store.write_whole(object(fmt::format("f{}", i), i % 2 ? 300'000 : 90'000)));
    }
    store.close();
  }
  auto options = TestStore::options(directory.path());
  options.capacity_bytes = 4 * kMiB;
  TestStore store(options);
  ASSERT_TRUE(store.ok());
  EXPECT_LE(store->stats().used_bytes, options.capacity_bytes);
  EXPECT_LE(disk_bytes(directory.path()), options.capacity_bytes);
  EXPECT_GT(store->stats().packed_objects + store->stats().files, 0u);
}

TEST(Recovery, SecondOpenerLearnsTheHolder) {
  TempDirectory directory;
  TestStore first(TestStore::options(directory.path()));
  TestStore second(TestStore::options(directory.path()));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.failure().code(), StatusCode::kBusy);
  std::string pid = std::to_string(::getpid());
  EXPECT_NE(second.failure().message().find("process " + pid), std::string::npos)
      << second.failure().message();
  first.close();
  TestStore third(TestStore::options(directory.path()));
  EXPECT_TRUE(third.ok());
}

TEST(Recovery, ANewerFormatIsRefusedAndLeftAsItIs) {
  TempDirectory directory;
  Superblock newer;
  newer.incompatible = uint64_t{1} << 63;
  std::ofstream(directory.path() + "/superblock", std::ios::binary) << newer.encode();
  std::ofstream(directory.path() + "/something") << "new";
  TestStore store(TestStore::options(directory.path()));
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.failure().code(), StatusCode::kUnsupported);
  EXPECT_TRUE(fs::exists(directory.path() + "/something"));
}

TEST(Recovery, ADirectoryWithOtherThingsInItIsRefused) {
  TempDirectory directory;
  std::ofstream(directory.path() + "/thesis.tex") << "years of work";
  TestStore store(TestStore::options(directory.path()));
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.failure().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(store.failure().message().find("thesis.tex"), std::string::npos);
}

TEST(Recovery, ADirectoryIsMadeWithItsParents) {
  TempDirectory directory;
  auto ref = object("small", 100);
  TestStore store(TestStore::options(directory.path() + "/a/b/c/"));
  ASSERT_TRUE(store.ok()) << store.failure().to_string();
  EXPECT_TRUE(store.write_whole(ref));
  EXPECT_TRUE(store.holds(ref));
}

}  // namespace
}  // namespace leat
