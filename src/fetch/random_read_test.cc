// SPDX-License-Identifier: Apache-2.0
// Tests reads at random: they fetch what is read, in pages, and do not keep blocks from the cache.
#include <gtest/gtest.h>

#include "fetch/block_set.h"
#include "fetch/fetcher.h"
#include "fetch/fetcher_rig_test.h"

namespace leat {
namespace {

using testing::random_content;

class UncachedMountTest : public testing::FetcherRig {};

class RandomReadTest : public testing::FetcherRig {
 protected:
  void SetUp() override {
    start();
    ref_ = put("a", content_);
  }

  // Bytes that the store was asked for by a read at random.
  uint64_t fetched_for(ByteRange range) {
    const uint64_t before = source_->read_bytes();
    auto read = executor_.block_on(fetcher_->read_at_random(Context::background(), ref_, range));
    EXPECT_EQ(read ? read->to_string() : read.error().to_string(),
              content_.substr(range.offset, range.size));
    return source_->read_bytes() - before;
  }
  uint64_t fetched_by_load() {
    auto fetched = ensure(ref_, {0, content_.size()});
    EXPECT_TRUE(store_->missing(*ref_, {0, content_.size()}).empty());
    return fetched.value_or(0);
  }

  const std::string content_ = random_content(16 * kBlockBytes + 100, 1);
  FileRefPtr ref_;
};

TEST_F(RandomReadTest, FetchesPagesNotBlocks) {
  EXPECT_EQ(fetched_for({kBlockBytes + 5000, 100}), kPageBytes);
  EXPECT_EQ(fetched_for({3 * kBlockBytes + 4000, 200}), 2 * kPageBytes);
  EXPECT_EQ(fetched_for({5 * kBlockBytes - kPageBytes, 2 * kBlockBytes}), 2 * kBlockBytes);
  // From memory.
  EXPECT_EQ(fetched_for({kBlockBytes + 5100, 50}), 0u);
}

TEST_F(RandomReadTest, WholeBlocksInsideAreCached) {
  fetched_for({5 * kBlockBytes - kPageBytes, 2 * kBlockBytes});
  wait_cached(ref_, {5 * kBlockBytes, kBlockBytes});
  EXPECT_EQ(store_->bytes(), kBlockBytes);
}

TEST_F(RandomReadTest, BlockIsWholeWhenItIsReadAgain) {
  fetched_for({kBlockBytes + 5000, 100});
  EXPECT_EQ(fetched_for({kBlockBytes + 40'000, 100}), kBlockBytes);
  wait_cached(ref_, {kBlockBytes, kBlockBytes});
}

TEST_F(RandomReadTest, RangeIsWholeWhenPartOfItIsCached) {
  const ByteRange range{5 * kBlockBytes - kPageBytes, 2 * kBlockBytes};
  fetched_for(range);
  wait_cached(ref_, {5 * kBlockBytes, kBlockBytes});
  fetcher_->evict(ref_->id);
  EXPECT_EQ(fetched_for(range), 2 * kBlockBytes);
  wait_cached(ref_, range);
}

TEST_F(RandomReadTest, EndOfTheFileIsAWholeBlock) {
  EXPECT_EQ(fetched_for({16 * kBlockBytes + 50, 50}), 100u);
  wait_cached(ref_, {16 * kBlockBytes, 100});
}

TEST_F(RandomReadTest, ReadInOrderCachesWholeBlocks) {
  fetched_for({kBlockBytes + 5000, 100});
  EXPECT_EQ(text(ref_, {0, 3 * kBlockBytes}), content_.substr(0, 3 * kBlockBytes));
  wait_cached(ref_, {0, 3 * kBlockBytes});
}

TEST_F(RandomReadTest, PrefetchCachesWholeBlocks) {
  fetched_for({kBlockBytes + 5000, 100});
  EXPECT_TRUE(fetcher_->prefetch(ref_, {0, 3 * kBlockBytes}));
  wait_cached(ref_, {0, 3 * kBlockBytes});
}

TEST_F(RandomReadTest, LoadCachesWholeBlocks) {
  for (uint64_t block = 0; block < 16; block += 2) fetched_for({block * kBlockBytes + 5000, 100});
  EXPECT_EQ(fetched_by_load(), content_.size());
}

TEST_F(RandomReadTest, LoadBesideReadsInFlightCachesWholeBlocks) {
  source_->block_reads();
  auto read = std::make_shared<testing::PendingRead>();
  auto run = [](Fetcher* fetcher, FileRefPtr ref, auto pending) -> Task<> {
    pending->bytes =
        co_await fetcher->read_at_random(Context::background(), ref, {kBlockBytes + 5000, 100});
    pending->done.count_down();
  };
  executor_.spawn(run(fetcher_.get(), ref_, read));
  testing::wait_until([&] { return source_->blocked_reads() == 1; });
  auto load = spawn_load(ref_, {0, content_.size()});
  testing::wait_until([&] { return source_->blocked_reads() == 2; });
  source_->release_reads();
  read->done.wait();
  EXPECT_EQ(read->bytes->to_string(), content_.substr(kBlockBytes + 5000, 100));
  load->done.wait();
  EXPECT_TRUE(load->fetched) << load->fetched.error().to_string();
  EXPECT_TRUE(store_->missing(*ref_, {0, content_.size()}).empty());
}

class PageSource : public testing::MemorySource {
 public:
  const SourceCapabilities& capabilities() const override { return of_pages_; }

 private:
  const SourceCapabilities of_pages_ = {.read_bytes_min = kPageBytes};
};

// The same file in two mounts, one of which does not cache it: its ranges in memory are pages.
TEST_F(UncachedMountTest, LoadAfterReadsOfAnUncachedMountEnds) {
  source_ = std::make_shared<PageSource>();
  start();
  const std::string content = random_content(4 * kBlockBytes, 1);
  const FileRefPtr ref = put("a", content);
  FileRef uncached = *ref;
  uncached.cache = CacheUse::kMemory;
  const auto reader = std::make_shared<const FileRef>(uncached);
  for (const ByteRange range :
       {ByteRange{0, 4 * kPageBytes}, ByteRange{4 * kPageBytes, 8 * kPageBytes}}) {
    EXPECT_EQ(text(reader, range), content.substr(range.offset, range.size));
  }
  EXPECT_TRUE(ensure(ref, {0, content.size()}));
  EXPECT_TRUE(store_->missing(*ref, {0, content.size()}).empty());
}

TEST(BlockSetTest, ForgetsNoneForAnother) {
  const FileId id = FileRef::make(StoreId(), "a", Version::etag("x"), 1).id;
  BlockSet blocks;
  EXPECT_TRUE(blocks.empty());
  EXPECT_FALSE(blocks.is_crowded(id, 1));
  blocks.add(id, 1);
  EXPECT_TRUE(blocks.contains(id, 1));
  EXPECT_FALSE(blocks.is_crowded(id, 1));
  uint64_t crowded = 0;
  for (uint64_t block = 2; block < 4'000'000; ++block) crowded += blocks.is_crowded(id, block);
  EXPECT_GT(crowded, 0u) << "some block has the same place";
  EXPECT_LT(crowded, 100u);
}

}  // namespace
}  // namespace leat
