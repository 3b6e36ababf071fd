// SPDX-License-Identifier: Apache-2.0
// Files on the disks of another process of this host: opened there, read from there or by the
// kernel directly, and never copied.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <set>

#include "base/check.h"
#include "vfs/tree_rig_test.h"

namespace leat {
namespace {

using testing::MemorySource;
using testing::pattern;
using testing::TreeRig;

// An unlinked file with that content.
class TemporaryFile : public SourceFile {
 public:
  explicit TemporaryFile(const std::string& content, bool immutable = true)
      : size_(content.size()), immutable_(immutable) {
    char path[] = "/tmp/leat_passed_XXXXXX";
    fd_ = ::mkstemp(path);
    LEAT_CHECK(fd_ >= 0);
    LEAT_CHECK(::write(fd_, content.data(), size_) == static_cast<ssize_t>(size_));
    ::unlink(path);
  }
  ~TemporaryFile() override { ::close(fd_); }

  int fd() const override { return fd_; }
  uint64_t size() const override { return size_; }
  bool immutable() const override { return immutable_; }
  bool try_read(uint64_t, std::span<std::byte>) override { return false; }
  Task<Result<>> read(Context, uint64_t offset, std::span<std::byte> into) override {
    const ssize_t got = ::pread(fd_, into.data(), into.size(), static_cast<off_t>(offset));
    if (got == static_cast<ssize_t>(into.size())) co_return Result<>();
    co_return error(StatusCode::kOutOfRange, "the file is shorter");
  }

 private:
  const uint64_t size_;
  const bool immutable_;
  int fd_;
};

class PassingSource : public MemorySource {
 public:
  PassingSource() : MemorySource("passing") {}

  // The next opens of the key receive this file.
  void pass(const std::string& key, const std::string& content, bool immutable = true) {
    passed_[key] = std::make_shared<TemporaryFile>(content, immutable);
  }
  void withdraw(const std::string& key) { passed_.erase(key); }
  int opens = 0;
  std::optional<StatusCode> failure{};

  bool has_local_file(const std::string& key, uint64_t) const override {
    return key != "elsewhere";
  }
  Task<Result<SourceFilePtr>> open_file(Context, OpenRequest request) override {
    ++opens;
    if (failure) co_return error(*failure, "made to fail");
    auto found = passed_.find(request.key);
    EXPECT_NE(request.object_size, 0u);
    co_return found == passed_.end() ? nullptr : found->second;
  }

 private:
  std::map<std::string, SourceFilePtr> passed_;
};

class PassedFiles : public ::testing::Test {
 protected:
  PassedFiles() {
    source_->put("file", content_);
    source_->put("elsewhere", content_);
  }
  void mount(CacheMode cache) {
    PathPolicy policy;
    policy.cache = cache;
    MountEntry entry{
        .path = "/data/passed",
        .source = {.scheme = "memory", .bucket = "passing", .prefix = "", .options = {}},
        .policy = {policy}};
    ASSERT_TRUE(rig_.catalog->mount(std::move(entry), source_));
  }
  NodeId node(const std::string& name = "file") {
    return rig_.node(rig_.node(kRootNode, "passed"), name);
  }
  std::shared_ptr<OpenFile> open() { return rig_.open(node()).value(); }

