// SPDX-License-Identifier: Apache-2.0
// The kernel reads only files verified since the start, however the last run ended.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "cache/store_fixture_test.h"

namespace leat {
namespace {

std::string read_by_itself(const BackingFile& file) {
  std::string bytes(file.size(), '\0');
  EXPECT_EQ(::pread(file.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  return bytes;
}

class KernelFiles : public testing::Test {
 protected:
  // Leaves the object in a directory that is closed cleanly.
  void leave(const FileRefPtr& ref) {
    TestStore store(options());
    ASSERT_TRUE(store.write_whole(ref));
    ASSERT_TRUE(store.flush());
    store.close();
  }
  PageStoreOptions options() {
    PageStoreOptions options = TestStore::options(directory_.path());
    options.capacity_bytes = 256 * kMiB;
    options.on_damage = [this](const FileId& id) {
      std::lock_guard lock(mutex_);
      damaged_.push_back(id);
    };
    return options;
  }
  bool told_of(const FileRefPtr& ref) {
    std::lock_guard lock(mutex_);
    return std::ranges::find(damaged_, ref->id) != damaged_.end();
  }

  TempDirectory directory_;
  std::mutex mutex_;
  std::vector<FileId> damaged_;
};

TEST_F(KernelFiles, DamageAfterACleanStopIsFound) {
  const auto ref = object("large", 8 * kMiB);
  leave(ref);
  flip_bit(file_of(directory_.path(), ref, ".data"), 5 * kMiB + 1);
  TestStore store(options());
  EXPECT_EQ(store->backing(*ref), nullptr);
  until([&] { return store->cached_bytes(*ref) == 0; });
  EXPECT_EQ(store->backing(*ref), nullptr);
  EXPECT_EQ(store.read_fails(ref, {5 * kMiB, 1}), StatusCode::kNotFound);
  EXPECT_EQ(store->stats().corrupt_blocks, 1u);
  EXPECT_TRUE(told_of(ref));
  ASSERT_TRUE(store.write_whole(ref));
  EXPECT_TRUE(store.holds(ref));
}

TEST_F(KernelFiles, AreVerifiedSoonAfterTheyAreWanted) {
  const auto ref = object("large", 8 * kMiB);
  leave(ref);
  TestStore store(options());
  std::shared_ptr<BackingFile> file;
  until([&] { return (file = store->backing(*ref)) != nullptr; });
  EXPECT_EQ(read_by_itself(*file), content(ref).to_string());
  EXPECT_TRUE(file->current());
  store->drop(ref->id);
  EXPECT_FALSE(file->current());
}

TEST_F(KernelFiles, AreVerifiedByReadsThatCoverThem) {
  const auto ref = object("large", 8 * kMiB);
  leave(ref);
  TestStore store(options());
  for (uint64_t at = 0; at < ref->size; at += kMiB) {
    ASSERT_EQ(store.read_fails(ref, {at, kMiB}), std::nullopt);
  }
  EXPECT_NE(store->backing(*ref), nullptr);
}

TEST_F(KernelFiles, AreNotReadWholeForALittle) {
  const auto ref = object("large", 64 * kMiB);
  leave(ref);
  Executor executor({.threads = 1});
  auto disk = std::make_shared<FaultyDisk>(make_disk(executor));
  std::atomic<uint64_t> read = 0;
  disk->after_read = [&](std::span<std::byte> bytes) { read += bytes.size(); };
  TestStore store(options(), disk);
  EXPECT_EQ(store->backing(*ref), nullptr);
  until([&] { return read >= 16 * kMiB; });
  ASSERT_EQ(store.read_fails(ref, {60 * kMiB, kMiB}), std::nullopt);
  until([&] { return read >= (16 + 4) * kMiB; });
  // Later verification is bounded by the bytes read, at any time.
  EXPECT_EQ(store->backing(*ref), nullptr);
  store.close();
  EXPECT_LE(read, (16 + 3 + 2) * kMiB + kBlockBytes);
}

TEST_F(KernelFiles, APredecessorsAreHeldUnverified) {
  const auto ref = object("large", 8 * kMiB);
  leave(ref);
  TestStore store(options());
  const std::shared_ptr<BackingFile> held = store->backing_unverified(*ref);
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(store->backing(*ref), nullptr) << "not for new readers";
  store->drop(ref->id);
  EXPECT_EQ(read_by_itself(*held), content(ref).to_string());
  EXPECT_GE(store->stats().unlinked_bytes, ref->size);
}

TEST_F(KernelFiles, OfSmallObjectsNothingIsSentUnverified) {
  const auto ref = object("small", 50'000);
  leave(ref);
  flip_bit(files_ending(directory_.path() + "/segments", ".data").at(0), 20'000);
  TestStore store(options());
  EXPECT_FALSE(store->sendfile_range(*ref, {0, 10}));
  EXPECT_EQ(store.read_fails(ref, {0, 10}), StatusCode::kNotFound);
  EXPECT_TRUE(told_of(ref));
}

}  // namespace
}  // namespace leat
