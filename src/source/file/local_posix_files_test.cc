// SPDX-License-Identifier: Apache-2.0
// Tests links, special files and extended attributes of a file source with FileAccess::kExact.
#include "source/file/local_posix_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/id128.h"
#include "runtime/executor.h"
#include "source/file/file_source.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

template <class T>
std::string outcome(const Result<T>& result) {
  return result ? "ok" : std::string(to_string(result.error().code()));
}

class LocalPosixFiles : public ::testing::Test {
 protected:
  LocalPosixFiles()
      : folder_(fs::temp_directory_path() / ("leat-posix-" + Id128::random().to_hex())),
        root_(folder_.string().substr(1) + "/") {
    fs::create_directories(folder_);
  }
  ~LocalPosixFiles() override { fs::remove_all(folder_); }

  void put(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name) << content;
  }
  std::string content(const std::string& name) {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  template <class T>
  T wait(Task<T> task) {
    return executor_.block_on(std::move(task));
  }
  Result<SourceObject> stat(const std::string& name) {
    return wait(source_.stat({}, {root_ + name}));
  }
  Result<SourceObject> make(const std::string& name, mode_t mode, std::string target = "") {
    NodeRequest request{.key = root_ + name, .attributes = {.mode = mode}, .target = target};
    return wait(posix().make_node({}, std::move(request)));
  }
  Result<SourceObject> link(const std::string& from, const std::string& to) {
    return wait(posix().link({}, {root_ + from, root_ + to}));
  }
  Result<SourceObject> write(const std::string& name, std::string text) {
    return wait(source_.write({}, {root_ + name}, std::as_bytes(std::span<const char>(text))));
  }
  ino_t inode(const std::string& name) {
    struct stat info{};
    ::lstat((folder_ / name).c_str(), &info);
    return info.st_ino;
  }
  PosixFiles& posix() { return *source_.posix(); }

  const fs::path folder_;
  const std::string root_;
  Executor executor_;
  FileSource source_{{}, FileSource::kPageEntries, FileAccess::kExact};
};

TEST_F(LocalPosixFiles, OnlyAnExactSourceHasThem) {
  FileSource followed;
  EXPECT_EQ(followed.posix(), nullptr);
  EXPECT_NE(source_.posix(), nullptr);
}

TEST_F(LocalPosixFiles, LinksAreShownAsSuch) {
  ASSERT_TRUE(make("link", S_IFLNK | 0777, "no/where"));
  const auto found = stat("link");
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_TRUE(S_ISLNK(*found->attributes->mode));
  EXPECT_EQ(found->size, 8u);
  EXPECT_FALSE(found->local) << "its target is no content";
  EXPECT_EQ(wait(posix().read_link({}, root_ + "link")).value(), "no/where");
  EXPECT_EQ(fs::read_symlink(folder_ / "link"), "no/where");
  fs::create_directory(folder_ / "d");
  fs::create_symlink("d", folder_ / "to_d");
  const auto page = wait(source_.list({}, {root_, false, ""}));
  std::vector<std::string> keys;
  for (const SourceObject& object : page->objects) keys.push_back(object.key.substr(root_.size()));
  EXPECT_THAT(keys, ElementsAre("d/", "link", "to_d"));
  EXPECT_EQ(page->skipped, 0u);
}

TEST_F(LocalPosixFiles, OnlyTheRootIsFollowed) {
  fs::create_directory(folder_ / "d");
  ASSERT_TRUE(make("loop", S_IFLNK | 0777, "loop"));
  ASSERT_TRUE(make("to_d", S_IFLNK | 0777, "d"));
  EXPECT_EQ(outcome(stat("loop/")), "not_found");
  EXPECT_EQ(outcome(stat("to_d/")), "not_found") << "it is a link";
  EXPECT_EQ(outcome(stat("d")), "not_found");
  EXPECT_EQ(outcome(stat("d/")), "ok");
  FileSource rooted({}, FileSource::kPageEntries, FileAccess::kExact, Clock::duration::max(),
                    root_ + "to_d/");
  EXPECT_EQ(outcome(wait(rooted.stat({}, {root_ + "to_d/"}))), "ok");
}

TEST_F(LocalPosixFiles, TargetOfAFileIsAnError) {
  put("f", "1");
  EXPECT_EQ(outcome(wait(posix().read_link({}, root_ + "f"))), "invalid_argument");
  EXPECT_EQ(outcome(wait(posix().read_link({}, root_ + "none"))), "not_found");
}

TEST_F(LocalPosixFiles, SpecialFilesHaveTheirTypes) {
  for (const mode_t type : {S_IFIFO, S_IFSOCK}) {
    const std::string name = std::to_string(type);
    const auto made = make(name, type | 0640);
    ASSERT_TRUE(made) << made.error().to_string();
    EXPECT_EQ(*made->attributes->mode, type | 0640);
    EXPECT_EQ(made->size, 0u);
    EXPECT_EQ(outcome(make(name, type | 0640)), "exists");
  }
}