  const std::string content_ = pattern(2'000'000, 1);
  std::shared_ptr<PassingSource> source_ = std::make_shared<PassingSource>();
  TreeRig rig_;
};

TEST_F(PassedFiles, AreReadInPlaceWithoutStoreRequests) {
  for (const CacheMode mode : {CacheMode::kNever, CacheMode::kAlways}) {
    mount(mode);
    source_->pass("file", content_);
    auto file = open();
    EXPECT_EQ(*rig_.read(*file, 0, 2'000'000), content_);
    EXPECT_EQ(*rig_.read(*file, 1'999'990, 100), content_.substr(1'999'990));
    EXPECT_EQ(source_->reads(), 0u);
    EXPECT_EQ(rig_.store->cached_bytes(*file->ref()), 0u) << "no second copy";
    ASSERT_TRUE(rig_.catalog->unmount("/data/passed"));
  }
}

TEST_F(PassedFiles, AreReadByTheKernelAtAnyFreshness) {
  mount(CacheMode::kNever);
  source_->pass("file", content_);
  auto backing = open()->backing();
  ASSERT_NE(backing, nullptr);
  EXPECT_EQ(backing->size(), content_.size());
  std::string read(10, '?');
  EXPECT_EQ(pread(backing->fd(), read.data(), read.size(), 5), 10);
  EXPECT_EQ(read, content_.substr(5, 10));
}

TEST_F(PassedFiles, FileThatIsNotPassedIsFetched) {
  mount(CacheMode::kNever);
  for (const auto why : {std::optional<StatusCode>(), std::optional(StatusCode::kUnavailable),
                         std::optional(StatusCode::kVersionChanged)}) {
    source_->failure = why;
    auto file = open();
    EXPECT_EQ(file->backing(), nullptr);
    EXPECT_EQ(*rig_.read(*file, 5, 10), content_.substr(5, 10));
  }
  EXPECT_EQ(source_->opens, 3);
}

TEST_F(PassedFiles, FileOfAnotherHostIsNotRequested) {
  mount(CacheMode::kNever);
  EXPECT_TRUE(rig_.files->try_open(node("elsewhere"), O_RDONLY)) << "without waiting";
  EXPECT_FALSE(rig_.files->try_open(node(), O_RDONLY)) << "a request is needed, and so a wait";
  EXPECT_NE(rig_.files->open_cached_version(node("elsewhere")), nullptr);
  EXPECT_EQ(rig_.files->open_cached_version(node()), nullptr);
  EXPECT_EQ(source_->opens, 0);
}

TEST_F(PassedFiles, FullyCachedFileIsReadFromOwnCache) {
  mount(CacheMode::kAlways);
  ASSERT_TRUE(rig_.load(open()->ref()));
  EXPECT_EQ(source_->opens, 1);
  source_->pass("file", pattern(2'000'000, 2));
  auto file = open();
  EXPECT_EQ(source_->opens, 1);
  EXPECT_NE(file->backing(), nullptr);
  EXPECT_EQ(*rig_.read(*file, 5, 10), content_.substr(5, 10));
}

TEST_F(PassedFiles, FailingDiskFallsBackToTheFetcher) {
  mount(CacheMode::kNever);
  source_->pass("file", content_.substr(0, 1'000'000));
  auto file = open();
  EXPECT_EQ(*rig_.read(*file, 999'990, 10), content_.substr(999'990, 10));
  EXPECT_EQ(source_->reads(), 0u);
  EXPECT_EQ(*rig_.read(*file, 1'000'000, 10), content_.substr(1'000'000, 10));
  EXPECT_GT(source_->reads(), 0u);
}

// A file that is no copy is the version itself: nothing else stands for it.
TEST_F(PassedFiles, OneThatMayChangeIsNotReplaced) {
  mount(CacheMode::kNever);
  source_->pass("file", content_.substr(0, 1'000'000), /*immutable=*/false);
  auto file = open();
  EXPECT_EQ(*rig_.read(*file, 999'990, 10), content_.substr(999'990, 10));
  EXPECT_EQ(rig_.read(*file, 1'000'000, 10).error().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(source_->reads(), 0u);
}

TEST_F(PassedFiles, AnOpenOneIsOneVersionToItsEnd) {
  mount(CacheMode::kNever);
  source_->pass("file", content_);
  auto file = open();
  source_->withdraw("file");
  const std::string other = pattern(2'000'000, 3);
  source_->put("file", other);
  rig_.advance(std::chrono::hours(1));
  auto again = open();
  EXPECT_NE(again->node(), file->node());
  EXPECT_EQ(*rig_.read(*again, 5, 10), other.substr(5, 10));
  EXPECT_EQ(*rig_.read(*file, 5, 10), content_.substr(5, 10));
}

}  // namespace
}  // namespace leat
