// SPDX-License-Identifier: Apache-2.0
// Files that the kernel writes to by itself, as FUSE passthrough lets it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vfs/writing/write_behind_test.h"

namespace leat::testing {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kLarge = 3 * kMiB;  // its content is a file of the journal

// A file that is open in the kernel, which writes to it directly.
class DirectFile {
 public:
  DirectFile(WritableRig& rig, OpenedFile file)
      : rig_(rig), file_(std::move(file)), backing_(file_.file->backing()) {}

  bool is_direct() const { return backing_ != nullptr; }
  const OpenedFile& opened() const { return file_; }
  void put(uint64_t offset, const std::string& text) {
    ASSERT_EQ(::pwrite(backing_->fd(), text.data(), text.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(text.size()));
  }
  int fd() const { return backing_->fd(); }
  Result<> flush() { return rig_.flush(file_); }
  Result<> close() {
    backing_ = nullptr;  // the last RELEASE ends the passthrough first
    return rig_.close(file_);
  }
  std::byte* map(uint64_t size) {
    void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, backing_->fd(), 0);
    EXPECT_NE(at, MAP_FAILED);
    return static_cast<std::byte*>(at);
  }

 private:
  WritableRig& rig_;
  OpenedFile file_;
  std::shared_ptr<BackingFile> backing_;
};

class WriteDirectly : public WriteBehind {
 protected:
  WriteDirectly() {
    EXPECT_TRUE(StagedFile::has_exact_times(::testing::TempDir()));
    writing.direct_writes = true;
    start();
  }

