// SPDX-License-Identifier: Apache-2.0
#include "cache/directory/directory_move.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include "base/read_file.h"
#include "cache/policy_file.h"
#include "cache/store_fixture_test.h"
#include "cache/superblock.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr auto kQuiet = [](const MoveProgress&) {};

class MoveTest : public testing::Test {
 protected:
  void fill() {
    TestStore store(TestStore::options(from_));
    for (const FileRefPtr& ref : refs_) ASSERT_TRUE(store.write_whole(ref));
    ASSERT_TRUE(store.write_range(part_, {2 * kBlockBytes, kBlockBytes}));
  }
  void expect_all_at(const std::string& directory) {
    TestStore store(TestStore::options(directory));
    ASSERT_TRUE(store.ok()) << store.failure().to_string();
    for (const FileRefPtr& ref : refs_) EXPECT_TRUE(store.holds(ref)) << ref->key;
    EXPECT_FALSE(store.read_fails(part_, {2 * kBlockBytes, kBlockBytes}));
    EXPECT_EQ(store->cached_bytes(*part_), kBlockBytes);
    EXPECT_EQ(store->stats().corrupt_blocks, 0);
  }
  Result<MoveProgress> move(const std::string& from, const std::string& to) {
    return move_cache_directory(*disk_, from, to, kQuiet);
  }

  TempDirectory base_;
  std::string from_ = base_.path() + "/from", to_ = base_.path() + "/new/to";
  std::vector<FileRefPtr> refs_ = {object("a", 100), object("b", 50'000), object("c", 400'000),
                                   object("d", 3 * kMiB)};
  FileRefPtr part_ = object("part", 8 * kBlockBytes);
  Executor executor_{{.threads = 1}};
  std::shared_ptr<Disk> disk_ = make_disk(executor_);
};

// Returns a directory on another file system than the test's own, if there is one.
std::optional<std::string> other_file_system(const std::string& than) {
  struct stat one, other;
  const std::string path = "/dev/shm";
  if (stat(than.c_str(), &one) != 0 || stat(path.c_str(), &other) != 0) return std::nullopt;
  if (one.st_dev == other.st_dev || access(path.c_str(), W_OK) != 0) return std::nullopt;
  return path + "/leat_move_" + Id128::random().to_hex();
}

TEST_F(MoveTest, RenameMovesEverything) {
  fill();
  auto moved = move(from_, to_);
  ASSERT_TRUE(moved) << moved.error().to_string();
  EXPECT_FALSE(fs::exists(from_));
  EXPECT_FALSE(fs::exists(to_ + "/moving"));
  // It was closed cleanly and nothing was copied.
  EXPECT_TRUE(read_superblock(*disk_, to_).value()->clean);
  expect_all_at(to_);
}

TEST_F(MoveTest, BetweenFileSystemsItIsCopiedWithItsHoles) {
  auto away = other_file_system(base_.path());
  if (!away) GTEST_SKIP() << "/dev/shm is no file system of its own here";
  refs_.push_back(object("one byte more than a step", 16 * kMiB + 1));
  fill();
  const uint64_t bytes = disk_bytes(from_);
  uint64_t told = 0;
  auto moved = move_cache_directory(
      *disk_, from_, *away, [&](const MoveProgress& progress) { told = progress.bytes_done; });
  ASSERT_TRUE(moved) << moved.error().to_string();
  EXPECT_GT(told, 3 * kMiB);
  EXPECT_LE(disk_bytes(*away), bytes + kMiB);
  EXPECT_FALSE(fs::exists(from_));
  EXPECT_FALSE(read_superblock(*disk_, *away).value()->clean);
  expect_all_at(*away);
  fs::remove_all(*away);
}

TEST_F(MoveTest, HowThePoolsAreKeptGoesAlong) {
  fill();
  const std::string policies = encode_policies({{PoolId{7}, {.name = "/a", .pinned = true}}});
  std::ofstream(from_ + "/pools", std::ios::binary) << policies;
  std::ofstream(from_ + "/pools.bad") << "an earlier one";
  auto moved = move(from_, to_);
  ASSERT_TRUE(moved) << moved.error().to_string();
  EXPECT_FALSE(fs::exists(from_));
  EXPECT_EQ(*read_file(to_ + "/pools"), policies);
  expect_all_at(to_);
}

TEST_F(MoveTest, WhatWasInterruptedGoesOn) {
  fill();
  // As if the move had died after the first folder.
  const std::string uuid = read_superblock(*disk_, from_).value()->uuid.to_hex();
  fs::create_directories(to_ + "/files/ab");
  std::ofstream(to_ + "/moving") << uuid;
  std::ofstream(to_ + "/files/ab/half") << "copied";
  fs::rename(from_ + "/segments", to_ + "/segments");
  auto moved = move(from_, to_);
  ASSERT_TRUE(moved) << moved.error().to_string();
  EXPECT_FALSE(fs::exists(to_ + "/files/ab/half"));
  expect_all_at(to_);
}