TEST_F(LocalPosixFiles, NamesOfOneFileHaveOneIdentity) {
  put("a", "1");
  const auto linked = link("a", "b");
  ASSERT_TRUE(linked) << linked.error().to_string();
  EXPECT_EQ(linked->attributes->links, 2u);
  EXPECT_EQ(stat("a")->attributes->file, stat("b")->attributes->file);
  EXPECT_EQ(stat("a")->version, stat("b")->version);
  EXPECT_EQ(outcome(link("a", "b")), "exists");
  EXPECT_EQ(outcome(link("none", "c")), "not_found");
  fs::create_directory(folder_ / "d");
  EXPECT_EQ(outcome(link("d", "e")), "unsupported") << "directories have no other names";
}

TEST_F(LocalPosixFiles, AWriteKeepsTheOtherNames) {
  put("a", "before, and longer");
  ASSERT_TRUE(link("a", "b"));
  const ino_t before = inode("a");
  const auto written = write("a", "after");
  ASSERT_TRUE(written) << written.error().to_string();
  EXPECT_EQ(content("b"), "after");
  EXPECT_EQ(inode("a"), before);
  EXPECT_EQ(written->version, stat("b")->version);
  EXPECT_EQ(written->attributes->links, 2u);
  fs::remove(folder_ / "b");
  ASSERT_TRUE(write("a", "one name"));
  EXPECT_NE(inode("a"), before) << "replaced as a whole";
}

TEST_F(LocalPosixFiles, WriteReplacesLinkToDirectory) {
  fs::create_directory(folder_ / "d");
  ASSERT_TRUE(make("to_d", S_IFLNK | 0777, "d"));
  EXPECT_EQ(outcome(write("to_d", "text")), "ok");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder_ / "to_d")));
  EXPECT_EQ(outcome(write("d", "text")), "is_directory");
}

TEST_F(LocalPosixFiles, LinkIsNotFollowedByAChange) {
  put("f", "1");
  fs::permissions(folder_ / "f", fs::perms(0600));
  ASSERT_TRUE(make("link", S_IFLNK | 0777, "f"));
  const WallTime then{std::chrono::seconds(1'000'000)};
  AttributesRequest request{.key = root_ + "link", .attributes = {.mode = 0777, .mtime = then}};
  const auto changed = wait(source_.set_attributes({}, std::move(request)));
  ASSERT_TRUE(changed) << changed.error().to_string();
  EXPECT_EQ(changed->attributes->mtime, then);
  EXPECT_NE(stat("f")->attributes->mtime, then);
  EXPECT_EQ(*stat("f")->attributes->mode & 07777, 0600u);
}

TEST_F(LocalPosixFiles, NamesAreExchanged) {
  put("a", "1");
  fs::create_directory(folder_ / "b");
  ASSERT_TRUE(wait(posix().exchange({}, {root_ + "a", root_ + "b"})));
  EXPECT_TRUE(fs::is_directory(folder_ / "a"));
  EXPECT_EQ(content("b"), "1");
  EXPECT_EQ(outcome(wait(posix().exchange({}, {root_ + "a", root_ + "none"}))), "not_found");
}

TEST_F(LocalPosixFiles, ARenameMayRefuseToReplace) {
  put("a", "1");
  put("b", "2");
  RenameRequest request{.from = root_ + "a", .to = root_ + "b", .no_replace = true};
  EXPECT_EQ(outcome(wait(source_.rename({}, request))), "exists");
  EXPECT_EQ(content("b"), "2");
  request.to = root_ + "c";
  EXPECT_EQ(outcome(wait(source_.rename({}, request))), "ok");
  EXPECT_EQ(content("c"), "1");
}

TEST_F(LocalPosixFiles, HolesAreNotWritten) {
  ASSERT_TRUE(write("zeros", std::string(8 << 20, '\0')));
  ASSERT_TRUE(write("end", std::string(8 << 20, '\0') + "x"));
  struct stat zeros{};
  ::stat((folder_ / "zeros").c_str(), &zeros);
  EXPECT_EQ(zeros.st_size, 8 << 20);
  EXPECT_LT(zeros.st_blocks * 512, 1 << 20);
  EXPECT_EQ(content("zeros"), std::string(8 << 20, '\0'));
  EXPECT_EQ(content("end"), std::string(8 << 20, '\0') + "x");
}

TEST_F(LocalPosixFiles, AttributesSurviveAWrite) {
  put("f", "1");
  const ExtendedAttributeName name{root_ + "f", "user.colour"};
  const auto set = wait(posix().set_attribute({}, name, "green", 0));
  ASSERT_TRUE(set) << set.error().to_string();
  EXPECT_EQ(set->version, stat("f")->version);
  ASSERT_TRUE(write("f", "2"));
  EXPECT_EQ(wait(posix().attribute({}, name)).value(), "green");
  EXPECT_THAT(wait(posix().attributes({}, root_ + "f")).value(),
              UnorderedElementsAre("user.colour"));
  EXPECT_EQ(outcome(wait(posix().set_attribute({}, name, "red", XATTR_CREATE))), "exists");
  EXPECT_EQ(outcome(wait(posix().attribute({}, {root_ + "f", "user.none"}))), "not_found");
  EXPECT_EQ(outcome(wait(posix().attribute({}, {root_ + "f", "trusted.x"}))), "unsupported");
  ASSERT_TRUE(wait(posix().remove_attribute({}, name)));
  EXPECT_EQ(outcome(wait(posix().remove_attribute({}, name))), "not_found");
}

}  // namespace
}  // namespace leat
