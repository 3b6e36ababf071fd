// SPDX-License-Identifier: Apache-2.0
// Load: threads that write, read, pass to the kernel, drop and flush the objects of a working set
// until they are stopped. They compare every byte read.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "cache/torture/ledger_test.h"

namespace leat {

class Load {
 public:
  struct Options {
    size_t threads = 4;
    uint64_t seed = 0;
    // Writes nothing that would come near enough to the capacity to cause eviction.
    bool without_eviction = true;
  };
  Load(TestStore& store, const WorkingSet& set, Ledger& ledger, Options options)
      : store_(store), set_(set), ledger_(ledger), options_(options) {
    Chance chance(options.seed);
    for (size_t i = 0; i < options.threads; ++i) {
      threads_.emplace_back([this, seed = chance.seed()] { run(Chance(seed)); });
    }
  }
  ~Load() { stop(); }
  void stop() {
    stopping_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

 private:
  // More than all threads write at once.
  static constexpr uint64_t kMarginBytes = 8 * kMiB;

  void run(Chance chance) {
    std::vector<std::pair<FileRefPtr, std::shared_ptr<BackingFile>>> held;
    while (!stopping_ && !testing::Test::HasFailure()) {
      const size_t number = chance.below(set_.size());
      const FileRefPtr& ref = set_.at(number);
      const uint64_t what = chance.below(100);
      if (what < 50) {
        write(number, *ref, chance);
      } else if (what < 80) {
        read(ref, chance);
      } else if (what < 86) {
        // Held for a while, so that files are evicted and dropped while they are open.
        if (auto file = store_->backing(*ref)) held.emplace_back(ref, std::move(file));
        if (held.size() > 4 || (!held.empty() && chance.one_in(3))) {
          expect_right_through_kernel(*held.front().second, *held.front().first);
          held.erase(held.begin());
        }
      } else if (what < 94) {
        ledger_.drop(number, [&] { store_->drop(ref->id); });
      } else if (what < 96) {
        ledger_.flush([&] { return store_.flush().has_value(); });
      } else {
        store_->missing(*ref, {0, ref->size});
        EXPECT_LE(store_->stats().used_bytes, store_->stats().capacity_bytes);
      }
      if (options_.without_eviction) EXPECT_EQ(store_->stats().evicted_bytes, 0u);
    }
  }

  void write(size_t number, const FileRef& ref, Chance& chance) {
    const PageStoreStats stats = store_->stats();
    if (options_.without_eviction &&
        stats.used_bytes + kMarginBytes > stats.capacity_bytes / 10 * 9) {
      return;
    }
    ByteRange range{0, ref.size};
    const bool whole = WorkingSet::is_small(ref) || chance.one_in(2);
    if (!whole) {
      const uint64_t blocks = (ref.size + kBlockBytes - 1) / kBlockBytes;
      const uint64_t first = chance.below(blocks), count = 1 + chance.below(4);
      range = ByteRange{first * kBlockBytes, count * kBlockBytes}.clamp(ref.size);
    }
    auto shared = set_.at(number);
    ledger_.write(number, whole, [&] {
      return store_.write(shared, range.offset, content(ref, range)).has_value();
    });
  }

  void read(const FileRefPtr& ref, Chance& chance) {
    const uint64_t offset = chance.one_in(2) ? 0 : chance.below(ref->size);
    const ByteRange range =
        ByteRange{offset, 1 + chance.below(chance.one_in(3) ? ref->size : 9000)}.clamp(ref->size);
    if (auto hot = store_->try_read(*ref, range)) {
      EXPECT_TRUE(same(*hot, content(*ref, range))) << "wrong bytes at once of " << ref->key;
    } else {
      auto code = store_.read_fails(ref, range);
      EXPECT_EQ(code.value_or(StatusCode::kNotFound), StatusCode::kNotFound);
    }
  }

  TestStore& store_;
  const WorkingSet& set_;
  Ledger& ledger_;
  const Options options_;
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> threads_;
};

// Compares the state that a start found with the ledger.
inline void expect_ledger_state(TestStore& store, const WorkingSet& set, Ledger& ledger) {
  const std::vector<Ledger::Expected> expected = ledger.expected();
  std::vector<bool> there;
  for (size_t number = 0; number < set.size(); ++number) {
    const FileRefPtr& ref = set.at(number);
    there.push_back(expect_right_or_missing(store, ref));
    EXPECT_TRUE(there.back() || expected[number] != Ledger::Expected::kPresent)
        << number << " " << ref->key << " (" << ref->id.to_hex() << ", " << ref->size
        << " bytes) was flushed and is gone";
    EXPECT_TRUE(!there.back() || expected[number] != Ledger::Expected::kRemoved)
        << number << " " << ref->key << " (" << ref->id.to_hex() << ", " << ref->size
        << " bytes) was dropped and is back";
  }
  ledger.adopt_state(there);
  ledger.count_checked(set.size());
}

}  // namespace leat
