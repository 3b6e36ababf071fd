// SPDX-License-Identifier: Apache-2.0
#include "cache/eviction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace leat {
namespace {

FileId id_of(uint32_t number) {
  FileId id;
  std::memcpy(id.bytes.data(), &number, sizeof number);
  return id;
}

// The algorithm as the paper describes it, with vectors and linear searches.
class Reference {
 public:
  struct Item {
    uint32_t number;
    uint64_t bytes;
    int uses = 0;
  };

  void insert(uint32_t number, uint64_t bytes) {
    auto ghost = std::ranges::find(ghosts_, number);
    bool seen = ghost != ghosts_.end();
    if (seen) ghosts_.erase(ghost);
    (seen ? main_ : small_).push_back({number, bytes});
  }
  void use(uint32_t number) {
    for (auto* queue : {&small_, &main_}) {
      for (Item& item : *queue) {
        if (item.number == number) item.uses = std::min(3, item.uses + 1);
      }
    }
  }
  void remove(uint32_t number) {
    for (auto* queue : {&small_, &main_}) {
      std::erase_if(*queue, [&](const Item& item) { return item.number == number; });
    }
  }
  std::optional<uint32_t> evict() {
    while (!small_.empty() || !main_.empty()) {
      uint64_t small = sum(small_), main = sum(main_);
      if (!small_.empty() && (main_.empty() || small * 10 >= small + main)) {
        Item item = pop(small_);
        if (item.uses <= 1) {
          ghosts_.push_back(item.number);
          // Order matters: the queue's length is taken before the item leaves.
          while (ghosts_.size() > std::max<size_t>(main_.size(), 64))
            ghosts_.erase(ghosts_.begin());
          return item.number;
        }
        main_.push_back({item.number, item.bytes});
      } else {
        Item item = pop(main_);
        if (item.uses == 0) return item.number;
        main_.push_back({item.number, item.bytes, item.uses - 1});
      }
    }
    return std::nullopt;
  }

 private:
  static uint64_t sum(const std::vector<Item>& items) {
    uint64_t bytes = 0;
    for (const Item& item : items) bytes += item.bytes;
    return bytes;
  }
  static Item pop(std::vector<Item>& items) {
    Item item = items.front();
    items.erase(items.begin());
    return item;
  }
  std::vector<Item> small_, main_;
  std::vector<uint32_t> ghosts_;
};

TEST(S3Fifo, DoesAsTheReference) {
  unsigned seed = std::random_device()();
  RecordProperty("seed", static_cast<int>(seed));
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  S3Fifo fifo;
  Reference reference;
  std::map<uint32_t, std::shared_ptr<Evictable>> live;
  for (int step = 0; step < 20'000; ++step) {
    uint32_t number = random() % 400;
    switch (random() % 8) {
      case 0: {
        auto evicted = fifo.evict();
        auto expected = reference.evict();
        ASSERT_EQ(evicted.has_value(), expected.has_value()) << step;
        if (!evicted) break;
        ASSERT_EQ(*evicted, id_of(*expected)) << step;
        live.erase(*expected);
        break;
      }
      case 1:
        if (random() % 4 != 0) break;
        fifo.remove(id_of(number));
        reference.remove(number);
        live.erase(number);
        break;
      default:
        if (live.contains(number)) {
          live[number]->touch();
          reference.use(number);
        } else {
          uint64_t bytes = 1 + random() % 100;
          live[number] = std::make_shared<Evictable>();
          fifo.insert(id_of(number), live[number], bytes, step);
          reference.insert(number, bytes);
        }
    }
    ASSERT_EQ(fifo.size(), live.size());
  }
}

TEST(S3Fifo, WhatIsUsedOutlivesAScan) {
  S3Fifo fifo;
  std::map<uint32_t, std::shared_ptr<Evictable>> objects;
  for (uint32_t number = 0; number < 50; ++number) {
    objects[number] = std::make_shared<Evictable>();
    objects[number]->touch();
    fifo.insert(id_of(number), objects[number], 10, number);
  }

  for (uint32_t scanned = 1000; scanned < 1020; ++scanned) {
    fifo.insert(id_of(scanned), std::make_shared<Evictable>(), 10, scanned);
  }
  for (uint32_t scanned = 1020; scanned < 3000; ++scanned) {
    for (uint32_t number = 0; number < 50; ++number) objects[number]->touch();
    fifo.insert(id_of(scanned), std::make_shared<Evictable>(), 10, scanned);
    auto evicted = fifo.evict();
    ASSERT_TRUE(evicted);
    uint32_t number;
    std::memcpy(&number, evicted->bytes.data(), sizeof number);
    ASSERT_GE(number, 1000u);
  }
}

TEST(S3Fifo, APromotedObjectIsAsYoungAsTheNewest) {
  S3Fifo fifo;
  auto used = std::make_shared<Evictable>();
  fifo.insert(id_of(1), used, 10, /*birth_ns=*/3);
  for (int i = 0; i < 2; ++i) used->touch();
  fifo.insert(id_of(2), std::make_shared<Evictable>(), 10, /*birth_ns=*/7);
  EXPECT_EQ(fifo.oldest_birth(), 3);
  EXPECT_EQ(fifo.evict(), id_of(2));
  EXPECT_EQ(fifo.oldest_birth(), 7);
}

TEST(S3Fifo, HeldFilesStayAndAllHeldIsNothing) {
  S3Fifo fifo;
  auto held = std::make_shared<Evictable>(), free = std::make_shared<Evictable>();
  held->holders = 1;
  fifo.insert(id_of(1), held, 10, 1);
  EXPECT_EQ(fifo.evict(), std::nullopt);
  fifo.insert(id_of(2), free, 10, 2);
  EXPECT_EQ(fifo.evict(), id_of(2));
  EXPECT_EQ(fifo.evict(), std::nullopt);
  held->holders = 0;
  EXPECT_EQ(fifo.evict(), id_of(1));
  EXPECT_EQ(fifo.oldest_birth(), std::nullopt);
}

}  // namespace
}  // namespace leat
