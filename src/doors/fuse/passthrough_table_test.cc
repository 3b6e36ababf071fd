// SPDX-License-Identifier: Apache-2.0
#include "doors/fuse/passthrough_table.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace leat {
namespace {

class FakeKernel : public BackingRegister {
 public:
  Result<int> add(int) override {
    std::lock_guard lock(mutex);
    if (refusal) return error(*refusal);
    ids.insert(++last);
    most = std::max(most, ids.size());
    return last;
  }
  void remove(int id) override {
    std::lock_guard lock(mutex);
    EXPECT_EQ(ids.erase(id), 1u);
  }

  std::mutex mutex;
  std::optional<Status> refusal;
  std::set<int> ids;
  int last = 0;
  size_t most = 0;
};

class FakeBacking : public BackingFile {
 public:
  int fd() const override { return 7; }
  uint64_t size() const override { return 100; }
};

std::shared_ptr<BackingFile> complete() {
  return std::make_shared<FakeBacking>();
}

TEST(PassthroughTable, TheFirstOpenDecidesAndTheLastReleaseGivesBack) {
  FakeKernel kernel;
  PassthroughTable table(kernel);
  EXPECT_EQ(table.repeat(5), std::nullopt);
  const auto backing = complete();
  const int id = table.open(5, backing);
  EXPECT_NE(id, 0);
  EXPECT_EQ(table.repeat(5), id);
  EXPECT_EQ(table.open(5, complete()), id) << "one id for one node";
  EXPECT_EQ(table.open(6, complete()), id + 1);
  EXPECT_EQ(table.passed_through(), 2u);
  table.release(5);
  table.release(5);
  EXPECT_TRUE(kernel.ids.contains(id));
  EXPECT_EQ(backing.use_count(), 2) << "its bytes are held while the kernel may read them";
  table.release(5);
  EXPECT_FALSE(kernel.ids.contains(id));
  EXPECT_EQ(backing.use_count(), 1);
  EXPECT_EQ(table.repeat(5), std::nullopt);
  table.release(6);
  EXPECT_EQ(table.passed_through(), 0u);
}

TEST(PassthroughTable, AnIncompleteFileStaysOnTheReadPathUntilAllOpensAreGone) {
  FakeKernel kernel;
  PassthroughTable table(kernel);
  EXPECT_EQ(table.open(5, nullptr), 0);
  EXPECT_EQ(table.open(5, complete()), 0);
  EXPECT_EQ(table.repeat(5), 0);
  for (int i = 0; i < 3; ++i) table.release(5);
  EXPECT_NE(table.open(5, complete()), 0);
  table.release(5);
}

TEST(PassthroughTable, ARefusalForGoodTurnsItOffAndAPassingOneDoesNot) {
  FakeKernel kernel;
  PassthroughTable table(kernel);
  kernel.refusal = Status(StatusCode::kUnavailable, "too many files");
  EXPECT_EQ(table.open(5, complete()), 0);
  EXPECT_TRUE(table.on());
  kernel.refusal = Status(StatusCode::kPermissionDenied, "not you");
  EXPECT_EQ(table.open(6, complete()), 0);
  EXPECT_FALSE(table.on());
  EXPECT_EQ(table.off_reason(), "not you");
  kernel.refusal.reset();
  EXPECT_EQ(table.open(7, complete()), 0);
  for (NodeId node : {5, 6, 7}) table.release(node);
  EXPECT_TRUE(kernel.ids.empty());
}

TEST(PassthroughTable, RacingOpensOfOneNodeShareOneId) {
  FakeKernel kernel;
  PassthroughTable table(kernel);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&table] {
      for (int i = 0; i < 2000; ++i) {
        const auto repeated = table.repeat(5);
        const int id = repeated ? *repeated : table.open(5, complete());
        EXPECT_NE(id, 0);
        table.release(5);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(kernel.ids.empty());
  // A new id may be taken while the old one is on its way out, never a third.
  EXPECT_LE(kernel.most, 4u);
}

}  // namespace
}  // namespace leat
