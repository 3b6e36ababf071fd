// SPDX-License-Identifier: Apache-2.0
// Flush of files: each file and each folder is synced once, and a failed sync is reported.
#include <gtest/gtest.h>

#include <cerrno>
#include <mutex>
#include <set>

#include "cache/store_fixture_test.h"

namespace leat {
namespace {

class SyncedFolders : public FaultyDisk {
 public:
  using FaultyDisk::FaultyDisk;
  std::mutex mutex;
  std::set<std::string> synced;

  Result<> sync_directory(const std::string& path) override {
    std::lock_guard lock(mutex);
    synced.insert(path);
    return {};
  }
};

class FlushTest : public testing::Test {
 protected:
  FlushTest() { EXPECT_TRUE(store_.ok()); }
  // Writes a part of a file, so that no other task syncs it.
  void write_part(const FileRefPtr& file) {
    ASSERT_TRUE(store_.write_range(file, {0, kBlockBytes}));
  }

  TempDirectory directory_;
  Executor below_{{.threads = 1}};
  std::shared_ptr<SyncedFolders> disk_ = std::make_shared<SyncedFolders>(make_disk(below_));
  TestStore store_{TestStore::options(directory_.path()), disk_};
};

TEST_F(FlushTest, AFileThatCannotBeSyncedIsReported) {
  auto file = object("file", 3 * kBlockBytes);
  write_part(file);
  disk_->fault = [](FaultyDisk::Call call, uint64_t) {
    return call == FaultyDisk::Call::kSync ? EIO : 0;
  };
  EXPECT_FALSE(store_.flush());
  disk_->fault = nullptr;
  EXPECT_TRUE(store_.flush());
  EXPECT_EQ(store_.read_fails(file, {0, kBlockBytes}), StatusCode::kNotFound);
}

TEST_F(FlushTest, ASyncedFileIsNotSyncedAgain) {
  write_part(object("file", 3 * kBlockBytes));
  ASSERT_TRUE(store_.flush());
  std::atomic<int> syncs = 0;
  disk_->fault = [&](FaultyDisk::Call call, uint64_t) {
    if (call == FaultyDisk::Call::kSync) ++syncs;
    return 0;
  };
  ASSERT_TRUE(store_.flush());
  disk_->fault = nullptr;
  EXPECT_EQ(syncs, 0);
}

TEST_F(FlushTest, EveryFolderThatChangedIsSynced) {
  std::set<std::string> changed = {directory_.path() + "/files"};
  for (int i = 0; i < 8; ++i) {
    auto file = object(fmt::format("file/{}", i), 3 * kBlockBytes);
    write_part(file);
    changed.insert(directory_.path() + "/files/" + file->id.to_hex().substr(0, 2));
  }
  ASSERT_GT(changed.size(), 2u);
  ASSERT_TRUE(store_.flush());
  std::lock_guard lock(disk_->mutex);
  for (const std::string& folder : changed) EXPECT_TRUE(disk_->synced.contains(folder)) << folder;
}

}  // namespace
}  // namespace leat
