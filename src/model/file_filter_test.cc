// SPDX-License-Identifier: Apache-2.0
#include "model/file_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leat {
namespace {

using testing::HasSubstr;

FileFilter filter(FileSelection selection) {
  auto made = FileFilter::make(selection);
  EXPECT_TRUE(made) << made.error().to_string();
  return made ? *made : FileFilter();
}

std::string refusal(FileSelection selection) {
  auto made = FileFilter::make(selection);
  return made ? "(none)" : made.error().to_string();
}

TEST(FileFilter, WithoutRulesAllFilesAreMeant) {
  EXPECT_TRUE(FileFilter().matches("a/b"));
  EXPECT_TRUE(FileFilter().may_hold("a"));
  EXPECT_TRUE(filter({}).everything());
}

TEST(FileFilter, PatternsAreThoseOfAShell) {
  struct Case {
    const char* pattern;
    const char* name;
    bool fits;
  };
  for (const Case& one : std::initializer_list<Case>{
           {"*.jpg", "a.jpg", true},
           {"*.jpg", "deep/er/a.jpg", true},  // without a slash: in any folder
           {"*.jpg", "a.jpg/b", false},
           {"a/*.jpg", "a/b.jpg", true},
           {"a/*.jpg", "a/b/c.jpg", false},  // a star does not match a slash
           {"a/*.jpg", "x/a/b.jpg", false},
           {"a/**", "a/b/c.jpg", true},
           {"a/**/c.jpg", "a/c.jpg", true},
           {"a/**/c.jpg", "a/x/y/c.jpg", true},
           {"**/c.jpg", "c.jpg", true},
           {"part-?", "part-1", true},
           {"part-?", "part-12", false},
           {"part-[0-3]", "part-2", true},
           {"part-[!0-3]", "part-2", false},
           {"part-[^0-3]", "part-7", true},
           {"[]x]", "]", true},
           {"a[!b]c", "a/c", false},
           {"[!]]", "x", true},
           {"[!]]", "]", false},
           {"a+b(1).txt", "a+b(1).txt", true},
           {"a.txt", "axtxt", false},
           {"\\*", "*", true},
           {"\\*", "a", false},
           {"labels/", "labels/a/b", true},
           {"labels/", "x/labels/a", true},
           {"labels/", "labels", false},
           {"caf\xc3?", "caf\xc3\xa9", true},  // bytes
           {"a?b", "a\nb", true},
           {"a", "A", false},
       }) {
    EXPECT_EQ(filter({.include = {one.pattern}}).matches(one.name), one.fits)
        << one.pattern << " of " << one.name;
  }
}

TEST(FileFilter, AllThatIsGivenHasToHold) {
  const FileFilter some = filter({.include = {"*.jpg", "*.png"}, .exclude = {"tmp/", "*~*"}});
  EXPECT_TRUE(some.matches("a/b.png"));
  EXPECT_FALSE(some.matches("a/b.gif"));
  EXPECT_FALSE(some.matches("tmp/b.png"));
  EXPECT_FALSE(some.matches("a/b~.png"));
  const FileFilter regex = filter({.include = {"*.jpg"}, .regex = "^n0[0-4]/"});
  EXPECT_TRUE(regex.matches("n03/a.jpg"));
  EXPECT_FALSE(regex.matches("n05/a.jpg"));
  EXPECT_FALSE(regex.matches("n03/a.png"));
}

TEST(FileFilter, AListNamesFilesAndFolders) {
  const FileFilter list = filter({.files = {"a/1.png", "./b/", "c/d/e"}});
  EXPECT_TRUE(list.matches("a/1.png"));
  EXPECT_FALSE(list.matches("a/2.png"));
  EXPECT_TRUE(list.matches("b/x/y"));
  EXPECT_TRUE(list.matches("c/d/e"));
  for (const char* folder : {"", "a", "b", "b/x", "c", "c/d"}) {
    EXPECT_TRUE(list.may_hold(folder)) << folder;
  }
  for (const char* folder : {"x", "a/1", "c/x"}) EXPECT_FALSE(list.may_hold(folder)) << folder;
}

TEST(FileFilter, UnmatchableFoldersNeedNoListing) {
  const FileFilter some = filter({.include = {"train/2024*/x.jpg", "val/a/b/*.jpg"}});
  for (const char* folder : {"", "train", "train/2024-01", "val", "val/a", "val/a/b"}) {
    EXPECT_TRUE(some.may_hold(folder)) << folder;
  }
  for (const char* folder : {"test", "trai", "training", "val/b"}) {
    EXPECT_FALSE(some.may_hold(folder)) << folder;
  }
  EXPECT_TRUE(filter({.include = {"*.jpg"}}).may_hold("any/where"));
}

TEST(FileFilter, SaysWhatIsWrong) {
  EXPECT_THAT(refusal({.include = {"a[b"}}), HasSubstr("pattern 'a[b': the '[' is not closed"));
  EXPECT_THAT(refusal({.include = {""}}), HasSubstr("empty"));
  EXPECT_THAT(refusal({.exclude = {"/a"}}), HasSubstr("relative to the folder"));
  EXPECT_THAT(refusal({.regex = "a("}), HasSubstr("regular expression 'a('"));
  EXPECT_THAT(refusal({.files = {"/mnt/a"}}), HasSubstr("relative to the folder"));
  EXPECT_THAT(refusal({.include = std::vector<std::string>(1001, "a")}), HasSubstr("1000"));
}

TEST(FileFilter, NoPatternTakesLongerThanItsNames) {
  std::string evil;
  for (int i = 0; i < 30; ++i) evil += "*a";
  EXPECT_FALSE(filter({.include = {evil + "b"}}).matches(std::string(4000, 'a')));
}

}  // namespace
}  // namespace leat
