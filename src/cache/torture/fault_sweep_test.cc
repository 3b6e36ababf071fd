// SPDX-License-Identifier: Apache-2.0
// A disk that fails at any one call, or from any call on, with EIO, with ENOSPC, or both in turn.
// Two lives have both kinds of objects, eviction, drops and fd passing to the kernel. No byte is
// wrong, no read fails except with "missing", and no capacity is lost. When the disk works again
// the store does.
//
// LEAT_TORTURE_FAULT_STEP: step between failing calls; 1: all. LEAT_TORTURE_SEED: repeats a run.
#include <gtest/gtest.h>

#include <cerrno>
#include <thread>

#include "cache/torture/working_set_test.h"

namespace leat {
namespace {

constexpr uint64_t kCapacityBytes = 5 * kMiB;
// Superblock and scrub, their successors, lock, probe.
constexpr uint64_t kEmptyBytes = 6 * 4096;

struct How {
  const char* name;
  bool for_good;
  std::vector<int> failures;  // in turn
};

// Counts failed unlinks: such files stay charged until the next start.
class UnlinkCounter : public FaultyDisk {
 public:
  using FaultyDisk::FaultyDisk;
  Result<> unlink(const std::string& path) override {
    Result<> done = FaultyDisk::unlink(path);
    if (!done && done.error().code() != StatusCode::kNotFound) ++refused_;
    return done;
  }
  uint64_t refused() const { return refused_; }

 private:
  std::atomic<uint64_t> refused_ = 0;
};

class Sweep {
 public:
  Sweep() : executor_({.threads = 1}) {
    disk_ = std::make_shared<UnlinkCounter>(make_disk(executor_));
  }

  // Runs a life in which call `fails_at` fails; 0: none. Returns its number of calls.
  uint64_t run(const How& how, uint64_t fails_at) {
    disk_->fault = [=](FaultyDisk::Call, uint64_t number) {
      const bool fails = fails_at > 0 && (how.for_good ? number >= fails_at : number == fails_at);
      return fails ? how.failures[number % how.failures.size()] : 0;
    };
    {
      TestStore store(options(), disk_);
      if (store.ok()) first_life(store);
    }
    {
      TestStore store(options(), disk_);
      if (store.ok()) second_life(store);
      const uint64_t calls = disk_->calls;
      disk_->fault = nullptr;
      if (store.ok()) {
        expect_empties(store);
        expect_works(store);
        store.close();
      }
      calls_ = calls;
    }
    TestStore store(options(), disk_);
    EXPECT_TRUE(store.ok()) << store.failure().to_string();
    if (!store.ok()) return calls_;
    for (size_t number = 0; number < set_.size(); ++number) {
      expect_right_or_missing(store, set_.at(number));
    }
    expect_works(store);
    expect_empties(store);
    // Nothing can be in the way by now.
    until([&] { return store->stats().used_bytes == kEmptyBytes; });
    store.close();
    EXPECT_LE(disk_bytes(directory_.path()), kEmptyBytes);
    return calls_;
  }

 private:
  PageStoreOptions options() const {
    PageStoreOptions options = TestStore::options(directory_.path());
    options.capacity_bytes = kCapacityBytes;
    options.compact_interval = std::chrono::milliseconds(2);
    return options;
  }

  void fill(TestStore& store, size_t from, size_t to) {
    for (size_t number = from; number < to; ++number) {
      const FileRefPtr& ref = set_.at(number);
      Result<> kept = store.write_whole(ref);
      if (!kept) EXPECT_FALSE(kept.error().message().empty());
      expect_right_or_missing(store, ref);
    }
    EXPECT_LE(store->stats().used_bytes, kCapacityBytes);
    EXPECT_LE(disk_bytes(directory_.path()), kCapacityBytes);
  }

  void first_life(TestStore& store) {
    fill(store, 0, 8);
    Result<> flushed = store.flush();
    static_cast<void>(flushed);
    store->drop(set_.at(1)->id);
    store->drop(set_.at(2)->id);
    fill(store, 1, 3);
    // More than the capacity.
    fill(store, 8, set_.size());
    // So many are dropped that compaction moves the rest of their segments.
    for (size_t number = 0; number < set_.size(); ++number) {
      if (number % 5 != 0) store->drop(set_.at(number)->id);
    }
    flushed = store.flush();
    fill(store, 4, 8);
    store.close();
  }

  void second_life(TestStore& store) {
    for (size_t number = 0; number < set_.size(); ++number) {
      expect_right_or_missing(store, set_.at(number));
    }
    fill(store, 0, 6);
    Result<> flushed = store.flush();
    static_cast<void>(flushed);
  }

  // The capacity of everything dropped returns, except for files that could not be unlinked.
  void expect_empties(TestStore& store) {
    for (size_t number = 0; number < set_.size(); ++number) store->drop(set_.at(number)->id);
    Result<> flushed = store.flush();  // waits for the removals
    static_cast<void>(flushed);
    until([&] {
      if (store->stats().used_bytes <= kEmptyBytes) return true;
      // Unlinked bytes are released when a compaction that could not sync finds no segment.
      const bool gone = store->stats().files == 0 && only_strange_segments(store);
      return gone && store->stats().unlinked_bytes == 0 && keeps_some();
    });
    EXPECT_EQ(store->stats().files, 0u);
    EXPECT_EQ(store->stats().packed_objects, 0u);
    EXPECT_TRUE(only_strange_segments(store)) << store->stats().segments;
    if (!keeps_some()) EXPECT_EQ(store->stats().used_bytes, kEmptyBytes);
    EXPECT_GE(store->stats().used_bytes, disk_bytes(directory_.path()));
  }

