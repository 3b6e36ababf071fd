// SPDX-License-Identifier: Apache-2.0
// Tests properties of local file systems: links, special files, changes under a reader.
#include "source/file/file_source.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/id128.h"
#include "runtime/executor.h"
#include "source/retry/retrying_source.h"
#include "source/source_metrics.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::ElementsAre;

class FileSourceTest : public ::testing::Test {
 protected:
  FileSourceTest()
      : folder_(fs::temp_directory_path() / ("leat-files-" + Id128::random().to_hex())),
        root_(folder_.string().substr(1) + "/") {
    fs::create_directories(folder_);
  }
  ~FileSourceTest() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& content) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << content;
  }
  Result<SourceObject> stat(const std::string& name) {
    return executor_.block_on(source_.stat(Context::background(), {root_ + name}));
  }
  Result<> read(const std::string& name, Version version, ByteRange range = {0, 4}) {
    std::string into(range.size, '?');
    return executor_.block_on(source_.read(Context::background(), {root_ + name, range, version},
                                           std::as_writable_bytes(std::span(into))));
  }
  Result<ListPage> list(const std::string& prefix, bool recursive) {
    return executor_.block_on(source_.list(Context::background(), {root_ + prefix, recursive, ""}));
  }
  std::vector<std::string> keys(const std::string& prefix, bool recursive) {
    auto page = list(prefix, recursive);
    EXPECT_TRUE(page) << (page ? "" : page.error().to_string());
    std::vector<std::string> names;
    for (const SourceObject& object : page.value_or(ListPage()).objects) {
      names.push_back(object.key.substr(root_.size()));
    }
    return names;
  }

  fs::path folder_;
  std::string root_;
  Executor executor_;
  FileSource source_;
};

TEST_F(FileSourceTest, LinksAreWhatTheyPointTo) {
  write("real/file", "1234");
  fs::create_symlink("real", folder_ / "linked");
  fs::create_symlink("real/file", folder_ / "alias");
  EXPECT_THAT(keys("", false), ElementsAre("alias", "linked/", "real/"));
  EXPECT_EQ(stat("alias")->size, 4u);
  EXPECT_EQ(stat("alias")->version, stat("real/file")->version);
  EXPECT_TRUE(read("linked/file", {}));
}

TEST_F(FileSourceTest, ALinkToADirectoryThatItIsInIsLeftOut) {
  write("a/file", "1234");
  fs::create_symlink("..", folder_ / "a/up");
  fs::create_symlink("/", folder_ / "a/top");
  EXPECT_THAT(keys("", true), ElementsAre("a/", "a/file"));
  EXPECT_THAT(keys("a/", false), ElementsAre("a/file"));
  EXPECT_EQ(list("a/", false)->skipped, 2u);
  EXPECT_THAT(list("a/", false)->skipped_example, AnyOf("top", "up"));
  for (const char* link : {"a/up/", "a/top/"}) {
    EXPECT_EQ(stat(link).error().code(), StatusCode::kUnsupported) << link;
  }
}

TEST_F(FileSourceTest, LinksToEachOtherEnd) {
  write("a/file", "1234");
  write("b/file", "1234");
  fs::create_symlink("../b", folder_ / "a/to_b");
  fs::create_symlink("../a", folder_ / "b/to_a");
  EXPECT_THAT(keys("", true), ElementsAre("a/", "a/file", "a/to_b/", "a/to_b/file", "b/", "b/file",
                                          "b/to_a/", "b/to_a/file"));
  EXPECT_THAT(keys("a/to_b/", false), ElementsAre("a/to_b/file"));
  EXPECT_EQ(stat("a/to_b/to_a/").error().code(), StatusCode::kUnsupported);
}

TEST_F(FileSourceTest, SkippedNamesAreCountedOncePerListing) {
  for (int i = 0; i < 30; ++i) write(fmt::format("d/{:02}", i), "x");
  fs::create_symlink("nowhere", folder_ / "d/dangling");
  FileSource small({}, 7);
  ListRequest request{root_, false, ""};
  request.prefix += "d/";
  auto level = executor_.block_on(small.list(Context::background(), request));
  EXPECT_EQ(level->objects.size(), 30u);
  EXPECT_EQ(level->next_token, "");
  EXPECT_EQ(level->skipped, 1u);

  request = {root_, true, ""};
  uint64_t left_out = 0, pages = 0;
  do {
    auto page = executor_.block_on(small.list(Context::background(), request));
    left_out += page->skipped;
    request.token = page->next_token;
    ++pages;
  } while (!request.token.empty());
  EXPECT_EQ(pages, 5u);
  EXPECT_EQ(left_out, 1u);
}

TEST_F(FileSourceTest, SpecialFilesAreSkippedAndCounted) {
  write("file", "1234");
  fs::create_symlink("nowhere", folder_ / "dangling");
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  uint64_t before = source_metrics::skipped_keys.value();
  EXPECT_THAT(keys("", false), ElementsAre("file"));
  EXPECT_EQ(source_metrics::skipped_keys.value() - before, 2u);
  EXPECT_EQ(list("", false)->skipped, 2u);
  EXPECT_EQ(stat("fifo").error().code(), StatusCode::kUnsupported);
  EXPECT_EQ(read("fifo", {}).error().code(), StatusCode::kNotFound) << "and without waiting";
}

