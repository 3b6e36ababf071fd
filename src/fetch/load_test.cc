// SPDX-License-Identifier: Apache-2.0
// Tests loads beside readers: the requests and the memory that they leave to readers.
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "fetch/fetcher.h"
#include "fetch/fetcher_rig_test.h"

namespace leat {
namespace {

using testing::random_content;

class KeySource : public testing::MemorySource {
 public:
  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override {
    {
      std::lock_guard lock(mutex_);
      keys_.insert(request.key);
    }
    co_return co_await MemorySource::read(context, std::move(request), into);
  }
  bool requested(const std::string& key) const {
    std::lock_guard lock(mutex_);
    return keys_.contains(key);
  }

 private:
  mutable std::mutex mutex_;  // leaf
  std::set<std::string> keys_;
};

Task<> nothing() {
  co_return;
}

// One thread runs tasks in order. So all pending work is done when a task that was posted last has
// run some rounds later.
class LoadTest : public testing::FetcherRig {
 protected:
  LoadTest() : FetcherRig(/*threads=*/1) {}

  void let_all_wait() {
    for (int round = 0; round < 100; ++round) executor_.block_on(nothing());
  }
};

TEST_F(LoadTest, LoadsLeaveRequestsToDemandReads) {
  auto source = std::make_shared<KeySource>();
  source_ = source;
  start({.requests_max = 4});
  const std::string content = random_content(kBlockBytes, 1);
  source_->block_reads();
  std::vector<std::shared_ptr<testing::PendingLoad>> loads;
  for (int i = 0; i < 8; ++i) {
    loads.push_back(spawn_load(put("load " + std::to_string(i), content), {0, kBlockBytes}));
  }
  let_all_wait();
  EXPECT_EQ(source->blocked_reads(), 3u);
  auto reader = spawn_read(put("read", content), {0, 10});
  let_all_wait();
  EXPECT_TRUE(source->requested("read")) << "it waits behind loads";
  EXPECT_EQ(source->blocked_reads(), 4u);
  source->release_reads();
  reader->done.wait();
  EXPECT_EQ(reader->bytes->to_string(), content.substr(0, 10));
  for (auto& load : loads) {
    load->done.wait();
    EXPECT_EQ(load->fetched.value(), kBlockBytes);
  }
}

TEST_F(LoadTest, ALoadLeavesNothingInMemory) {
  start();
  const std::string content = random_content(40 * kMiB, 2);
  FileRefPtr ref = put("a", content);
  EXPECT_EQ(ensure(ref, {0, content.size()}).value(), content.size());
  EXPECT_EQ(fetcher_->stats().memory_bytes, 0u);
  EXPECT_EQ(fetcher_->stats().files, 0u);
  EXPECT_EQ(text(ref, {kMiB, 100}), content.substr(kMiB, 100));
  EXPECT_EQ(source_->read_bytes(), content.size());
}

TEST_F(LoadTest, LoadedRangeThatIsReadStaysInMemory) {
  start({.unread_ttl = std::chrono::hours(1)});
  const std::string content = random_content(4 * kBlockBytes, 3);
  FileRefPtr ref = put("a", content);
  source_->block_reads();
  auto load = spawn_load(ref, {0, content.size()});
  let_all_wait();
  auto reader = spawn_read(ref, {0, 10});
  let_all_wait();
  source_->release_reads();
  reader->done.wait();
  load->done.wait();
  EXPECT_EQ(load->fetched.value(), content.size());
  auto rest = fetcher_->try_read(*ref, {kBlockBytes, kBlockBytes});
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->to_string(), content.substr(kBlockBytes, kBlockBytes));
  EXPECT_EQ(source_->reads(), 1u);
}

}  // namespace
}  // namespace leat
