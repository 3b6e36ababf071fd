// SPDX-License-Identifier: Apache-2.0
// Damaged indexes of segments: the records around the damage stay, objects named only by damaged
// ones go, and one verification reports it.
#include "cache/packed/segment_index.h"

#include <gtest/gtest.h>

#include <fstream>

#include "cache/directory/directory_store.h"
#include "cache/store_fixture_test.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> span_of(const std::string& bytes) {
  return std::as_bytes(std::span(bytes));
}

std::string record_of(int number) {
  SegmentRecord record;
  record.ref = *object(fmt::format("name/{}", number), 1000);
  record.offset = 4096 * static_cast<uint64_t>(number);
  record.crcs = {7};
  return record.encode();
}

std::vector<std::string> keys_in(SegmentIndex& index) {
  std::vector<std::string> keys;
  while (auto record = index.next()) keys.push_back(record->ref.key);
  return keys;
}

TEST(SegmentIndexTest, SkipsDamagedRecords) {
  const std::string one = record_of(1), two = record_of(2), three = record_of(3);
  const std::string whole = one + two + three;
  for (size_t at = 0; at < two.size(); ++at) {
    std::string bytes = whole;
    bytes[one.size() + at] = static_cast<char>(bytes[one.size() + at] ^ 1);
    SegmentIndex index(span_of(bytes), 0);
    EXPECT_EQ(keys_in(index), (std::vector<std::string>{"name/1", "name/3"})) << at;
    EXPECT_EQ(index.damaged(), (std::vector<ByteRange>{{one.size(), two.size()}})) << at;
    EXPECT_EQ(index.at(), bytes.size());
    // The gap is filled, so that it is not found again.
    ASSERT_TRUE(SegmentIndex::can_fill(two.size()));
    bytes.replace(one.size(), two.size(), SegmentIndex::filler(9, two.size()));
    SegmentIndex mended(span_of(bytes), 0);
    EXPECT_EQ(keys_in(mended).size(), 3u);
    EXPECT_TRUE(mended.damaged().empty());
  }
}

TEST(SegmentIndexTest, ATornEndIsNoDamage) {
  const std::string whole = record_of(1) + record_of(2);
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string bytes = whole.substr(0, size);
    SegmentIndex index(span_of(bytes), 0);
    EXPECT_EQ(keys_in(index).size(), size < record_of(1).size() ? 0u : 1u);
    EXPECT_TRUE(index.damaged().empty());
  }
}

// If a name could hold a record, a damaged record could name another object's bytes.
TEST(SegmentIndexTest, NamesThatCouldHoldARecordAreNotKept) {
  EXPECT_TRUE(record_of(1).contains('\0'));
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  const auto ref = object("a" + record_of(1), 1000);
  Result<> kept = store.write_whole(ref);
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.error().code(), StatusCode::kUnsupported);
}

class DamagedIndex : public testing::Test {
 protected:
  static constexpr size_t kObjects = 200;