TEST_F(FileSourceTest, EmptyDirectoriesAreThere) {
  fs::create_directories(folder_ / "empty");
  EXPECT_THAT(keys("", false), ElementsAre("empty/"));
  EXPECT_THAT(keys("", true), ElementsAre("empty/"));
  EXPECT_TRUE(keys("empty/", false).empty());
  EXPECT_EQ(stat("empty/")->kind, FileKind::kDirectory);
}

TEST_F(FileSourceTest, RewriteOfSameSizeAndTimeIsDetected) {
  write("file", "1234");
  auto before = stat("file");
  struct timespec times[2] = {{1'700'000'000, 0}, {1'700'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, (folder_ / "file").c_str(), times, 0), 0);
  auto dated = stat("file");
  EXPECT_NE(before->version, dated->version);
  fs::remove(folder_ / "file");
  write("other", "x");  // reuses the freed inode
  write("file", "5678");
  ASSERT_EQ(utimensat(AT_FDCWD, (folder_ / "file").c_str(), times, 0), 0);
  auto again = stat("file");
  EXPECT_EQ(again->mtime, dated->mtime);
  EXPECT_NE(again->version, dated->version);
  EXPECT_EQ(read("file", dated->version).error().code(), StatusCode::kVersionChanged);
  EXPECT_TRUE(read("file", again->version));
}

TEST_F(FileSourceTest, KeysWithTwoSpellingsAreRefused) {
  write("d/file", "1234");
  for (const char* key : {"d//file", "d/./file", "d/../d/file", "/d/file"}) {
    EXPECT_EQ(stat(key).error().code(), StatusCode::kUnsupported) << key;
    EXPECT_EQ(read(key, {}).error().code(), StatusCode::kUnsupported) << key;
  }
  EXPECT_EQ(stat("d/file/below").error().code(), StatusCode::kNotFound);
}

TEST_F(FileSourceTest, WhitespaceAndBytesThatAreNotUtf8AreNames) {
  write(" a ", "1234");
  write("\xff\xfe", "1234");
  EXPECT_THAT(keys("", false), ElementsAre(" a ", "\xff\xfe"));
  EXPECT_TRUE(read("\xff\xfe", stat("\xff\xfe")->version));
}

TEST_F(FileSourceTest, SaysWhichFilesLieOnALocalDisk) {
  write("d/file", "1234");
  fs::create_symlink("/proc/self/status", folder_ / "d/elsewhere");
  EXPECT_TRUE(stat("d/file")->local);
  EXPECT_FALSE(stat("d/elsewhere")->local) << "a link leads to another file system";
  auto page = list("d/", false);
  ASSERT_EQ(page->objects.size(), 2u);
  EXPECT_FALSE(page->objects[0].local);
  EXPECT_TRUE(page->objects[1].local);
  FileSource network({}, 1000, FileAccess::kAsNetwork);
  EXPECT_FALSE(executor_.block_on(network.stat({}, {root_ + "d/file"}))->local);
  page = executor_.block_on(network.list({}, {root_ + "d/", false, ""}));
  EXPECT_FALSE(page->objects[1].local);
}

TEST_F(FileSourceTest, LocalFileStaysOpenInItsVersion) {
  write("file", "1234");
  OpenRequest request{root_ + "file", stat("file")->version};
  auto file = executor_.block_on(source_.open_file({}, request));
  ASSERT_TRUE(file && *file);
  EXPECT_EQ((*file)->size(), 4u);
  std::string into(4, '?');
  EXPECT_TRUE(executor_.block_on((*file)->read({}, 0, std::as_writable_bytes(std::span(into)))));
  EXPECT_EQ(into, "1234");
  auto retrying = RetryingSource::make(std::make_shared<FileSource>());
  EXPECT_TRUE(*executor_.block_on(retrying->open_file({}, request)));

  write("file", "56789");
  EXPECT_EQ(executor_.block_on(source_.open_file({}, request)).error().code(),
            StatusCode::kVersionChanged);
  FileSource network({}, 1000, FileAccess::kAsNetwork);
  EXPECT_EQ(executor_.block_on(network.open_file({}, request)).value(), nullptr);
  OpenRequest elsewhere{"proc/self/status", {}};
  EXPECT_EQ(executor_.block_on(source_.open_file({}, elsewhere)).value(), nullptr);
}

TEST_F(FileSourceTest, TheErrorNamesThePathAndTheReason) {
  auto failed = read("absent", {});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().to_string(),
            fmt::format("cannot read {}/absent: No such file or directory", folder_.string()));
}

TEST_F(FileSourceTest, ACopyGoesFromOneFileSystemToAnother) {
  std::filesystem::path other = fmt::format("/dev/shm/leat-file-source-{}", getpid());
  std::filesystem::create_directory(other);
  struct stat here, there;
  ASSERT_EQ(::stat(("/" + root_).c_str(), &here), 0);
  ASSERT_EQ(::stat(other.c_str(), &there), 0);
  std::string text(3 << 20, 'x');
  for (size_t i = 0; i < text.size(); i += 4096) text[i] = static_cast<char>('a' + i / 4096 % 26);
  std::ofstream("/" + root_ + "from") << text;
  auto copied = executor_.block_on(source_.copy(
      Context::background(), {.from = root_ + "from", .to = other.string().substr(1) + "/to"}));
  std::ifstream file(other / "to");
  std::string found{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove_all(other);
  ASSERT_TRUE(copied) << copied.error().to_string();
  EXPECT_NE(here.st_dev, there.st_dev) << "this machine has one file system, so nothing was shown";
  EXPECT_TRUE(found == text);
}

}  // namespace
}  // namespace leat
