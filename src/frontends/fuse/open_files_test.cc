// SPDX-License-Identifier: Apache-2.0
#include "frontends/fuse/open_files.h"

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
    if (rejection) return error(*rejection);
    ids.insert(++last);
    most = std::max(most, ids.size());
    return last;
  }
  void remove(int id) override {
    std::lock_guard lock(mutex);
    EXPECT_EQ(ids.erase(id), 1u);
  }

  std::mutex mutex;
  std::optional<Status> rejection;
  std::set<int> ids;
  int last = 0;
  size_t most = 0;
};

class FakeBacking : public BackingFile {
 public:
  int fd() const override { return 7; }
  uint64_t size() const override { return 100; }
  bool current() const override { return !dropped; }

  std::atomic<bool> dropped = false;
};

class FakeFile : public OpenFile {
 public:
  explicit FakeFile(NodeId node, bool complete = true) : node_(node) {
    if (complete) backing_ = std::make_shared<FakeBacking>();
  }
  NodeId node() const override { return node_; }
  const FileRefPtr& ref() const override { return ref_; }
  std::optional<Bytes> try_read(uint64_t, uint64_t) override { return Bytes(); }
  Task<Result<Bytes>> read(Context, uint64_t, uint64_t) override { co_return Bytes(); }
  std::shared_ptr<BackingFile> backing() override { return backing_; }
  void record_open(uint32_t opens, int32_t backing) override {
    noted_opens = opens;
    noted_backing = backing;
  }
  // Returns true if others than this file hold the bytes.
  bool bytes_are_held() const { return backing_.use_count() > 1; }
  void drop() { backing_->dropped = true; }

  std::atomic<uint32_t> noted_opens = 0;
  std::atomic<int32_t> noted_backing = 0;

 private:
  const NodeId node_;
  const FileRefPtr ref_;
  std::shared_ptr<FakeBacking> backing_;
};

std::shared_ptr<FakeFile> complete(NodeId node) {
  return std::make_shared<FakeFile>(node);
}
std::shared_ptr<FakeFile> incomplete(NodeId node) {
  return std::make_shared<FakeFile>(node, false);
}

TEST(OpenFiles, FirstOpenDecidesLastReleaseReturnsId) {
  FakeKernel kernel;
  OpenFiles table(kernel);
  EXPECT_EQ(table.find(5), nullptr);
  const auto file = complete(5);
  const int id = table.open(file);
  EXPECT_NE(id, 0);
  EXPECT_EQ(table.open(incomplete(5)), id);
  EXPECT_EQ(table.open(complete(5)), id) << "one id for one node";
  EXPECT_EQ(table.find(5), file) << "one version, one file";
  EXPECT_EQ(table.open(complete(6)), id + 1);
  EXPECT_EQ(table.passthrough_files(), 2u);
  table.release(5);
  table.release(5);
  EXPECT_TRUE(kernel.ids.contains(id));
  EXPECT_TRUE(file->bytes_are_held()) << "while the kernel may read them";
  table.release(5);
  EXPECT_FALSE(kernel.ids.contains(id));
  EXPECT_FALSE(file->bytes_are_held());
  EXPECT_EQ(table.find(5), nullptr);
  table.release(6);
  EXPECT_EQ(table.passthrough_files(), 0u);
}

TEST(OpenFiles, IncompleteFileIsReadUntilAllOpensEnd) {
  FakeKernel kernel;
  OpenFiles table(kernel);
  EXPECT_EQ(table.open(incomplete(5)), 0);
  EXPECT_EQ(table.open(complete(5)), 0);
  EXPECT_EQ(table.open(complete(5)), 0);
  for (int i = 0; i < 3; ++i) table.release(5);
  EXPECT_NE(table.open(complete(5)), 0);
  table.release(5);
}

// Between backing() and its registration; afterwards nothing would find the node.
TEST(OpenFiles, AFileThatWasDroppedIsNotPassedThrough) {
  FakeKernel kernel;
  OpenFiles table(kernel);
  const auto file = complete(5);
  file->drop();
  EXPECT_EQ(table.open(file), 0);
  EXPECT_EQ(table.passthrough_files(), 0u);
  EXPECT_TRUE(kernel.ids.empty());
  table.release(5);
}

TEST(OpenFiles, OnlyAPermanentErrorDisablesIt) {
  FakeKernel kernel;
  OpenFiles table(kernel);
  kernel.rejection = Status(StatusCode::kUnavailable, "too many files");
  EXPECT_EQ(table.open(complete(5)), 0);
  EXPECT_TRUE(table.passthrough_enabled());
  kernel.rejection = Status(StatusCode::kPermissionDenied, "not you");
  EXPECT_EQ(table.open(complete(6)), 0);
  EXPECT_FALSE(table.passthrough_enabled());
  EXPECT_EQ(table.off_reason(), "not you");
  kernel.rejection.reset();
  EXPECT_EQ(table.open(complete(7)), 0);
  for (NodeId node : {5, 6, 7}) table.release(node);
  EXPECT_TRUE(kernel.ids.empty());
}

TEST(OpenFiles, OpensAreRecordedForASuccessor) {
  FakeKernel kernel;
  OpenFiles table(kernel);
  const auto file = complete(5);
  const int id = table.open(file);
  table.open(complete(5));
  EXPECT_EQ(file->noted_opens, 2u);
  EXPECT_EQ(file->noted_backing, id);
  table.release(5);
  EXPECT_EQ(file->noted_opens, 1u);
  table.release(5);
  EXPECT_EQ(file->noted_opens, 0u);
  EXPECT_EQ(file->noted_backing, 0);
  table.release(5);  // a release that a predecessor executed but did not answer
}

TEST(OpenFiles, SuccessorRepeatsModeAndReturnsTheId) {
  FakeKernel kernel;
  kernel.ids.insert(99);
  OpenFiles table(kernel);
  const auto file = complete(5);
  table.take_over({.file = file, .opens = 2, .backing = 99});
  table.take_over({.file = incomplete(6), .opens = 1, .backing = 0});
  EXPECT_EQ(table.passthrough_files(), 1u);
  EXPECT_TRUE(file->bytes_are_held());
  EXPECT_EQ(table.open(complete(5)), 99);
  EXPECT_EQ(table.open(complete(6)), 0);
  for (int i = 0; i < 3; ++i) table.release(5);
  EXPECT_TRUE(kernel.ids.empty());
  EXPECT_FALSE(file->bytes_are_held());
}

TEST(OpenFiles, RacingOpensOfOneNodeShareOneId) {
  FakeKernel kernel;
  OpenFiles table(kernel);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&table] {
      for (int i = 0; i < 2000; ++i) {
        EXPECT_NE(table.open(complete(5)), 0);
        EXPECT_NE(table.find(5), nullptr);
        table.release(5);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(kernel.ids.empty());
  // A new id may be taken while the old one is being returned, never a third.
  EXPECT_LE(kernel.most, 4u);
}

}  // namespace
}  // namespace leat