TEST_F(MoveTest, WhatOnlyHadToBeRemovedIsRemoved) {
  fill();
  fs::create_directories(base_.path() + "/new");
  fs::copy(from_, to_, fs::copy_options::recursive);
  auto moved = move(from_, to_);
  ASSERT_TRUE(moved) << moved.error().to_string();
  EXPECT_FALSE(fs::exists(from_));
  expect_all_at(to_);
}

TEST_F(MoveTest, RefusesWhatWouldLoseSomething) {
  fill();
  EXPECT_EQ(move(from_, from_).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(move(from_, from_ + "/below").error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(move(to_, from_).error().code(), StatusCode::kNotFound);
  const std::string full = base_.path() + "/full";
  fs::create_directories(full);
  std::ofstream(full + "/thesis.tex") << "...";
  EXPECT_THAT(move(from_, full).error().message(), HasSubstr("thesis.tex"));
  const std::string other = base_.path() + "/other";
  {
    TestStore store(TestStore::options(other));
  }
  EXPECT_EQ(move(from_, other).error().code(), StatusCode::kExists);
  {
    TestStore store(TestStore::options(from_));
    EXPECT_EQ(move(from_, to_).error().code(), StatusCode::kBusy);
  }
  expect_all_at(from_);
}

TEST_F(MoveTest, ClearingLeavesWhatIsNotOurs) {
  fill();
  EXPECT_GT(measure_cache_directory(*disk_, from_).value().bytes_total, 3 * kMiB);
  {
    TestStore store(TestStore::options(from_));
    EXPECT_EQ(clear_cache_directory(*disk_, from_).error().code(), StatusCode::kBusy);
  }
  ASSERT_TRUE(clear_cache_directory(*disk_, from_));
  EXPECT_EQ(measure_cache_directory(*disk_, from_).value().bytes_total, 0);
  TestStore store(TestStore::options(from_));
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(store->stats().files, 0);

  const std::string mine = base_.path() + "/mine";
  fs::create_directories(mine + "/files");
  std::ofstream(mine + "/files/thesis.tex") << "...";
  EXPECT_FALSE(clear_cache_directory(*disk_, mine));
  EXPECT_TRUE(fs::exists(mine + "/files/thesis.tex"));
}

TEST_F(MoveTest, ForeignFoldersWithOurNamesAreKept) {
  for (const char* name : {"probe", "moving", "lock", "superblock.new"}) {
    const std::string mine = base_.path() + "/mine-" + name;
    fs::create_directories(mine + "/" + name);
    std::ofstream(mine + "/" + name + "/thesis.tex") << "...";
    EXPECT_FALSE(clear_cache_directory(*disk_, mine)) << name;
    EXPECT_TRUE(fs::exists(mine + "/" + name + "/thesis.tex")) << name;
  }
  const std::string noted = base_.path() + "/noted";
  fs::create_directories(noted + "/files");
  std::ofstream(noted + "/moving") << "to Berlin";
  std::ofstream(noted + "/files/thesis.tex") << "...";
  EXPECT_FALSE(clear_cache_directory(*disk_, noted));
  EXPECT_TRUE(fs::exists(noted + "/files/thesis.tex"));
}

TEST_F(MoveTest, ACopyThatWasInterruptedBeginsAnew) {
  auto away = other_file_system(base_.path());
  if (!away) GTEST_SKIP() << "/dev/shm is no file system of its own here";
  fill();
  const std::string uuid = read_superblock(*disk_, from_).value()->uuid.to_hex();
  for (const char* folder : {"segments", "files", "files/ab"}) {
    fs::create_directories(*away + "/" + folder);
  }
  std::ofstream(*away + "/moving") << uuid;
  std::ofstream(*away + "/files/ab/half") << "copied";
  auto moved = move(from_, *away);
  ASSERT_TRUE(moved) << moved.error().to_string();
  EXPECT_FALSE(fs::exists(*away + "/files/ab/half"));
  expect_all_at(*away);
  fs::remove_all(*away);
}

TEST_F(MoveTest, ADamagedOrNewerCacheCanBeCleared) {
  fill();
  flip_bit(from_ + "/superblock", 20);
  ASSERT_TRUE(clear_cache_directory(*disk_, from_));
  TestStore store(TestStore::options(from_));
  EXPECT_TRUE(store.ok());
}

}  // namespace
}  // namespace leat
