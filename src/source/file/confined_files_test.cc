// SPDX-License-Identifier: Apache-2.0
#include "source/file/confined_files.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "base/id128.h"
#include "runtime/executor.h"
#include "source/file/file_source.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

TEST(ConfinedFiles, AFolderHoldsItselfAndWhatIsBelow) {
  EXPECT_TRUE(is_in_folders("/a/b", {"/a/b"}));
  EXPECT_TRUE(is_in_folders("/a/b", {"/x", "/a/b"}));
  EXPECT_TRUE(is_in_folders("/a/b/c", {"/a/b"}));
  EXPECT_TRUE(is_in_folders("/a/b", {"/"}));
  EXPECT_TRUE(is_in_folders("/", {"/"}));
  EXPECT_FALSE(is_in_folders("/a/bc", {"/a/b"}));
  EXPECT_FALSE(is_in_folders("/a", {"/a/b"}));
  EXPECT_FALSE(is_in_folders("/", {"/a"}));
  EXPECT_FALSE(is_in_folders("/a", {}));
}

class ConfinedFilesTest : public ::testing::Test {
 protected:
  ConfinedFilesTest()
      : folder_(fs::temp_directory_path() / ("leat-confined-" + Id128::random().to_hex())) {
    fs::create_directories(folder_ / "allowed/below");
    fs::create_directories(folder_ / "outside");
    std::ofstream(folder_ / "allowed/below/file") << "good";
    std::ofstream(folder_ / "outside/secret") << "secret";
    fs::create_symlink("below/file", folder_ / "allowed/inside");
    fs::create_symlink("../outside/secret", folder_ / "allowed/escape");
    fs::create_symlink(folder_ / "outside", folder_ / "allowed/door");
    fs::create_symlink("allowed", folder_ / "alias");
    source_ = confine({folder_ / "allowed"});
  }
  ~ConfinedFilesTest() override { fs::remove_all(folder_); }

  SourcePtr confine(std::vector<std::string> folders) {
    return confine_files(std::make_shared<FileSource>(), std::move(folders),
                         [this](const Status&) { ++refused_; });
  }
  std::string key(const std::string& name) { return (folder_ / name).string().substr(1); }
  StatusCode read(Source& source, const std::string& name) {
    std::string into(4, '?');
    auto done = executor_.block_on(source.read(Context::background(), {key(name), {0, 4}, {}},
                                               std::as_writable_bytes(std::span(into))));
    if (!done) return done.error().code();
    EXPECT_EQ(into, "good");
    return StatusCode();
  }
  StatusCode write(const std::string& name) {
    const std::string text = "evil";
    auto done = executor_.block_on(
        source_->write(Context::background(), {.key = key(name)}, std::as_bytes(std::span(text))));
    return done ? StatusCode() : done.error().code();
  }
  StatusCode list(const std::string& name) {
    auto done = executor_.block_on(source_->list(Context::background(), {key(name), false, ""}));
    return done ? StatusCode() : done.error().code();
  }

  const fs::path folder_;
  Executor executor_;
  std::atomic<int> refused_ = 0;
  SourcePtr source_;
};

TEST_F(ConfinedFilesTest, FilesBelowAreServed) {
  EXPECT_EQ(read(*source_, "allowed/below/file"), StatusCode());
  EXPECT_EQ(read(*source_, "allowed/inside"), StatusCode());
  EXPECT_EQ(list("allowed/"), StatusCode());
  EXPECT_EQ(write("allowed/new/file"), StatusCode());
  EXPECT_EQ(refused_, 0);
}

TEST_F(ConfinedFilesTest, LinksOutLeadNowhere) {
  for (const char* name : {"outside/secret", "allowed/escape", "allowed/door/secret"}) {
    EXPECT_EQ(read(*source_, name), StatusCode::kPermissionDenied) << name;
    auto there = executor_.block_on(source_->stat(Context::background(), {key(name)}));
    EXPECT_EQ(there.error().code(), StatusCode::kPermissionDenied) << name;
    auto open = executor_.block_on(source_->open_file(Context::background(), {key(name), {}}));
    EXPECT_EQ(open.error().code(), StatusCode::kPermissionDenied) << name;
  }
  EXPECT_EQ(list("allowed/door/"), StatusCode::kPermissionDenied);
  EXPECT_EQ(list(""), StatusCode::kPermissionDenied);
  EXPECT_EQ(refused_, 11);
}

TEST_F(ConfinedFilesTest, NothingIsChangedOutside) {
  EXPECT_EQ(write("outside/new"), StatusCode::kPermissionDenied);
  EXPECT_EQ(write("allowed/door/new"), StatusCode::kPermissionDenied);
  auto writer = source_->begin_write({.key = key("allowed/door/parts")});
  ASSERT_TRUE(writer);
  EXPECT_EQ(executor_.block_on((*writer)->complete(Context::background(), {})).error().code(),
            StatusCode::kPermissionDenied);
  auto moved = executor_.block_on(source_->rename(
      Context::background(), {key("allowed/below/file"), key("allowed/door/file")}));
  EXPECT_EQ(moved.error().code(), StatusCode::kPermissionDenied);
  auto copied = executor_.block_on(
      source_->copy(Context::background(), {key("outside/secret"), key("allowed/secret")}));
  EXPECT_EQ(copied.error().code(), StatusCode::kPermissionDenied);
  auto removed =
      executor_.block_on(source_->remove(Context::background(), {{key("allowed/door/secret")}}));
  EXPECT_EQ(removed.error().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "outside"), {}), 1);
}

TEST_F(ConfinedFilesTest, AFolderMayBeALink) {
  const SourcePtr by_link = confine({folder_ / "none", folder_ / "alias"});
  EXPECT_EQ(read(*by_link, "alias/below/file"), StatusCode());
  EXPECT_EQ(read(*by_link, "allowed/below/file"), StatusCode());
  EXPECT_EQ(read(*by_link, "outside/secret"), StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace leat
