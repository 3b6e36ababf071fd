// SPDX-License-Identifier: Apache-2.0
#include "runtime/memfd_record_table.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <thread>

namespace leat {
namespace {

// The view of another process that received the descriptor.
std::unique_ptr<MemfdRecordTable> adopted(const MemfdRecordTable& records) {
  auto made = MemfdRecordTable::adopt(File(::fcntl(records.fd(), F_DUPFD_CLOEXEC, 3)));
  EXPECT_TRUE(made) << made.error().to_string();
  return made ? std::move(*made) : nullptr;
}

std::byte* add(MemfdRecordTable& records, std::string_view text) {
  std::byte* record = records.allocate(static_cast<uint32_t>(text.size()));
  if (record == nullptr) return nullptr;
  std::memcpy(record, text.data(), text.size());
  records.publish(record);
  return record;
}

std::multiset<std::string> texts(const MemfdRecordTable& records) {
  std::multiset<std::string> all;
  records.visit([&](std::span<std::byte> record) {
    all.emplace(reinterpret_cast<const char*>(record.data()), record.size());
  });
  return all;
}

TEST(MemfdRecordTable, SuccessorFindsOnlyPublishedRecords) {
  auto records = *MemfdRecordTable::create("test");
  std::byte* gone = add(*records, "gone");
  add(*records, "one");
  add(*records, std::string(MemfdRecordTable::kRecordBytesMax, 'x'));
  std::memcpy(records->allocate(3), "not", 3);  // not published
  records->free(gone);
  std::memcpy(records->head().data(), "head", 4);
  auto successor = adopted(*records);
  EXPECT_EQ(texts(*successor), (std::multiset<std::string>{
                                   "one", std::string(MemfdRecordTable::kRecordBytesMax, 'x')}));
  EXPECT_EQ(std::memcmp(successor->head().data(), "head", 4), 0);
}

TEST(MemfdRecordTable, FreedSpaceIsZeroedAndReused) {
  auto records = *MemfdRecordTable::create("test");
  std::byte* first = add(*records, std::string(100, 'x'));
  records->free(first);
  std::byte* second = records->allocate(100);
  EXPECT_EQ(second, first);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(second[i], std::byte{0});
}

TEST(MemfdRecordTable, FreedMemoryIsReturned) {
  auto records = *MemfdRecordTable::create("test");
  const uint64_t before = records->used_bytes();
  std::vector<std::byte*> all;
  for (int i = 0; i < 20'000; ++i) all.push_back(add(*records, std::string(200, 'x')));
  EXPECT_GT(records->used_bytes(), before + 4'000'000);
  for (std::byte* record : all) records->free(record);
  EXPECT_LT(records->used_bytes(), before + 600'000);
  for (std::byte*& record : all) record = add(*records, "y");
  EXPECT_EQ(texts(*adopted(*records)).size(), 20'000u);
}

TEST(MemfdRecordTable, AllocationFailsWithoutSpace) {
  auto records = *MemfdRecordTable::create("test", 1 << 20);
  int added = 0;
  while (add(*records, std::string(4000, 'x')) != nullptr) ++added;
  EXPECT_GT(added, 150);
  EXPECT_EQ(records->allocate(4000), nullptr);
  EXPECT_EQ(records->allocate(10), nullptr);  // another size needs its own chunk
}

TEST(MemfdRecordTable, DetachedTableChangesNothing) {
  auto records = *MemfdRecordTable::create("test");
  std::byte* one = add(*records, "one");
  std::vector<std::byte*> many;
  for (int i = 0; i < 5'000; ++i) many.push_back(add(*records, std::string(300, 'x')));
  const auto before = texts(*adopted(*records));
  ASSERT_TRUE(records->detach());
  records->free(one);
  for (std::byte* record : many) records->free(record);
  add(*records, "more");
  std::memcpy(records->head().data(), "head", 4);
  EXPECT_EQ(texts(*adopted(*records)), before);
  EXPECT_EQ(adopted(*records)->head()[0], std::byte{0});
  EXPECT_EQ(texts(*records), (std::multiset<std::string>{"more"}));
}

TEST(MemfdRecordTable, RandomOperationsAgainstAModel) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  auto records = *MemfdRecordTable::create("test");
  std::vector<std::pair<std::byte*, std::string>> model;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 2'000; ++i) {
      if (model.empty() || random() % 100 < (round % 4 == 3 ? 20u : 60u)) {
        const uint32_t size = random() % 10 == 0 ? 1 + random() % MemfdRecordTable::kRecordBytesMax
                                                 : 1 + random() % 300;
        std::string text(size, '\0');
        for (char& c : text) c = static_cast<char>(random());
        model.emplace_back(add(*records, text), text);
      } else {
        const size_t at = random() % model.size();
        records->free(model[at].first);
        model[at] = model.back();
        model.pop_back();
      }
    }
    std::multiset<std::string> expected;
    for (const auto& [record, text] : model) expected.insert(text);
    records = adopted(*records);  // continues there
    ASSERT_EQ(texts(*records), expected);
    model.clear();
    records->visit([&](std::span<std::byte> record) {
      model.emplace_back(record.data(),
                         std::string(reinterpret_cast<char*>(record.data()), record.size()));
    });
  }
}

TEST(MemfdRecordTable, ManyThreads) {
  auto records = *MemfdRecordTable::create("test");
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::byte*> mine;
      for (int i = 0; i < 5'000; ++i) {
        mine.push_back(
            add(*records, std::string(1 + (i * 7 + t) % 500, static_cast<char>('a' + t))));
        if (i % 3 == 2) {
          records->free(mine.front());
          mine.erase(mine.begin());
        }
      }
      for (size_t i = 100; i < mine.size(); ++i) records->free(mine[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(texts(*adopted(*records)).size(), 800u);
}

// Each record starts with its length and repeats one letter, so a torn one is visible.
[[noreturn]] void write_for_ever(MemfdRecordTable& records) {
  std::mt19937 random(1);
  std::vector<std::byte*> mine;
  while (true) {
    mine.push_back(
        add(records, std::string(1 + random() % 400, static_cast<char>('a' + random() % 26))));
    if (mine.size() > 500) {
      const size_t at = random() % mine.size();
      records.free(mine[at]);
      mine[at] = mine.back();
      mine.pop_back();
    }
  }
}

uint64_t bytes_touched(const MemfdRecordTable& records) {
  struct stat found;
  EXPECT_EQ(::fstat(records.fd(), &found), 0);
  return static_cast<uint64_t>(found.st_blocks) * 512;
}

TEST(MemfdRecordTable, AKilledWriterLeavesWholeRecords) {
  std::mt19937 random(7);
  for (int round = 0; round < 30; ++round) {
    auto records = *MemfdRecordTable::create("test");
    const pid_t child = ::fork();
    if (child == 0) write_for_ever(*records);
    // Any moment is fine: the child's progress is arbitrary. The table is not adopted while the
    // child writes, since the adopter writes, too.
    while (bytes_touched(*records) < 100'000) std::this_thread::yield();
    for (unsigned spins = random() % 2'000'000; spins > 0; --spins)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto all = texts(*adopted(*records));
    EXPECT_GE(all.size(), 1u);
    EXPECT_LE(all.size(), 502u);
    for (const std::string& text : all) {
      ASSERT_EQ(text.find_first_not_of(text[0]), std::string::npos) << text;
    }
  }
}

TEST(MemfdRecordTable, OtherMemoryIsRefused) {
  File empty(::memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(MemfdRecordTable::adopt(std::move(empty)).error().code(), StatusCode::kCorrupt);
  File zeros(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(zeros.fd(), 1 << 20), 0);
  EXPECT_EQ(MemfdRecordTable::adopt(std::move(zeros)).error().code(), StatusCode::kCorrupt);
  auto records = *MemfdRecordTable::create("test");
  const uint32_t future = 99;
  ASSERT_EQ(::pwrite(records->fd(), &future, sizeof future, 8), 4);
  File copy(::fcntl(records->fd(), F_DUPFD_CLOEXEC, 3));
  EXPECT_EQ(MemfdRecordTable::adopt(std::move(copy)).error().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace leat
