// SPDX-License-Identifier: Apache-2.0
// Power cuts: a store works on a PowerCutDisk. At a random moment its directory is written as a
// power cut could leave it, at work, at start or after a clean close. The next store continues
// there. No wrong byte is served or passed to the kernel. Flushed objects are there; the store
// opens without help, and repairs itself.
//
// LEAT_TORTURE_POWER_CUTS: rounds. LEAT_TORTURE_SEED: repeats a run (except for thread scheduling).
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "cache/torture/load_test.h"
#include "cache/torture/power_cut_disk_test.h"

namespace leat {
namespace {

constexpr size_t kObjects = 60;
constexpr uint64_t kAmpleBytes = 96 * kMiB, kScarceBytes = 8 * kMiB;
constexpr uint64_t kRoundsOfADirectory = 10;

// A life on the directory of the previous life, ended by a power cut.
class Chain {
 public:
  Chain(uint64_t seed, bool scarce) : chance_(seed), scarce_(scarce) {
    if (scarce_) ledger_.may_be_evicted();
  }

  void one() {
    auto disk = std::make_shared<PowerCutDisk>(make_disk(executor_), directory_->path());
    auto next = std::make_unique<TempDirectory>();
    const uint64_t how = chance_.below(8);
    SCOPED_TRACE(testing::Message() << "way " << how << (scarce_ ? ", scarce" : ""));
    if (how == 0) {
      cut_while_starting(disk, *next);
    } else {
      TestStore store(options(), disk);
      ASSERT_TRUE(store.ok()) << store.failure().to_string();
      ++opens_;
      look(store);
      work(store);
      if (how < 3) {
        cut_after_close(store, *disk, *next);
      } else {
        cut(*disk, *next);
        load_.reset();
      }
    }
    load_.reset();
    if (testing::Test::HasFailure()) return;
    directory_ = std::move(next);
    if (chance_.one_in(3)) heal();
  }

  uint64_t opens() const { return opens_; }
  uint64_t checked() const { return ledger_.checked(); }

 private:
  PageStoreOptions options() const {
    PageStoreOptions options = TestStore::options(directory_->path());
    options.capacity_bytes = scarce_ ? kScarceBytes : kAmpleBytes;
    options.compact_interval = std::chrono::milliseconds(2);
    return options;
  }

  void look(TestStore& store) {
    expect_only_pairs(directory_->path());
    EXPECT_LE(disk_bytes(directory_->path()), options().capacity_bytes);
    expect_ledger_state(store, set_, ledger_);
    if (chance_.one_in(2)) return;
    // Verified by now, or as soon as the background is done: passed to the kernel, and right.
    for (size_t number = 0; number < set_.size(); ++number) {
      if (auto file = store->backing(*set_.at(number))) {
        expect_right_through_kernel(*file, *set_.at(number));
      }
    }
  }

  void work(TestStore& store) {
    load_ = std::make_unique<Load>(
        store, set_, ledger_,
        Load::Options{.threads = 3, .seed = chance_.seed(), .without_eviction = !scarce_});
    std::this_thread::sleep_for(std::chrono::milliseconds(chance_.below(150)));
    if (chance_.one_in(3)) ledger_.flush([&] { return store.flush().has_value(); });
  }

  // Expectations are fixed before the cut: no drop may happen in between.
  void cut(const PowerCutDisk& disk, const TempDirectory& next) {
    ledger_.end_with([&] { disk.cut(next.path(), chance_); });
  }

  void cut_after_close(TestStore& store, const PowerCutDisk& disk, const TempDirectory& next) {
    load_->stop();
    if (chance_.one_in(2)) {
      // Some are dropped for the last time, and are gone.
      for (int i = 0; i < 5; ++i) {
        const size_t number = chance_.below(set_.size());
        ledger_.drop(number, [&] { store->drop(set_.at(number)->id); });
      }
    }
    ledger_.flush([&] {
      store.close();
      return true;
    });
    cut(disk, next);
  }

  void cut_while_starting(const std::shared_ptr<PowerCutDisk>& disk, const TempDirectory& next) {
    const std::chrono::microseconds after(chance_.below(20'000));
    std::thread cutter([&] {
      std::this_thread::sleep_for(after);
      cut(*disk, next);
    });
    {
      TestStore store(options(), disk);
      EXPECT_TRUE(store.ok()) << store.failure().to_string();
      ++opens_;
    }
    cutter.join();
  }

  // Opened and closed once, the next start finds nothing to report.
  void heal() {
    {
      TestStore store(options());
      ASSERT_TRUE(store.ok()) << store.failure().to_string();
      expect_ledger_state(store, set_, ledger_);
      store.close();
    }
    TestStore store(options());
    ASSERT_TRUE(store.ok()) << store.failure().to_string();
    opens_ += 2;
    expect_only_pairs(directory_->path());
    for (size_t number = 0; number < set_.size(); ++number) {
      const FileRefPtr& ref = set_.at(number);
      const bool complete = !store->packed(*ref) && store->cached_bytes(*ref) == ref->size;
      if (!complete) continue;
      EXPECT_TRUE(store.holds(ref)) << ref->key;
      EXPECT_NE(store->backing(*ref), nullptr) << ref->key << ", all of which was read";
    }
    expect_ledger_state(store, set_, ledger_);
    EXPECT_EQ(store->stats().corrupt_blocks, 0u);
  }

  Chance chance_;
  const bool scarce_;
  const WorkingSet set_{kObjects};
  Ledger ledger_{set_, ""};
  Executor executor_{{.threads = 1}};
  std::unique_ptr<TempDirectory> directory_ = std::make_unique<TempDirectory>();
  std::unique_ptr<Load> load_;
  uint64_t opens_ = 0;
};

TEST(PowerCut, AtAnyMomentAndWhatIsLeftIsRight) {
  Chance chance(torture_seed());
  const uint64_t rounds = from_environment("LEAT_TORTURE_POWER_CUTS", 20);
  uint64_t opens = 0, checked = 0;
  for (uint64_t round = 0; round < rounds && !testing::Test::HasFailure();) {
    const uint64_t seed = chance.seed();
    Chain chain(seed, chance.one_in(3));
    for (uint64_t i = 0; i < kRoundsOfADirectory && round < rounds; ++i, ++round) {
      SCOPED_TRACE(testing::Message() << "round " << round << ", cut " << i << " of " << seed);
      chain.one();
      if (testing::Test::HasFailure()) break;
    }
    opens += chain.opens();
    checked += chain.checked();
  }
  fmt::print("power cuts: {} rounds, {} opens, compared {} objects\n", rounds, opens, checked);
}

}  // namespace
}  // namespace leat