  DamagedIndex() {
    for (size_t i = 0; i < kObjects; ++i) {
      refs_.push_back(object(fmt::format("small/{}", i), 3000));
    }
  }
  void open() {
    PageStoreOptions options = TestStore::options(directory_.path());
    auto opened = executor_.block_on(HostCache::open(Context::background(), {options}, executor_,
                                                     [this] { return make_disk(executor_); }));
    ASSERT_TRUE(opened) << opened.error().to_string();
    store_ = *std::move(opened);
  }
  void close() {
    executor_.block_on(store_->close());
    store_ = nullptr;
  }
  void fill() {
    open();
    for (const FileRefPtr& ref : refs_) {
      ASSERT_TRUE(executor_.block_on(store_->write(Context::background(), ref, 0, content(ref))));
    }
    ASSERT_TRUE(executor_.block_on(store_->flush(Context::background())));
  }
  void TearDown() override {
    if (store_) close();
  }
  std::string index() const {
    return files_ending(directory_.path() + "/segments", ".index").at(0);
  }
  void change(uint64_t at) {
    std::fstream file(index(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file << "12345678";
  }
  size_t held() {
    size_t count = 0;
    for (const FileRefPtr& ref : refs_) {
      auto bytes = executor_.block_on(store_->read(Context::background(), ref, {0, ref->size}));
      if (!bytes) continue;
      EXPECT_TRUE(same(*bytes, content(ref)));
      ++count;
    }
    return count;
  }
  Result<> verify() {
    objects_ = corrupt_blocks_ = 0;
    return executor_.block_on(store_->verify(Context::background(), [this](const VerifyStep& step) {
      objects_ += step.objects;
      corrupt_blocks_ += step.corrupt_blocks;
    }));
  }
  void expect_reported_once(size_t left) {
    const Result<> first = verify();
    ASSERT_FALSE(first);
    EXPECT_EQ(first.error().code(), StatusCode::kCorrupt);
    EXPECT_TRUE(first.error().message().contains("bytes of indexes")) << first.error().message();
    EXPECT_EQ(held(), left);
    EXPECT_TRUE(verify());
    EXPECT_EQ(objects_, left);
    close();
    open();
    EXPECT_EQ(held(), left);
    EXPECT_TRUE(verify()) << "it was mended";
    EXPECT_EQ(objects_, left);
  }

  TempDirectory directory_;
  std::vector<FileRefPtr> refs_;
  Executor executor_{{.threads = 2}};
  std::unique_ptr<HostCache> store_;
  uint64_t objects_ = 0, corrupt_blocks_ = 0;
};

TEST_F(DamagedIndex, WhileTheStoreIsOpenCostsOneObject) {
  fill();
  change(fs::file_size(index()) / 10);
  expect_reported_once(kObjects - 1);
}

TEST_F(DamagedIndex, BeforeAStartCostsOneObject) {
  fill();
  close();
  change(fs::file_size(index()) / 10);
  open();
  EXPECT_GE(store_->stats().corrupt_blocks, 1u);
  expect_reported_once(kObjects - 1);
}

TEST_F(DamagedIndex, TheLastRecordIsFoundAfterACleanStop) {
  fill();
  close();
  change(fs::file_size(index()) - 40);
  open();
  expect_reported_once(kObjects - 1);
}

TEST_F(DamagedIndex, ItsHeaderIsWrittenAnew) {
  fill();
  change(20);
  expect_reported_once(kObjects);
}

// The header names the pool, so a start cannot repair it.
TEST_F(DamagedIndex, OfItsHeaderAStartReportsOnce) {
  fill();
  close();
  change(20);
  open();
  EXPECT_EQ(held(), 0u);
  EXPECT_TRUE(verify());
  EXPECT_EQ(corrupt_blocks_, 1u);
  EXPECT_TRUE(verify());
  EXPECT_EQ(corrupt_blocks_, 0u);
}

TEST_F(DamagedIndex, CutShortCostsTheRest) {
  fill();
  fs::resize_file(index(), fs::file_size(index()) / 2);
  const Result<> found = verify();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), StatusCode::kCorrupt);
  EXPECT_LT(held(), kObjects * 6 / 10);
  EXPECT_TRUE(verify());
}

TEST_F(DamagedIndex, WhatComesAfterwardsIsKept) {
  fill();
  change(fs::file_size(index()) - 40);
  EXPECT_FALSE(verify());
  for (const FileRefPtr& ref : refs_) {
    ASSERT_TRUE(executor_.block_on(store_->write(Context::background(), ref, 0, content(ref))));
  }
  ASSERT_TRUE(executor_.block_on(store_->flush(Context::background())));
  EXPECT_TRUE(verify());
  close();
  open();
  EXPECT_EQ(held(), kObjects);
}

}  // namespace
}  // namespace leat
