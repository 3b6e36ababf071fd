// SPDX-License-Identifier: Apache-2.0
#include "base/buffer_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace leat {
namespace {

TEST(BufferPool, MemoryIsAlignedAndAsLargeAsAsked) {
  for (size_t size : {1ul, 4095ul, 65'536ul, 110'000ul, (2ul << 20) + 1, 8ul << 20, 40ul << 20}) {
    std::byte* memory = allocate_buffer(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0u);
    std::memset(memory, 1, size);
    free_buffer(memory, size);
  }
}

TEST(BufferPool, WhatMemoryTakesGrowsWithItsSize) {
  size_t before = 4096;
  for (size_t size = 1; size <= 5 << 20; size += 1 + size / 100) {
    const size_t bytes = buffer_memory_bytes(size);
    EXPECT_GE(bytes, std::max(before, size)) << size;
    EXPECT_EQ(bytes % 4096, 0u) << size;
    before = bytes;
  }
  for (size_t whole : {64ul << 10, 128ul << 10, 2ul << 20, 8ul << 20}) {
    EXPECT_EQ(buffer_memory_bytes(whole), whole);
  }
  EXPECT_EQ(buffer_memory_bytes(200), 4096u);
  EXPECT_EQ(buffer_memory_bytes((64 << 10) - 1), 64u << 10);
  EXPECT_EQ(buffer_memory_bytes((64 << 10) + 1), 128u << 10);
  EXPECT_EQ(buffer_memory_bytes((2 << 20) + 1), 4u << 20);
}

TEST(BufferPool, SmallOnesLeaveTheRoomToLargeOnes) {
  const size_t before = pooled_buffer_bytes();
  std::vector<std::byte*> taken;
  for (int i = 0; i < 20'000; ++i) taken.push_back(allocate_buffer(200));
  for (std::byte* memory : taken) free_buffer(memory, 200);
  EXPECT_LE(pooled_buffer_bytes(), before + kPooledBufferBytesMax / 16);
}

TEST(BufferPool, KeepsNoMoreThanItMay) {
  std::vector<std::byte*> taken;
  for (int i = 0; i < 20; ++i) taken.push_back(allocate_buffer(8 << 20));
  for (std::byte* memory : taken) free_buffer(memory, 8 << 20);
  EXPECT_LE(pooled_buffer_bytes(), kPooledBufferBytesMax);
}

TEST(BufferPool, NobodyGetsWhatSomebodyHas) {
  auto work = [](unsigned seed) {
    std::mt19937 random(seed);
    struct Held {
      std::byte* memory;
      size_t size;
      std::byte mark;
    };
    std::vector<Held> held;
    for (int i = 0; i < 2'000; ++i) {
      if (held.size() < 8) {
        const size_t size = 1 + (random() % 2 == 0 ? random() % 70'000 : random() % 400'000);
        std::byte* memory = allocate_buffer(size);
        const std::byte mark = std::byte(random());
        memory[0] = memory[size - 1] = mark;
        held.push_back({memory, size, mark});
        continue;
      }
      std::swap(held[random() % held.size()], held.back());
      const Held last = held.back();
      held.pop_back();
      ASSERT_EQ(last.memory[0], last.mark);
      ASSERT_EQ(last.memory[last.size - 1], last.mark);
      free_buffer(last.memory, last.size);
    }
    for (const Held& left : held) free_buffer(left.memory, left.size);
  };
  std::vector<std::jthread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
}

}  // namespace
}  // namespace leat
