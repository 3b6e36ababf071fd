// SPDX-License-Identifier: Apache-2.0
#include "cache/packed/segment_readahead.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cache/page_cache_test.h"

namespace leat {
namespace {

constexpr uint64_t kPiece = 512 * kKiB;
constexpr uint64_t kFar = 4 * kPiece;  // no order between two reads
constexpr uint64_t kWritten = uint64_t{1} << 40;

ByteRange object_at(uint64_t offset) {
  return {offset, 20'000};
}

TEST(SegmentReadahead, PieceAroundTheObjectIsRead) {
  SegmentReadahead reads(kPiece);
  SegmentReadaheadState in;
  EXPECT_EQ(reads.on_miss(in, object_at(3 * kPiece + 40'960), kWritten),
            (ByteRange{3 * kPiece, kPiece}));
}

TEST(SegmentReadahead, ObjectCrossingAPieceIsReadWhole) {
  SegmentReadahead reads(kPiece);
  SegmentReadaheadState in;
  const ByteRange object = object_at(kPiece - 4096);
  EXPECT_EQ(reads.on_miss(in, object, kWritten), (ByteRange{0, object.end()}));
}

TEST(SegmentReadahead, UnwrittenBytesAreNotRead) {
  SegmentReadahead reads(kPiece);
  SegmentReadaheadState in;
  EXPECT_EQ(reads.on_miss(in, object_at(0), 24'576), (ByteRange{0, 24'576}));
  SegmentReadaheadState other;
  EXPECT_EQ(reads.on_miss(other, object_at(0), 10'000), std::nullopt);
}

TEST(SegmentReadahead, LargeObjectOrDisabledReadsNothing) {
  SegmentReadahead reads(kPiece), off(0);
  SegmentReadaheadState in;
  EXPECT_EQ(reads.on_miss(in, {0, kPiece / 2 + 1}, kWritten), std::nullopt);
  EXPECT_EQ(off.on_miss(in, {0, 1}, kWritten), std::nullopt);
  off.on_read(in, {0, 1});
}

TEST(SegmentReadahead, SequentialReadsAreLeftToTheKernel) {
  SegmentReadahead reads(kPiece);
  SegmentReadaheadState in;
  EXPECT_TRUE(reads.on_miss(in, object_at(0), kWritten));
  for (uint64_t offset = 20'480; offset < 8 * kPiece; offset += 20'480) {
    EXPECT_FALSE(reads.on_miss(in, object_at(offset), kWritten)) << offset;
    reads.on_read(in, object_at(offset));
  }
  EXPECT_TRUE(reads.on_miss(in, object_at(100 * kPiece), kWritten));
}

// Reads `pieces` pieces far from each other twice: the second time they are not in memory. Returns
// how many pieces were read ahead in the second pass.
uint64_t pieces_read_again(SegmentReadahead& reads, SegmentReadaheadState& in, uint64_t pieces,
                           bool used) {
  uint64_t count = 0;
  for (int pass = 0; pass < 2; ++pass) {
    for (uint64_t i = 0; i < pieces; ++i) {
      const uint64_t offset = i * kFar;
      const bool around = reads.on_miss(in, object_at(offset), kWritten).has_value();
      if (around) reads.on_readahead(in, object_at(offset));
      if (pass == 1) count += around;
      reads.on_read(in, object_at(offset));  // the requested object
      if (used) reads.on_read(in, object_at(offset + 40'960));
    }
  }
  return count;
}

TEST(SegmentReadahead, UsedPiecesAreReadAgain) {
  SegmentReadahead reads(kPiece);
  SegmentReadaheadState in;
  EXPECT_EQ(pieces_read_again(reads, in, 1000, true), 1000u);
}

TEST(SegmentReadahead, UnusedPiecesStopReadahead) {
  SegmentReadahead reads(kPiece);
  SegmentReadaheadState in;
  const uint64_t count = pieces_read_again(reads, in, 1000, false);
  EXPECT_LT(count, 40u);
  EXPECT_GT(count, 10u);  // one in 64 is tried nevertheless
  // Once they are useful again, all are read ahead.
  pieces_read_again(reads, in, 5000, true);
  EXPECT_EQ(pieces_read_again(reads, in, 100, true), 100u);
}

TEST(SegmentReadahead, MissesWithoutReadaheadAreNotCounted) {
  SegmentReadahead reads(kPiece);
  SegmentReadaheadState in;
  for (uint64_t i = 0; i < 1000; ++i) {
    EXPECT_TRUE(reads.on_miss(in, object_at(i % 10 * kFar), kWritten)) << i;
  }
}

TEST(SegmentReadahead, ShuffledEpochReadsEachPieceOnce) {
  constexpr uint64_t kPieces = 400, kObjects = 20;  // of a piece
  SegmentReadahead reads(kPiece);
  SegmentReadaheadState in;
  std::vector<uint64_t> order(kPieces * kObjects);
  for (uint64_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::shuffle(order, std::mt19937_64(1));
  std::vector<bool> in_memory(kPieces);
  uint64_t piece_reads = 0, alone = 0;
  for (uint64_t i : order) {
    const ByteRange object = object_at(i / kObjects * kPiece + i % kObjects * 24'576);
    if (!in_memory[i / kObjects]) {
      const bool around = reads.on_miss(in, object, kWritten).has_value();
      (around ? piece_reads : alone) += 1;
      if (around) reads.on_readahead(in, object);
      if (around) in_memory[i / kObjects] = true;
    }
    reads.on_read(in, object);
  }
  EXPECT_GT(piece_reads, kPieces / 2);
  EXPECT_LT(alone, kPieces);  // next to the last read by chance
}

// --- in a store ----------------------------------------------------------------------------------

// Records read-ahead.
class RecordingDisk : public FaultyDisk {
 public:
  using FaultyDisk::FaultyDisk;
  Result<uint64_t> read_ahead(int fd, uint64_t offset, uint64_t size) override {
    Result<uint64_t> cold = FaultyDisk::read_ahead(fd, offset, size);
    if (cold && *cold > 0) readahead_bytes += size;
    return cold;
  }
  std::atomic<uint64_t> readahead_bytes = 0;
};

class SegmentReadaheadInStore : public testing::Test {
 protected:
  SegmentReadaheadInStore() : disk_(std::make_shared<RecordingDisk>(make_disk(executor_))) {
    PageStoreOptions options = TestStore::options(directory_.path());
    options.capacity_bytes = 1024 * kMiB;  // a segment is at most a 32nd of it
    options.segment_bytes = 16 * kMiB;
    options.segment_readahead_bytes = 128 * kKiB;
    store_ = std::make_unique<TestStore>(options, disk_);
    for (size_t i = 0; i < 400; ++i) {
      refs_.push_back(object("small" + std::to_string(i), 20'000));
      EXPECT_TRUE(store_->write_whole(refs_.back()));
    }
    EXPECT_TRUE(store_->flush());
  }
  // Empties the page cache; returns false if that is not possible.
  bool cool_down() {
    if (!drop_page_cache(directory_.path())) return false;
    for (const std::string& path : files_ending(directory_.path(), ".data")) {
      const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      if (!make_disk(executor_)->is_cold(file.fd(), 0, 4 * kMiB)) return false;
    }
    return true;
  }
  bool hot(size_t i) { return (*store_)->try_read(*refs_[i], {0, refs_[i]->size}).has_value(); }

  TempDirectory directory_;
  Executor executor_;
  const std::shared_ptr<RecordingDisk> disk_;
  std::unique_ptr<TestStore> store_;
  std::vector<FileRefPtr> refs_;
};

TEST_F(SegmentReadaheadInStore, ColdReadFetchesThePiece) {
  if (!cool_down())
    GTEST_SKIP() << "the page cache cannot be emptied here, or its state is unknown";
  EXPECT_FALSE(hot(203));
  EXPECT_EQ(disk_->readahead_bytes, 128 * kKiB);
  EXPECT_TRUE(store_->holds(refs_[203]));
  // An object takes 20 KiB: at least five of six objects beside it are in its piece.
  size_t beside = 0;
  until([&] { return hot(203); });
  for (size_t i = 198; i <= 208; ++i) beside += hot(i);
  EXPECT_GE(beside, 4u);
  EXPECT_EQ(disk_->readahead_bytes, 128 * kKiB);  // near ranges are left to the kernel's read-ahead
  EXPECT_FALSE(hot(20));
  EXPECT_EQ(disk_->readahead_bytes, 256 * kKiB);
}

TEST_F(SegmentReadaheadInStore, PartlyCachedPieceIsNotRead) {
  if (!cool_down())
    GTEST_SKIP() << "the page cache cannot be emptied here, or its state is unknown";
  EXPECT_TRUE(store_->holds(refs_[203]));  // without try_read, so alone
  EXPECT_FALSE(hot(20));
  EXPECT_EQ(disk_->readahead_bytes, 128 * kKiB);
  EXPECT_FALSE(hot(200));
  EXPECT_EQ(disk_->readahead_bytes, 128 * kKiB);
}

TEST_F(SegmentReadaheadInStore, FailingDiskCostsNothing) {
  if (!cool_down())
    GTEST_SKIP() << "the page cache cannot be emptied here, or its state is unknown";
  disk_->fault = [](FaultyDisk::Call call, uint64_t) {
    return call == FaultyDisk::Call::kRead ? EIO : 0;
  };
  EXPECT_FALSE(hot(203));
  disk_->fault = nullptr;
  for (const FileRefPtr& ref : refs_) EXPECT_TRUE(store_->holds(ref));
}

}  // namespace
}  // namespace leat
