// SPDX-License-Identifier: Apache-2.0
// Tests more readers than memory and store requests allow.
#include <gtest/gtest.h>

#include "fetch/fetcher.h"
#include "fetch/fetcher_rig_test.h"

namespace leat {
namespace {

using testing::random_content;
using testing::wait_until;

// Maximum bytes of reads that were in flight at once.
class PeakSource : public testing::MemorySource {
 public:
  explicit PeakSource(std::string bucket) : MemorySource(std::move(bucket)) {}
  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override {
    const uint64_t now = in_flight_ += into.size();
    for (uint64_t most = most_; now > most && !most_.compare_exchange_weak(most, now);) {
    }
    Result<> done = co_await MemorySource::read(context, std::move(request), into);
    in_flight_ -= into.size();
    co_return done;
  }
  uint64_t most() const { return most_; }

 private:
  std::atomic<uint64_t> in_flight_ = 0, most_ = 0;
};

class CrowdTest : public testing::FetcherRig {};

TEST_F(CrowdTest, ReadersWaitForMemoryInsteadOfTakingMore) {
  auto source = std::make_shared<PeakSource>("crowd");
  source_ = source;
  start({.memory_bytes_max = 16 * kMiB, .requests_max = 1000});
  const std::string content = random_content(200 * kMiB, 1);
  FileRefPtr ref = put("a", content);
  source_->block_reads();
  std::vector<std::shared_ptr<testing::PendingRead>> reads;
  for (uint64_t i = 0; i < 200; ++i) reads.push_back(spawn_read(ref, {i * kMiB, kMiB}));
  wait_until([&] { return source_->blocked_reads() >= 6; });
  source_->release_reads();
  for (uint64_t i = 0; i < reads.size(); ++i) {
    reads[i]->done.wait();
    ASSERT_TRUE(reads[i]->bytes);
    EXPECT_EQ(reads[i]->bytes->to_string(), content.substr(i * kMiB, kMiB));
  }
  EXPECT_LE(source->most(), 16 * kMiB);
  wait_cached(ref, {0, content.size()});
  EXPECT_LE(fetcher_->stats().memory_bytes, 16 * kMiB);
}

TEST_F(CrowdTest, HungStoreLeavesMemoryToTheOthers) {
  auto other = std::make_shared<testing::MemorySource>("other");
  sources_.add(other);
  start({.memory_bytes_max = 16 * kMiB, .requests_max = 1000});
  FileRefPtr hanging = put("a", random_content(64 * kMiB, 2));
  const std::string content = random_content(32 * kMiB, 3);
  Version version = other->put("b", content);
  auto ref = std::make_shared<FileRef>(FileRef::make(other->id(), "b", version, content.size()));
  source_->block_reads();
  std::vector<std::shared_ptr<testing::PendingRead>> reads;
  for (uint64_t i = 0; i < 64; ++i) reads.push_back(spawn_read(hanging, {i * kMiB, kMiB}));
  wait_until([&] { return source_->blocked_reads() >= 6; });
  for (uint64_t i = 0; i < 32; ++i)
    EXPECT_EQ(text(ref, {i * kMiB, kMiB}), content.substr(i * kMiB, kMiB));
  source_->release_reads();
  for (auto& read : reads) {
    read->done.wait();
    EXPECT_TRUE(read->bytes);
  }
}

TEST_F(CrowdTest, ReadersThatGiveUpLeaveNothingBehind) {
  start(
      {.memory_bytes_max = 16 * kMiB, .requests_max = 4, .request_timeout = std::chrono::hours(1)});
  FileRefPtr ref = put("a", random_content(64 * kMiB, 4));
  source_->block_reads();
  std::stop_source killed;
  Context context;
  context.cancel = killed.get_token();
  std::vector<std::shared_ptr<testing::PendingRead>> reads;
  for (uint64_t i = 0; i < 64; ++i) reads.push_back(spawn_read(ref, {i * kMiB, kMiB}, context));
  wait_until([&] { return source_->blocked_reads() == 4; });
  killed.request_stop();
  for (auto& read : reads) {
    read->done.wait();  // at once, though the store still hangs
    EXPECT_EQ(read->bytes.error().code(), StatusCode::kCancelled);
  }
  source_->release_reads();
  wait_until([&] { return fetcher_->stats().requests_in_flight == 0; });
  EXPECT_TRUE(read(ref, {63 * kMiB, kMiB}));
}

// A request has no deadline: the source bounds the wait for a store.
TEST_F(CrowdTest, RequestWithoutReadersEndsOthersContinue) {
  start({.memory_bytes_max = 16 * kMiB,
         .requests_max = 4,
         .request_timeout = std::chrono::milliseconds(10)});
  const std::string content = random_content(4 * kMiB, 5);
  FileRefPtr ref = put("a", content);
  source_->block_reads();
  std::stop_source killed;
  Context context;
  context.cancel = killed.get_token();
  auto gives_up = spawn_read(ref, {0, kMiB}, context);
  auto waits = spawn_read(ref, {kMiB, kMiB});
  auto loads = spawn_load(ref, {2 * kMiB, kMiB});
  wait_until([&] { return source_->blocked_reads() == 3; });
  killed.request_stop();
  gives_up->done.wait();
  wait_until([&] { return source_->blocked_reads() == 2; });
  EXPECT_FALSE(waits->done.try_wait());
  EXPECT_FALSE(loads->done.try_wait());
  source_->release_reads();
  waits->done.wait();
  loads->done.wait();
  ASSERT_TRUE(waits->bytes);
  EXPECT_EQ(waits->bytes->to_string(), content.substr(kMiB, kMiB));
  EXPECT_TRUE(loads->fetched);
  EXPECT_EQ(text(ref, {0, kMiB}), content.substr(0, kMiB)) << "a later reader starts a new request";
}

}  // namespace
}  // namespace leat