  DirectFile create(const std::string& name) {
    return {*rig, rig->create(kRootNode, name, O_RDWR | O_CREAT | O_TRUNC).value()};
  }
  std::string large(char letter) { return std::string(kLarge, letter); }
};

TEST_F(WriteDirectly, CloseKeepsWhatTheKernelWrote) {
  for (const std::string& text : {std::string("small"), large('x')}) {
    const std::string name = text.size() < kMiB ? "small" : "large";
    DirectFile file = create(name);
    ASSERT_EQ(file.is_direct(), true);
    file.put(0, text);
    EXPECT_EQ(rig->read_open(file.opened(), kLarge), text);
    EXPECT_TRUE(file.flush().has_value());
    EXPECT_TRUE(file.close().has_value());
  }
  EXPECT_EQ(rig->unsent().changes, 2u);
  start();
  EXPECT_EQ(rig->content(kRootNode, "small"), "small");
  EXPECT_EQ(rig->list(kRootNode), fmt::format("large:{} small:5", kLarge));
  EXPECT_TRUE(rig->drain().has_value());
  EXPECT_EQ(rig->stored("small"), "small");
  EXPECT_EQ(rig->stored("large"), large('x'));
}

TEST_F(WriteDirectly, LaterWritesAreAnotherSave) {
  DirectFile file = create("a");
  file.put(0, large('1'));
  EXPECT_TRUE(file.flush().has_value());
  file.put(0, "2");
  EXPECT_TRUE(file.flush().has_value());
  EXPECT_EQ(rig->unsent().changes, 1u);  // the first one was not sent yet
  EXPECT_TRUE(file.flush().has_value());
  EXPECT_TRUE(rig->drain().has_value());
  EXPECT_EQ(rig->stored("a"), "2" + large('1').substr(1));
  file.put(1, "3");
  EXPECT_TRUE(file.close().has_value());
  EXPECT_EQ(rig->unsent().changes, 1u);
  EXPECT_TRUE(rig->drain().has_value());
  EXPECT_EQ(rig->stored("a"), "23" + large('1').substr(2));
}

// A content that a program may write meanwhile is sent as a copy.
TEST_F(WriteDirectly, OpenFileIsSentAsItWas) {
  for (const std::string& text : {std::string(1000, 'a'), large('a')}) {
    const std::string name = fmt::format("f{}", text.size());
    DirectFile file = create(name);
    file.put(0, text);
    EXPECT_TRUE(file.flush().has_value());
    writing.bucket->before = [&](std::string_view operation, const std::string&) {
      if (operation == "write" || operation == "part") file.put(0, "b");
      return Result<>();
    };
    EXPECT_TRUE(rig->drain().has_value());
    writing.bucket->before = nullptr;
    EXPECT_EQ(rig->stored(name), text);
    EXPECT_TRUE(file.close().has_value());
    EXPECT_TRUE(rig->drain().has_value());
    EXPECT_EQ(rig->stored(name), "b" + text.substr(1));
  }
}

// A mapping sets the time of its file only once for each page that is clean.
TEST_F(WriteDirectly, WritesOfMappingsAreFound) {
  for (const uint64_t size : {uint64_t{4096}, kLarge}) {
    const std::string name = fmt::format("m{}", size);
    DirectFile file = create(name);
    file.put(0, std::string(size, '0'));
    std::byte* const bytes = file.map(size);
    bytes[0] = std::byte{'1'};
    EXPECT_TRUE(file.flush().has_value());
    bytes[1] = std::byte{'2'};
    EXPECT_TRUE(file.flush().has_value());
    bytes[2] = std::byte{'3'};
    ::munmap(bytes, size);
    EXPECT_TRUE(file.close().has_value());
    EXPECT_TRUE(rig->drain().has_value());
    EXPECT_EQ(rig->stored(name).substr(0, 4), "1230");
  }
}

TEST_F(WriteDirectly, AttributesShowWhatTheKernelWrote) {
  DirectFile file = create("a");
  rig->set_wall_clock(WallTime(1000s));
  file.put(0, "hello");
  const NodeAttributes written = rig->attributes(file.opened().node).value();
  EXPECT_EQ(written.size, 5u);
  EXPECT_GT(written.mtime, WallTime(1'000'000'000s));  // that of the file
  EXPECT_TRUE(rig->set(file.opened().node, {.mtime = WallTime(77s)}).has_value());
  EXPECT_TRUE(file.flush().has_value());
  EXPECT_EQ(rig->attributes(file.opened().node)->mtime, WallTime(77s));
  file.put(5, "!");
  EXPECT_TRUE(file.close().has_value());
  const NodeAttributes closed = rig->lookup(kRootNode, "a").value();
  EXPECT_EQ(closed.size, 6u);
  EXPECT_GT(closed.mtime, WallTime(1'000'000'000s));
}

TEST_F(WriteDirectly, TruncationsMixWithDirectWrites) {
  DirectFile file = create("a");
  file.put(0, large('x'));
  EXPECT_TRUE(rig->set(file.opened().node, {.size = 3}).has_value());
  EXPECT_EQ(rig->read_open(file.opened()), "xxx");
  file.put(3, "y");
  EXPECT_TRUE(rig->allocate(file.opened(), 0, 0, 6).has_value());
  EXPECT_TRUE(file.close().has_value());
  EXPECT_TRUE(rig->drain().has_value());
  EXPECT_EQ(rig->stored("a"), std::string("xxxy\0\0", 6));
}

TEST_F(WriteDirectly, ClosedContentIsNotWrittenDirectly) {
  DirectFile first = create("a");
  first.put(0, "hello");
  EXPECT_TRUE(first.close().has_value());
  DirectFile second(*rig, rig->open_name(kRootNode, "a", O_RDWR).value());
  EXPECT_FALSE(second.is_direct());
  EXPECT_TRUE(rig->write(second.opened(), 0, "J").has_value());
  EXPECT_TRUE(second.close().has_value());
  DirectFile third(*rig, rig->open_name(kRootNode, "a", O_RDWR | O_TRUNC).value());
  EXPECT_TRUE(third.is_direct());
  EXPECT_EQ(rig->content(kRootNode, "a"), "");
  third.put(0, "new");
  EXPECT_TRUE(third.close().has_value());
  EXPECT_TRUE(rig->drain().has_value());
  EXPECT_EQ(rig->stored("a"), "new");
}

TEST_F(WriteDirectly, ThroughIsWrittenByTheDaemon) {
  rig.reset();
  rig = std::make_unique<WritableRig>(TreeRigOptions{.write = WriteMode::kThrough}, writing);
  DirectFile file = create("a");
  EXPECT_FALSE(file.is_direct());
  EXPECT_TRUE(file.close().has_value());
}

// A crash leaves at least what was kept, as a local file system does.
TEST_F(WriteDirectly, CrashAfterLaterWrites) {
  {
    DirectFile file = create("a");
    file.put(0, large('x'));
    EXPECT_TRUE(file.flush().has_value());
    file.put(kLarge, "more");
    DirectFile shorter = create("b");
    shorter.put(0, large('y'));
    EXPECT_TRUE(shorter.flush().has_value());
    ASSERT_EQ(::ftruncate(shorter.fd(), 70'000), 0);
  }
  start();
  EXPECT_EQ(rig->list(kRootNode), fmt::format("a:{} b:70000", kLarge + 4));
  EXPECT_TRUE(rig->drain().has_value());
  EXPECT_EQ(rig->stored("a"), large('x') + "more");
  EXPECT_EQ(rig->stored("b"), std::string(70'000, 'y'));
}

TEST_F(WriteDirectly, RemovedFileStaysOpen) {
  DirectFile file = create("a");
  file.put(0, large('x'));
  EXPECT_TRUE(file.flush().has_value());
  EXPECT_EQ(rig->remove_file(kRootNode, "a"), "ok");
  file.put(0, "y");
  EXPECT_EQ(rig->read_open(file.opened(), 2), "yx");
  EXPECT_TRUE(file.flush().has_value());
  EXPECT_TRUE(file.close().has_value());
  EXPECT_EQ(rig->list(kRootNode), "");
  EXPECT_TRUE(rig->drain().has_value());
  EXPECT_EQ(rig->keys(), "");
}

TEST_F(WriteDirectly, RenamedWhileItIsOpen) {
  DirectFile file = create("a.tmp");
  file.put(0, large('x'));
  EXPECT_TRUE(file.flush().has_value());
  EXPECT_EQ(rig->rename(kRootNode, "a.tmp", kRootNode, "a"), "ok");
  file.put(0, "y");
  EXPECT_TRUE(file.close().has_value());
  EXPECT_TRUE(rig->drain().has_value());
  EXPECT_EQ(rig->keys(), "a");
  EXPECT_EQ(rig->stored("a"), "y" + large('x').substr(1));
}

}  // namespace
}  // namespace leat::testing
