// SPDX-License-Identifier: Apache-2.0
// The hard capacity, checked from outside every 10 ms. It sums real blocks of the files in the
// directory and of unlinked files that are held open. It uses its own tmpfs if a mount is
// permitted, which includes everything. Otherwise files and the holders' descriptors are summed
// while no writer runs.
//
// LEAT_TORTURE_CAPACITY_MS: minimum duration.
#include <gtest/gtest.h>

#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <set>
#include <thread>

#include "cache/torture/working_set_test.h"

namespace leat {
namespace {

constexpr uint64_t kCapacityBytes = 48 * kMiB;
// Small objects that move during the sum are counted in both places.
constexpr uint64_t kScanSlackBytes = kCapacityBytes / 8;
constexpr size_t kWriters = 8, kHolders = 30;

// Unmounted when its last user is gone, in any case: only this process sees it.
class OwnFileSystem {
 public:
  explicit OwnFileSystem(const std::string& path) : path_(path) {
    if (::unshare(CLONE_NEWNS) != 0) return;
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return;
    mounted_ = ::mount("leat", path.c_str(), "tmpfs", 0, "size=256m") == 0;
  }
  ~OwnFileSystem() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  uint64_t used_bytes() const {
    struct statvfs info;
    if (::statvfs(path_.c_str(), &info) != 0) return UINT64_MAX;
    return (info.f_blocks - info.f_bfree) * info.f_frsize;
  }

 private:
  const std::string path_;
  bool mounted_ = false;
};

class Holders {
 public:
  using BackingPtr = std::shared_ptr<BackingFile>;

  void hold(BackingPtr file, Chance& chance) {
    std::lock_guard lock(mutex_);
    files_.push_back(std::move(file));
    if (files_.size() > kHolders) {
      files_.erase(files_.begin() + static_cast<ptrdiff_t>(chance.below(files_.size())));
    }
  }
  // Bytes of files without a name, each file once.
  uint64_t unlinked_bytes() const {
    std::lock_guard lock(mutex_);
    std::set<ino_t> seen;
    uint64_t bytes = 0;
    for (const BackingPtr& file : files_) {
      struct stat info;
      if (::fstat(file->fd(), &info) != 0 || info.st_nlink > 0) continue;
      if (seen.insert(info.st_ino).second) bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    }
    return bytes;
  }
  void clear() {
    std::lock_guard lock(mutex_);
    files_.clear();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<BackingPtr> files_;
};

uint64_t linked_bytes(const std::string& directory) {
  uint64_t bytes = 0;
  std::error_code gone;  // files come and go meanwhile
  for (auto item = std::filesystem::recursive_directory_iterator(directory, gone);
       item != std::filesystem::recursive_directory_iterator(); item.increment(gone)) {
    struct stat info;
    if (gone || ::lstat(item->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    bytes += static_cast<uint64_t>(info.st_blocks) * 512;
  }
  return bytes;
}

TEST(CapacitySampled, IsNeverExceededByWhatIsOnDisk) {
  const uint64_t seed = torture_seed();
  SCOPED_TRACE(testing::Message() << "LEAT_TORTURE_SEED=" << seed);
  TempDirectory directory;
  OwnFileSystem own(directory.path());
  PageStoreOptions options = TestStore::options(directory.path() + "/cache");
  options.capacity_bytes = kCapacityBytes;
  const WorkingSet set(600);
  TestStore store(options);
  ASSERT_TRUE(store.ok()) << store.failure().to_string();
  const uint64_t before = own.mounted() ? own.used_bytes() - linked_bytes(directory.path()) : 0;

  Holders holders;
  std::atomic<bool> stopping = false, scanning = false;
  std::barrier<> pause(kWriters + 1);
  std::vector<std::thread> writers;
  Chance chance(seed);
  for (size_t writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, own_chance = Chance(chance.seed())]() mutable {
      while (!stopping) {
        if (scanning) {
          pause.arrive_and_wait();  // all have stopped
          pause.arrive_and_wait();  // the sum is complete
        }
        const FileRefPtr& ref = set.at(own_chance.below(set.size()));
        Result<> kept = store.write_whole(ref);
        static_cast<void>(kept);
        if (own_chance.one_in(4)) store.read_fails(ref, {0, ref->size});
        if (own_chance.one_in(9)) store->drop(set.at(own_chance.below(set.size()))->id);
        if (auto file = store->backing(*set.at(own_chance.below(set.size()))))
          holders.hold(std::move(file), own_chance);
      }
    });
  }
  uint64_t samples = 0, most = 0, most_held = 0;
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::milliseconds(from_environment("LEAT_TORTURE_CAPACITY_MS", 3000));
  // Extended if a slow machine has not reached all states.
  auto goes_on = [&] {
    const auto now = std::chrono::steady_clock::now();
    const bool seen =
        store->stats().evicted_bytes > 0 && most_held > 0 && most > kCapacityBytes / 10 * 9;
    return now < end || (!seen && now < end + std::chrono::minutes(1));
  };
  while (goes_on() && !HasFailure()) {
    if (!own.mounted()) {
      scanning = true;
      pause.arrive_and_wait();
    }
    const uint64_t held = holders.unlinked_bytes();  // first: a file removed meanwhile counts once
    const uint64_t used =
        own.mounted() ? own.used_bytes() - before : linked_bytes(options.directory) + held;
    if (!own.mounted()) {
      scanning = false;
      pause.arrive_and_wait();
    }
    EXPECT_LE(used, own.mounted() ? kCapacityBytes : kCapacityBytes + kScanSlackBytes);
    EXPECT_LE(store->stats().used_bytes, kCapacityBytes);
    most = std::max(most, used);
    most_held = std::max(most_held, held);
    ++samples;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  stopping = true;
  for (std::thread& writer : writers) writer.join();
  holders.clear();
  EXPECT_GT(store->stats().evicted_bytes, 0u);
  EXPECT_GT(most_held, 0u) << "no holder kept an unlinked file";
  EXPECT_GT(most, kCapacityBytes / 10 * 9);
  fmt::print("capacity: {} samples on {}, at most {} of {} bytes, {} of them unlinked and held\n",
             samples, own.mounted() ? "a file system of its own" : "a shared file system", most,
             kCapacityBytes, most_held);
  store.close();
}

}  // namespace
}  // namespace leat
