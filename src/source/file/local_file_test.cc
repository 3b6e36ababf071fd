// SPDX-License-Identifier: Apache-2.0
#include "source/file/local_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <latch>
#include <memory>
#include <string>

#include "base/id128.h"
#include "runtime/executor.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

class LocalFileTest : public ::testing::Test {
 protected:
  LocalFileTest()
      : path_(fs::temp_directory_path() / ("leat-local-" + Id128::random().to_hex())),
        content_(3'000'001, '\0') {
    for (size_t i = 0; i < content_.size(); ++i) content_[i] = static_cast<char>(i * 7 + i / 4096);
    std::ofstream(path_) << content_;
  }
  ~LocalFileTest() override { fs::remove(path_); }

  std::shared_ptr<LocalFile> open() {
    auto opened = CheckedFile::open(path_.string().substr(1), {});
    EXPECT_TRUE(opened.has_value() && opened->local);
    return std::make_shared<LocalFile>(*std::move(opened));
  }
  // Best effort of the kernel: it keeps dirty pages.
  void drop_from_memory(const SourceFile& file) {
    EXPECT_EQ(fsync(file.fd()), 0);
    EXPECT_EQ(posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED), 0);
  }
  Result<std::string> read(LocalFile& file, uint64_t offset, size_t size, Context context = {}) {
    std::string into(size, '?');
    Result<> done = executor_.block_on(
        file.read(context, offset, std::as_writable_bytes(std::span(into.data(), size))));
    if (!done) return Error(done.error());
    return into;
  }
  bool try_read(LocalFile& file, uint64_t offset, std::string& into) {
    return file.try_read(offset, std::as_writable_bytes(std::span(into)));
  }
  void overwrite(uint64_t offset, const std::string& text) {
    std::fstream file(path_, std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(offset));
    file << text;
  }

  const fs::path path_;
  std::string content_;
  Executor executor_;
};

TEST_F(LocalFileTest, EveryRangeIsReadFromTheDiskAndFromMemory) {
  auto file = open();
  for (auto [offset, size] : {std::pair{0ul, 3'000'001ul}, {2'999'999, 2}, {4095, 2}, {7, 0}}) {
    drop_from_memory(*file);
    for (int again = 0; again < 2; ++again) {
      EXPECT_EQ(*read(*file, offset, size), content_.substr(offset, size)) << offset;
    }
    std::string hot(size, '?');
    EXPECT_TRUE(try_read(*file, offset, hot));
    EXPECT_EQ(hot, content_.substr(offset, size));
  }
}

TEST_F(LocalFileTest, BeyondTheEndNothingIsRead) {
  auto file = open();
  EXPECT_EQ(read(*file, 3'000'000, 2).error().code(), StatusCode::kOutOfRange);
  std::string into(2, '?');
  EXPECT_FALSE(try_read(*file, 3'000'000, into));
}

TEST_F(LocalFileTest, AFileThatIsChangedInPlaceIsNotReadOn) {
  auto file = open();
  EXPECT_TRUE(read(*file, 0, 10));
  overwrite(2'000'000, "changed");
  std::string into(10, '?');
  EXPECT_FALSE(try_read(*file, 0, into)) << "other bytes of it neither";
  EXPECT_EQ(read(*file, 0, 10).error().code(), StatusCode::kVersionChanged);
}

TEST_F(LocalFileTest, AFileThatBecameShorterHasChanged) {
  auto file = open();
  fs::resize_file(path_, 1000);
  EXPECT_EQ(read(*file, 2'000'000, 10).error().code(), StatusCode::kVersionChanged);
  EXPECT_EQ(read(*file, 0, 10).error().code(), StatusCode::kVersionChanged);
}

TEST_F(LocalFileTest, AFileThatWasReplacedOrRemovedIsNotReadOn) {
  auto file = open();
  fs::remove(path_);
  std::ofstream(path_) << content_;
  EXPECT_EQ(read(*file, 0, 10).error().code(), StatusCode::kVersionChanged);
}

TEST_F(LocalFileTest, WhoHasGivenUpIsNotServed) {
  auto file = open();
  std::stop_source stop;
  stop.request_stop();
  Context given_up = Context::background().with_cancel(stop.get_token());
  EXPECT_EQ(read(*file, 0, 10, given_up).error().code(), StatusCode::kCancelled);
}

struct Readers {
  std::shared_ptr<LocalFile> file;
  const std::string& content;
  std::latch ended;
  std::atomic<int> wrong = 0;
};

Task<> read_one(std::shared_ptr<Readers> readers, uint64_t offset) {
  std::string into(10'000, '?');
  Result<> done = co_await readers->file->read(Context::background(), offset,
                                               std::as_writable_bytes(std::span(into)));
  if (!done || into != readers->content.substr(offset, into.size())) ++readers->wrong;
  readers->ended.count_down();
}

TEST_F(LocalFileTest, MoreReadersThanTheRingHoldsAreServed) {
  constexpr int kReaders = 1000;
  std::shared_ptr<Readers> readers(
      new Readers{.file = open(), .content = content_, .ended = std::latch(kReaders)});
  drop_from_memory(*readers->file);
  for (uint64_t i = 0; i < kReaders; ++i) {
    executor_.spawn(read_one(readers, i * 7919 % (content_.size() - 10'000)));
  }
  readers->ended.wait();
  EXPECT_EQ(readers->wrong, 0);
}

}  // namespace
}  // namespace leat