  // Files that could not be unlinked stay counted. Files that the start could not read stay in
  // place, and counted.
  bool keeps_some() const {
    return disk_->refused() > 0 || !files_ending(directory_.path(), ".data").empty();
  }

  // Returns true if no segments are left, or only those with tombstones for segments that could not
  // be read or removed.
  bool only_strange_segments(TestStore& store) const {
    const std::string folder = directory_.path() + "/segments";
    const uint64_t known = store->stats().segments;
    return known == 0 || files_ending(folder, ".data").size() > known ||
           files_ending(folder, ".index").size() > known;
  }

  void expect_works(TestStore& store) {
    for (size_t number = 0; number < 4; ++number) {
      const FileRefPtr& ref = set_.at(number);
      // At first a file may be in the way, or eviction does not know yet that there is room.
      Result<> kept;
      until([&] {
        kept = store.write_whole(ref);
        return kept.has_value();
      });
      EXPECT_TRUE(kept) << kept.error().to_string();
      EXPECT_TRUE(store.holds(ref)) << ref->key;
    }
    EXPECT_TRUE(store.flush());
  }

  TempDirectory directory_;
  Executor executor_;
  std::shared_ptr<UnlinkCounter> disk_;
  const WorkingSet set_{40};
  uint64_t calls_ = 0;
};

class FaultSweep : public testing::TestWithParam<How> {};

TEST_P(FaultSweep, AtEachCall) {
  const How& how = GetParam();
  const uint64_t seed = torture_seed();
  SCOPED_TRACE(testing::Message() << how.name << ", LEAT_TORTURE_SEED=" << seed);
  const uint64_t step = from_environment("LEAT_TORTURE_FAULT_STEP", 90);
  const uint64_t calls = Sweep().run(how, 0);
  EXPECT_GT(calls, 200u);
  uint64_t lives = 0;
  for (uint64_t n = 1 + Chance(seed).below(step); n <= calls && !HasFailure(); n += step) {
    SCOPED_TRACE(testing::Message() << "call " << n << " of " << calls);
    Sweep().run(how, n);
    ++lives;
  }
  fmt::print("faults, {}: {} of {} calls\n", how.name, lives, calls);
}

INSTANTIATE_TEST_SUITE_P(, FaultSweep,
                         testing::Values(How{"eio", false, {EIO}}, How{"enospc", false, {ENOSPC}},
                                         How{"eio_for_good", true, {EIO}},
                                         How{"enospc_for_good", true, {ENOSPC}},
                                         How{"both_for_good", true, {EIO, ENOSPC}}),
                         [](const auto& info) { return std::string(info.param.name); });

void PrintTo(const How& how, std::ostream* out) {
  *out << how.name;
}

// A file that the last run could not remove is in no index; the next run must not trust it.
TEST(UnvouchedFile, ThatIsDamagedAndCannotBeRemoved) {
  TempDirectory directory;
  Executor executor({.threads = 1});
  auto disk = std::make_shared<FaultyDisk>(make_disk(executor));
  const PageStoreOptions options = TestStore::options(directory.path());
  auto file = object("file", 3 * kBlockBytes);
  {
    TestStore store(options);
    ASSERT_TRUE(store.write_whole(file));
    store.close();
  }
  flip_bit(file_of(directory.path(), file, ".data"), kBlockBytes + 5);
  {
    TestStore store(options, disk);
    EXPECT_EQ(store.read_fails(file, {0, 10}), std::nullopt);  // opens it
    disk->fault = [](FaultyDisk::Call call, uint64_t) {
      return call == FaultyDisk::Call::kMetadata ? EIO : 0;
    };
    EXPECT_EQ(store.read_fails(file, {kBlockBytes, 10}), StatusCode::kNotFound);
    while (store->stats().files > 0) std::this_thread::yield();
    disk->fault = nullptr;
    store.close();
  }
  TestStore store(options);
  if (auto backing = store->backing(*file)) expect_right_through_kernel(*backing, *file);
  EXPECT_EQ(store.read_fails(file, {kBlockBytes, 10}), StatusCode::kNotFound);
}

// A file with an unreadable record at one start, after a stop that was not clean, was never
// verified.
TEST(UnvouchedFile, ThatAStartCouldNotRead) {
  TempDirectory directory;
  Executor executor({.threads = 1});
  auto disk = std::make_shared<FaultyDisk>(make_disk(executor));
  auto file = object("file", 3 * kBlockBytes);
  TestStore killed(TestStore::options(directory.path()));
  ASSERT_TRUE(killed.write_whole(file));
  ASSERT_TRUE(killed.flush());
  for (uint64_t n = 1; n < 60; ++n) {
    SCOPED_TRACE(testing::Message() << "call " << n);
    auto copy = crash_copy(directory.path());
    flip_bit(file_of(copy->path(), file, ".data"), kBlockBytes + 5);
    const PageStoreOptions options = TestStore::options(copy->path());
    disk->calls = 0;
    disk->fault = [n](FaultyDisk::Call, uint64_t number) { return number == n ? EIO : 0; };
    {
      TestStore store(options, disk);
      if (store.ok()) store.close();
    }
    disk->fault = nullptr;
    TestStore store(options);
    ASSERT_TRUE(store.ok());
    if (auto backing = store->backing(*file)) expect_right_through_kernel(*backing, *file);
  }
}

}  // namespace
}  // namespace leat
