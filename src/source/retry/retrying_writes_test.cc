// SPDX-License-Identifier: Apache-2.0
// Tests changes through RetryingSource: which are retried, the message of the others, and how
// PartWriter cuts its parts.
#include "source/part_writer.h"

#include <gtest/gtest.h>

#include "runtime/executor.h"
#include "source/memory_source_test.h"
#include "source/retry/retrying_source.h"

namespace leat {
namespace {

using testing::MemorySource;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span<const char>(text));
}

class RetryingWritesTest : public ::testing::Test {
 protected:
  static RetryOptions impatient() {
    RetryOptions options;
    options.backoff_min = std::chrono::milliseconds(1);
    return options;
  }

  Executor executor_;
  std::shared_ptr<MemorySource> store_ = std::make_shared<MemorySource>();
  std::shared_ptr<RetryingSource> source_ = RetryingSource::make(store_, impatient());
};

TEST_F(RetryingWritesTest, WriteWithoutConditionIsRetried) {
  store_->fail_next(StatusCode::kUnavailable, 2);
  auto written = executor_.block_on(source_->write({}, {"k"}, bytes_of("x")));
  ASSERT_TRUE(written) << written.error().to_string();
  EXPECT_EQ(store_->changes(), 3u);
}

TEST_F(RetryingWritesTest, ConditionalWriteIsNotRetried) {
  store_->fail_next(StatusCode::kUnavailable, 1);
  auto written = executor_.block_on(source_->write({}, {"k", {.absent = true}}, bytes_of("x")));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code(), StatusCode::kUnavailable);
  EXPECT_NE(written.error().message().find("check before retrying"), std::string::npos)
      << written.error().to_string();
  EXPECT_EQ(store_->changes(), 1u);
}

TEST_F(RetryingWritesTest, ThrottledChangeIsRetried) {
  store_->fail_next(StatusCode::kThrottled, 2);
  auto written = executor_.block_on(source_->write({}, {"k", {.absent = true}}, bytes_of("x")));
  ASSERT_TRUE(written) << written.error().to_string();
  store_->fail_next(StatusCode::kThrottled, 1);
  EXPECT_TRUE(executor_.block_on(source_->rename({}, {"k", "l"})));
}

TEST_F(RetryingWritesTest, RenameIsNotRetried) {
  store_->put("k", "x");
  store_->fail_next(StatusCode::kUnavailable, 1);
  auto renamed = executor_.block_on(source_->rename({}, {"k", "l"}));
  ASSERT_FALSE(renamed);
  EXPECT_NE(renamed.error().message().find("check before retrying"), std::string::npos);
}

TEST_F(RetryingWritesTest, PartsAndCompletionAreRetried) {
  auto writer = source_->begin_write({"k"});
  ASSERT_TRUE(writer);
  for (const char* part : {"one ", "two ", "three"}) {
    store_->fail_next(StatusCode::kUnavailable, 1);
    auto taken = executor_.block_on((*writer)->append({}, bytes_of(part), {}));
    ASSERT_TRUE(taken) << taken.error().to_string();
  }
  store_->fail_next(StatusCode::kUnavailable, 1);
  auto object = executor_.block_on((*writer)->complete({}, {}));
  ASSERT_TRUE(object) << object.error().to_string();
  EXPECT_EQ(object->size, 13u);
}

TEST_F(RetryingWritesTest, KeysAreSplitIntoRequests) {
  RemoveRequest request;
  for (int i = 0; i < 2500; ++i) request.keys.push_back(std::to_string(i));
  store_->put("7", "x");
  EXPECT_TRUE(executor_.block_on(source_->remove({}, request)));
  EXPECT_EQ(store_->object_count(), 0u);
  EXPECT_EQ(store_->changes(), 3u) << "a thousand a request";
}

TEST_F(RetryingWritesTest, ReadOnlyStoreRejectsChanges) {
  class ReadOnly : public MemorySource {
   public:
    Task<Result<SourceObject>> write(Context context, WriteRequest request,
                                     std::span<const std::byte> content) override {
      Result<SourceObject> refused =
          co_await Source::write(std::move(context), std::move(request), content);
      co_return refused;
    }
  };
  auto source = RetryingSource::make(std::make_shared<ReadOnly>());
  auto written = executor_.block_on(source->write({}, {"k"}, bytes_of("x")));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code(), StatusCode::kUnsupported);
}

constexpr uint64_t kMiB = 1024 * 1024;

// Number of parts, and their total bytes.
std::pair<uint64_t, uint64_t> parts_for(const SourceCapabilities& store, uint64_t announced,
                                        uint64_t bytes) {
  uint64_t begun = 0, number = 0;
  for (; begun < bytes; ++number) {
    begun += PartWriter::part_bytes(store, announced, number, begun);
  }
  return {number, begun};
}

TEST(ObjectStreamTest, PartsAreEqualWhereTheSizeWasSaid) {
  const SourceCapabilities s3{.part_bytes_min = 5 * kMiB, .parts_max = 10'000};
  for (uint64_t size : {1 * kMiB, 100 * kMiB, 80'000 * kMiB, 5'000'000 * kMiB}) {
    const uint64_t first = PartWriter::part_bytes(s3, size, 0, 0);
    EXPECT_EQ(PartWriter::part_bytes(s3, size, 500, first * 500 % size), first);
    EXPECT_LE(parts_for(s3, size, size).first, s3.parts_max) << size;
    EXPECT_GE(first, PartWriter::kPartBytes);
  }
}

TEST(ObjectStreamTest, PartsGrowWhereNothingWasSaid) {
  const SourceCapabilities s3{.part_bytes_min = 5 * kMiB, .parts_max = 10'000};
  EXPECT_EQ(PartWriter::part_bytes(s3, 0, 0, 0), PartWriter::kPartBytes);
  // The largest possible object, 5 TiB.
  EXPECT_LE(parts_for(s3, 0, 5 * kMiB * kMiB).first, s3.parts_max);
  // An object that becomes larger than announced.
  EXPECT_LE(parts_for(s3, 100 * kMiB, 5 * kMiB * kMiB).first, s3.parts_max);
}

TEST(ObjectStreamTest, AStoreWithoutALimitTakesPartsOfOneSize) {
  EXPECT_EQ(PartWriter::part_bytes({}, 0, 1'000'000, 1), PartWriter::kPartBytes);
}

}  // namespace
}  // namespace leat
