// SPDX-License-Identifier: Apache-2.0
#include "cache/packed/packed_index.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

namespace leat {
namespace {

FileId random_id(std::mt19937_64& random) {
  FileId id;
  for (int half = 0; half < 2; ++half) {
    uint64_t bits = random();
    std::memcpy(id.bytes.data() + 8 * half, &bits, sizeof bits);
  }
  return id;
}

// Returns an id with its home at or near the last bucket of a table of this size.
FileId id_at_the_end(std::mt19937_64& random) {
  FileId id = random_id(random);
  for (int i = 4; i < 8; ++i) id.bytes[i] = 0xff;
  return id;
}

TEST(PackedIndex, HoldsWhatAMapHolds) {
  std::mt19937_64 random(7);
  PackedIndex index;
  std::map<FileId, uint32_t> model;
  std::vector<FileId> known;
  for (int step = 0; step < 200'000; ++step) {
    const bool crowded = random() % 64 == 0;
    if (known.empty() || random() % 2 == 0) {
      known.push_back(crowded ? id_at_the_end(random) : random_id(random));
    }
    const FileId& id = known[random() % known.size()];
    const auto size = static_cast<uint32_t>(1 + random() % PackedIndex::kSizeMax);
    switch (random() % 4) {
      case 0:
      case 1:
        index.put(
            id, {.segment = size % 7, .page = 1, .crc = 2, .size = size, .verified = 0, .read = 0});
        model[id] = size;
        break;
      case 2:
        ASSERT_EQ(index.erase(id), model.erase(id) == 1);
        break;
      default:
        const PackedIndex::Entry* found = index.find(id);
        ASSERT_EQ(found != nullptr, model.contains(id));
        if (found != nullptr) ASSERT_EQ(found->size, model[id]);
    }
    ASSERT_EQ(index.size(), model.size());
    if (step % 20'000 == 0) {
      index.erase_if([](const PackedIndex::Entry& entry) { return entry.segment == 3; });
      std::erase_if(model, [](const auto& item) { return item.second % 7 == 3; });
      ASSERT_EQ(index.size(), model.size());
      for (const auto& [one, its_size] : model) {
        ASSERT_NE(index.find(one), nullptr);
        ASSERT_EQ(index.find(one)->size, its_size);
      }
    }
  }
}

TEST(PackedIndex, IsDense) {
  std::mt19937_64 random(8);
  PackedIndex index;
  for (size_t count = 1; count <= 300'000; ++count) {
    index.put(random_id(random),
              {.segment = 1, .page = 1, .crc = 1, .size = 1, .verified = 0, .read = 0});
    if (count > 1000) ASSERT_LE(index.heap_bytes(), 61 * count) << count;
  }
}

TEST(PackedIndex, EmptyKnowsNothing) {
  std::mt19937_64 random(9);
  PackedIndex index;
  const FileId id = random_id(random);
  EXPECT_EQ(index.find(id), nullptr);
  EXPECT_FALSE(index.erase(id));
  index.erase_if([](const auto&) { return true; });
  EXPECT_EQ(index.size(), 0u);
}

}  // namespace
}  // namespace leat
