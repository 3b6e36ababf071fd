// SPDX-License-Identifier: Apache-2.0
#include "base/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace leat {
namespace {

TEST(BufferPool, MemoryIsAlignedAndAsLargeAsAsked) {
  for (size_t size : {1ul, 4095ul, 65'536ul, 110'000ul, (2ul << 20) + 1, 8ul << 20, 40ul << 20}) {
    std::byte* memory = take_buffer_memory(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0u);
    std::memset(memory, 1, size);
    give_buffer_memory(memory, size);
  }
}

TEST(BufferPool, KeepsNoMoreThanItMay) {
  std::vector<std::byte*> taken;
  for (int i = 0; i < 20; ++i) taken.push_back(take_buffer_memory(8 << 20));
  for (std::byte* memory : taken) give_buffer_memory(memory, 8 << 20);
  EXPECT_LE(buffer_bytes_kept(), kBufferBytesKept);
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
        const size_t size = 60'000 + random() % 300'000;
        std::byte* memory = take_buffer_memory(size);
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
      give_buffer_memory(last.memory, last.size);
    }
    for (const Held& left : held) give_buffer_memory(left.memory, left.size);
  };
  std::vector<std::jthread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
}

}  // namespace
}  // namespace leat
