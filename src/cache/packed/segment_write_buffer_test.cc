// SPDX-License-Identifier: Apache-2.0
#include "cache/packed/segment_write_buffer.h"

#include <gtest/gtest.h>

#include <barrier>
#include <latch>
#include <thread>

#include "base/read_file.h"
#include "cache/store_fixture_test.h"

namespace leat {
namespace {

constexpr uint64_t kPiece = SegmentWriteBuffer::kPieceBytes;

Bytes in_slices(const Bytes& whole, size_t of) {
  Bytes parts;
  for (size_t at = 0; at < whole.size(); at += of) parts.append(whole.sub(at, of));
  return parts;
}

TEST(SegmentWriteBuffer, ReservationMaySpanPieces) {
  SegmentWriteBuffer buffer;
  const uint64_t sizes[] = {5000, kPiece - 8192, 3 * kPiece + 1, 4096};
  uint64_t offset = 0, pieces = 0;
  std::vector<std::pair<uint64_t, Bytes>> filled;
  for (uint64_t size : sizes) {
    const uint64_t end = offset + align_up(size, 4096);
    const uint64_t more = (end + kPiece - 1) / kPiece - pieces;
    Bytes data = content(object(std::to_string(size), size));
    SegmentWriteBuffer::fill(buffer.reserve(offset, more), in_slices(data, 70'001));
    filled.emplace_back(offset, data);
    pieces += more;
    offset = end;
  }
  for (const auto& [at, data] : filled) {
    Buffer out(data.size());
    ASSERT_TRUE(buffer.read(at, out.span()));
    EXPECT_TRUE(same(Bytes(std::move(out)), data)) << at;
  }
  SegmentWriteBuffer::Batch batch = buffer.take_batch(offset);
  ASSERT_EQ(batch.payload.size(), offset);
  std::string written = batch.payload.to_string();
  for (const auto& [at, data] : filled) {
    EXPECT_EQ(written.substr(at, data.size()), data.to_string());
    const uint64_t padding = align_up(data.size(), 4096) - data.size();
    EXPECT_EQ(written.substr(at + data.size(), padding), std::string(padding, '\0'));
  }
  EXPECT_EQ(buffer.mark_written(offset), offset / kPiece);
  Buffer out(10);
  EXPECT_FALSE(buffer.read(0, out.span())) << "it is in the file now";
  EXPECT_FALSE(buffer.any_below(offset));
}

TEST(SegmentWriteBuffer, RecordsAreWrittenWithTheirPayload) {
  SegmentWriteBuffer buffer;
  for (uint64_t i = 0; i < 3; ++i) {
    SegmentWriteBuffer::fill(buffer.reserve(i * 4096, i == 0), content(object("x", 4096)));
  }
  buffer.add_record(3 * 4096, "third");
  buffer.add_record(4096, "first");
  buffer.add_record(2 * 4096, "second");
  EXPECT_EQ(buffer.take_batch(2 * 4096).records, "firstsecond");
  EXPECT_EQ(buffer.mark_written(2 * 4096), 0u) << "its piece is not full";
  buffer.add_record(2 * 4096, "tombstone");  // added while the batch was being written
  EXPECT_TRUE(buffer.any_below(2 * 4096));
  SegmentWriteBuffer::Batch rest = buffer.take_batch(3 * 4096);
  EXPECT_EQ(rest.records, "thirdtombstone");
  EXPECT_EQ(rest.offset, 2 * 4096u);
  EXPECT_EQ(rest.payload.size(), 4096u);
}

TEST(SegmentWriteBuffer, ObjectsAreReadableWhileBeingWritten) {
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 3; ++writer) {
    threads.emplace_back([&, writer] {
      for (int i = 0; i < 120; ++i) {
        auto ref = object(fmt::format("{}/{}", writer, i), 1 + (i * 7919u) % 90'000);
        ASSERT_TRUE(store.write_whole(ref));
        auto hot = store->try_read(*ref, {0, ref->size});
        if (hot) EXPECT_TRUE(same(*hot, content(ref)));
        auto earlier = object(fmt::format("{}/{}", writer, i / 2), 1 + (i / 2 * 7919u) % 90'000);
        EXPECT_TRUE(store.holds(earlier));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store->stats().packed_objects, 360u);
  EXPECT_EQ(store->stats().corrupt_blocks, 0u);
  EXPECT_LE(disk_bytes(directory.path()), store->stats().used_bytes);
  store.close();
  TestStore again(TestStore::options(directory.path()));
  for (int i = 0; i < 120; ++i) {
    EXPECT_TRUE(again.holds(object(fmt::format("1/{}", i), 1 + (i * 7919u) % 90'000))) << i;
  }
}

// Objects across the ends of pieces, read while the earlier pieces are written.
TEST(SegmentWriteBuffer, ObjectInSeveralPiecesIsReadWhole) {
  TempDirectory directory;
  auto options = TestStore::options(directory.path());
  options.capacity_bytes = 512 * kMiB;
  options.packed_bytes_max = 1 * kMiB;
  options.segment_bytes = 16 * kMiB;
  TestStore store(options);
  for (int i = 0; i < 100; ++i) {
    auto ref = object(fmt::format("{}", i), 700'000);
    ASSERT_TRUE(store.write_whole(ref));
    for (int before = std::max(0, i - 3); before <= i; ++before) {
      auto earlier = object(fmt::format("{}", before), 700'000);
      EXPECT_EQ(store.read_fails(earlier, {1000, 10}), std::nullopt) << i << " " << before;
      EXPECT_TRUE(store.holds(earlier)) << i << " " << before;
    }
  }
  EXPECT_EQ(store->stats().corrupt_blocks, 0u);
}

// The disk fails while other writers fill their reservations.
TEST(SegmentWriteBuffer, WritersSurviveAFailingDisk) {
  TempDirectory directory;
  Executor executor({.threads = 1});
  auto disk = std::make_shared<FaultyDisk>(make_disk(executor));
  auto options = TestStore::options(directory.path());
  options.segment_bytes = 16 * kMiB;
  options.capacity_bytes = 512 * kMiB;
  TestStore store(options, disk);
  disk->fault = [](FaultyDisk::Call call, uint64_t number) {
    return call == FaultyDisk::Call::kWrite && number % 5 == 0 ? EIO : 0;
  };
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&, writer] {
      for (int i = 0; i < 300; ++i) {
        auto ref = object(fmt::format("{}/{}", writer, i), 100'000 + i * 13u);
        Result<> kept = store.write_whole(ref);
        static_cast<void>(kept);
        store.read_fails(object(fmt::format("{}/{}", writer, i / 2), 100'000 + i / 2 * 13u),
                         {0, 100'000});
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  disk->fault = nullptr;
  EXPECT_EQ(store->stats().corrupt_blocks, 0u);
  auto after = object("after", 5000);
  ASSERT_TRUE(store.write_whole(after));
  ASSERT_TRUE(store.flush());
  EXPECT_TRUE(store.holds(after));
}

// More segments than pieces, none of them a whole number of pieces long.
TEST(SegmentWriteBuffer, SealedSegmentReleasesItsLastPiece) {
  TempDirectory directory;
  auto options = TestStore::options(directory.path());
  options.capacity_bytes = 16 * kMiB;
  TestStore store(options);
  for (int i = 0; i < 800; ++i) {
    auto ref = object(fmt::format("{}", i), 60'000);
    while (!store.write_whole(ref)) std::this_thread::yield();
  }
  EXPECT_GT(store->stats().evicted_bytes, 20 * kMiB);
}

// A second copy would replace the first, which may be durable already.
TEST(SegmentWriteBuffer, ConcurrentWritesStoreOneCopy) {
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  std::vector<FileRefPtr> all;
  for (int i = 0; i < 200; ++i) all.push_back(object(fmt::format("at once/{:03}", i), 5000));
  std::barrier together(4);
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < 4; ++i) {
      writers.emplace_back([&] {
        for (const auto& ref : all) {
          together.arrive_and_wait();
          EXPECT_TRUE(store.write_whole(ref));
        }
      });
    }
  }
  ASSERT_TRUE(store.flush());
  std::string records;
  for (const std::string& index : files_ending(directory.path() + "/segments", ".index")) {
    records += *read_file(index);
  }
  for (const auto& ref : all) {
    const size_t first = records.find(ref->key);
    EXPECT_NE(first, std::string::npos) << ref->key;
    EXPECT_EQ(records.find(ref->key, first + 1), std::string::npos) << ref->key;
    EXPECT_TRUE(store.holds(ref));
  }
}

// No flush and no further write.
TEST(SegmentWriteBuffer, BufferedObjectsAreWrittenSoon) {
  TempDirectory directory;
  Executor executor({.threads = 1});
  auto disk = std::make_shared<FaultyDisk>(make_disk(executor));
  std::latch checked(1);
  TestStore store(TestStore::options(directory.path()), disk);
  // Its segment exists, so the next disk write is that of the new object.
  ASSERT_TRUE(store.write_whole(object("first", 5000)));
  ASSERT_TRUE(store.flush());
  auto segment = files_ending(directory.path() + "/segments", ".data").at(0);
  auto index = files_ending(directory.path() + "/segments", ".index").at(0);
  const uint64_t bytes = std::filesystem::file_size(segment);
  const uint64_t records = std::filesystem::file_size(index);
  disk->fault = [&](FaultyDisk::Call call, uint64_t) {
    if (call == FaultyDisk::Call::kWrite) checked.wait();
    return 0;
  };
  auto small = object("small", 5000);
  EXPECT_TRUE(store.write_whole(small));
  EXPECT_EQ(std::filesystem::file_size(segment), bytes);
  checked.count_down();
  until([&] { return std::filesystem::file_size(segment) > bytes; });
  until([&] { return std::filesystem::file_size(index) > records; });
  auto copy = crash_copy(directory.path());
  TestStore later(TestStore::options(copy->path()));
  EXPECT_TRUE(later.holds(small));
}

// Bytes that the disk accepted before it was full stay.
TEST(SegmentWriteBuffer, LateFailureLosesOnlyUnwrittenBytes) {
  TempDirectory directory;
  Executor executor({.threads = 1});
  auto disk = std::make_shared<FaultyDisk>(make_disk(executor));
  TestStore store(TestStore::options(directory.path()), disk);
  auto before = object("before", 5000);
  ASSERT_TRUE(store.write_whole(before));
  ASSERT_TRUE(store.flush());
  FileRefPtr after;
  uint64_t used = 0;
  Result<> flushed;
  // A write or a loss one second after arrival does not concern the flush: then try another object.
  for (int i = 0; i < 20 && flushed; ++i) {
    used = store->stats().used_bytes;
    after = object(fmt::format("after/{}", i), 7000);
    ASSERT_TRUE(store.write_whole(after));
    EXPECT_TRUE(store.holds(after));
    disk->fault = [](FaultyDisk::Call call, uint64_t) {
      return call == FaultyDisk::Call::kWrite ? EIO : 0;
    };
    flushed = store.flush();
    disk->fault = nullptr;
  }
  EXPECT_FALSE(flushed);
  EXPECT_EQ(store.read_fails(after, {0, 1}), StatusCode::kNotFound);
  EXPECT_TRUE(store.holds(before));
  EXPECT_GE(store->stats().rejected_bytes, after->size);
  ASSERT_TRUE(store.flush());
  EXPECT_LE(store->stats().used_bytes, used + 4096);
  ASSERT_TRUE(store.write_whole(after));
  store.close();
  TestStore again(TestStore::options(directory.path()));
  EXPECT_TRUE(again.holds(before));
  EXPECT_TRUE(again.holds(after));
}

}  // namespace
}  // namespace leat
