// SPDX-License-Identifier: Apache-2.0
// Changes of names: unlink, rename, mkdir, rmdir, and listings, also of open files.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "vfs/writing/writable_rig_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using testing::OpenedFile;
using testing::outcome;
using testing::pattern;
using testing::WritableRig;

OpenedFile created(WritableRig& rig, NodeId parent, std::string name, std::string text) {
  OpenedFile file = rig.create(parent, std::move(name)).value();
  EXPECT_TRUE(rig.write(file, 0, std::move(text)));
  return file;
}

// ---- requests

// A far store makes each of them felt.
TEST(WrittenNames, OneRequestForAChange) {
  WritableRig rig;
  rig.bucket().changed.renames = false;
  rig.bucket().put("z", "");
  EXPECT_EQ(rig.list(kRootNode), "z:0");
  std::mutex mutex;
  std::string asked;
  rig.bucket().after = [&](std::string_view operation, const std::string& key) {
    std::lock_guard lock(mutex);
    asked += fmt::format("{} {}, ", operation, key);
    return Result<>();
  };
  auto requests = [&] {
    std::lock_guard lock(mutex);
    return std::exchange(asked, "");
  };
  for (const char* text : {"one", "other"}) {
    const OpenedFile file = rig.create(kRootNode, "x", O_RDWR | O_CREAT | O_TRUNC).value();
    ASSERT_TRUE(rig.write(file, 0, text));
    ASSERT_TRUE(rig.close(file));
    EXPECT_EQ(requests(), "write x, ");
    EXPECT_EQ(rig.content(kRootNode, "x"), text);
  }
  ASSERT_EQ(rig.rename(kRootNode, "x", kRootNode, "y"), "ok");
  EXPECT_EQ(requests(), "copy y, remove x, ");
  ASSERT_TRUE(rig.make_directory(kRootNode, "d"));
  EXPECT_EQ(requests(), "write d/, ");
  EXPECT_EQ(rig.list(kRootNode), "d/ y:5 z:0");
  ASSERT_EQ(rig.remove_file(kRootNode, "y"), "ok");
  EXPECT_EQ(requests(), "remove y, ");
  EXPECT_EQ(rig.list(kRootNode), "d/ z:0");
  EXPECT_EQ(rig.peek(kRootNode, "x"), 0u);
  EXPECT_EQ(requests(), "");
}

// ---- unlink

TEST(WrittenNames, UnlinkedFileLeavesTheStore) {
  WritableRig rig;
  rig.source->put("x", "one");
  rig.source->put("y", "two");
  EXPECT_EQ(rig.remove_file(kRootNode, "x"), "ok");
  EXPECT_EQ(rig.keys(), "y");
  EXPECT_EQ(rig.peek(kRootNode, "x"), 0u);
  EXPECT_EQ(rig.list(kRootNode), "y:3");
  EXPECT_EQ(rig.remove_file(kRootNode, "x"), "not_found");
  EXPECT_EQ(rig.remove_file(kRootNode, "never"), "not_found");
}

TEST(WrittenNames, UnlinkedUnsavedFileNeverReachesStore) {
  WritableRig rig;
  const OpenedFile file = created(rig, kRootNode, "x", "one");
  const uint64_t changes = rig.bucket().changes();
  EXPECT_EQ(rig.remove_file(kRootNode, "x"), "ok");
  EXPECT_EQ(rig.peek(kRootNode, "x"), 0u);
  EXPECT_EQ(rig.read_open(file), "one");
  ASSERT_TRUE(rig.write(file, 3, "!"));
  EXPECT_EQ(rig.read_open(file), "one!");
  EXPECT_TRUE(rig.flush(file));
  EXPECT_TRUE(rig.close(file));
  EXPECT_EQ(rig.keys(), "");
  EXPECT_EQ(rig.bucket().changes(), changes);
}

TEST(WrittenNames, UnlinkKeepsContentOfReadOpens) {
  WritableRig rig({.cached = false});
  rig.source->put("x", "content");
  const OpenedFile file = rig.open_name(kRootNode, "x").value();
  EXPECT_EQ(rig.remove_file(kRootNode, "x"), "ok");
  EXPECT_EQ(rig.keys(), "");
  EXPECT_EQ(rig.read_open(file), "content");
  EXPECT_EQ(rig.attributes(file.node)->size, 7u);
  EXPECT_TRUE(rig.close(file));
}

TEST(WrittenNames, UnlinkKeepsContentOfWriteOpens) {
  WritableRig rig({.cached = false});
  rig.source->put("x", "content");
  const OpenedFile file = rig.open_name(kRootNode, "x", O_RDWR).value();
  EXPECT_EQ(rig.remove_file(kRootNode, "x"), "ok");
  ASSERT_TRUE(rig.write(file, 0, "C"));
  EXPECT_EQ(rig.read_open(file), "Content");
  EXPECT_TRUE(rig.close(file));
  EXPECT_EQ(rig.keys(), "");
}

TEST(WrittenNames, NameOfUnlinkedOpenFileIsReused) {
  WritableRig rig;
  rig.source->put("x", "old");
  const OpenedFile old = rig.open_name(kRootNode, "x", O_RDWR).value();
  EXPECT_EQ(rig.remove_file(kRootNode, "x"), "ok");
  const OpenedFile fresh = created(rig, kRootNode, "x", "fresh");
  EXPECT_NE(fresh.node, old.node);
  ASSERT_TRUE(rig.write(old, 0, "lost"));
  EXPECT_TRUE(rig.flush(old));
  EXPECT_TRUE(rig.close(fresh));
  EXPECT_EQ(rig.stored("x"), "fresh");
  EXPECT_EQ(rig.read_open(old), "lost");
  EXPECT_TRUE(rig.close(old));
  EXPECT_EQ(rig.content(kRootNode, "x"), "fresh");
}

TEST(WrittenNames, UnlinkOfDirectoryFails) {
  WritableRig rig;
  rig.source->put("d/x", "one");
  rig.source->put("y", "one");
  EXPECT_EQ(rig.remove_file(kRootNode, "d"), "is_directory");
  EXPECT_EQ(rig.remove_directory(kRootNode, "y"), "not_directory");
  EXPECT_EQ(rig.keys(), "d/x y");
}

TEST(WrittenNames, LastNameLeavesAMarker) {
  WritableRig rig;
  rig.source->put("d/x", "one");
  const NodeId d = rig.node(kRootNode, "d");
  EXPECT_EQ(rig.remove_file(d, "x"), "ok");
  EXPECT_EQ(rig.keys(), "d/");
  EXPECT_EQ(rig.peek(kRootNode, "d"), d);
  rig.advance(61s);
  EXPECT_EQ(rig.list(d), "");
  EXPECT_EQ(rig.list(kRootNode), "d/");
}

TEST(WrittenNames, LastNameMovedAwayLeavesAMarker) {
  WritableRig rig;
  rig.source->put("d/x", "one");
  const NodeId d = rig.node(kRootNode, "d");
  EXPECT_EQ(rig.rename(d, "x", kRootNode, "x"), "ok");
  EXPECT_EQ(rig.keys(), "d/ x");
  rig.advance(61s);
  EXPECT_EQ(rig.list(kRootNode), "d/ x:3");
}

// ---- directories

TEST(WrittenNames, DirectoryIsMadeInTheStore) {
  WritableRig rig;
  const NodeAttributes d = rig.make_directory(kRootNode, "d").value();
  EXPECT_EQ(d.kind, FileKind::kDirectory);
  EXPECT_EQ(d.mode, static_cast<mode_t>(S_IFDIR | 0750));
  EXPECT_EQ(d.uid, 7u);
  EXPECT_EQ(rig.keys(), "d/");
  EXPECT_EQ(rig.list(kRootNode), "d/");
  EXPECT_EQ(rig.list(d.node), "");
  EXPECT_EQ(outcome(rig.make_directory(kRootNode, "d")), "exists");
  const NodeId e = rig.make_directory(d.node, "e")->node;
  EXPECT_TRUE(rig.close(created(rig, e, "x", "deep")));
  EXPECT_EQ(rig.stored("d/e/x"), "deep");
  EXPECT_EQ(rig.remove_directory(kRootNode, "d"), "not_empty");
}

TEST(WrittenNames, DirectoryOverNamesInUseFails) {
  WritableRig rig;
  rig.source->put("x", "1");
  const OpenedFile file = created(rig, kRootNode, "y", "1");
  EXPECT_EQ(outcome(rig.make_directory(kRootNode, "x")), "exists");
  EXPECT_EQ(outcome(rig.make_directory(kRootNode, "y")), "exists");
  EXPECT_TRUE(rig.close(file));
}

TEST(WrittenNames, EmptyDirectoryIsRemoved) {
  WritableRig rig;
  const NodeId d = rig.make_directory(kRootNode, "d")->node;
  rig.make_directory(d, "e").value();
  EXPECT_EQ(rig.remove_directory(kRootNode, "d"), "not_empty");
  EXPECT_EQ(rig.remove_directory(d, "e"), "ok");
  EXPECT_EQ(rig.list(d), "");
  EXPECT_EQ(rig.peek(kRootNode, "d"), d) << "the last name in it has gone";
  EXPECT_EQ(rig.remove_directory(kRootNode, "d"), "ok");
  EXPECT_EQ(rig.keys(), "");
  EXPECT_EQ(rig.peek(kRootNode, "d"), 0u);
  EXPECT_EQ(rig.remove_directory(kRootNode, "d"), "not_found");
  EXPECT_TRUE(rig.make_directory(kRootNode, "d"));
}

TEST(WrittenNames, DirectoryWithUnsavedFileIsNotEmpty) {
  WritableRig rig;
  const NodeId d = rig.make_directory(kRootNode, "d")->node;
  const OpenedFile file = created(rig, d, "x", "one");
  EXPECT_EQ(rig.remove_directory(kRootNode, "d"), "not_empty");
  EXPECT_EQ(rig.remove_file(d, "x"), "ok");
  EXPECT_EQ(rig.remove_directory(kRootNode, "d"), "ok") << "an unlinked file does not count";
  EXPECT_EQ(rig.read_open(file), "one");
  EXPECT_TRUE(rig.close(file));
  EXPECT_EQ(rig.keys(), "");
}

TEST(WrittenNames, NamesOfOthersKeepADirectory) {
  WritableRig rig;
  const NodeId d = rig.make_directory(kRootNode, "d")->node;
  EXPECT_EQ(rig.list(d), "");
  rig.source->put("d/theirs", "1");
  EXPECT_EQ(rig.remove_directory(kRootNode, "d"), "not_empty") << "not known here yet";
  EXPECT_EQ(rig.keys(), "d/ d/theirs");
}

TEST(WrittenNames, CreateInRemovedDirectoryFails) {
  WritableRig rig;
  const NodeId d = rig.make_directory(kRootNode, "d")->node;
  EXPECT_EQ(rig.remove_directory(kRootNode, "d"), "ok");
  EXPECT_FALSE(rig.create(d, "x"));
  EXPECT_FALSE(rig.make_directory(d, "e"));
  EXPECT_EQ(rig.keys(), "");
}

// ---- listings

TEST(WrittenNames, ListingShowsUnsavedFilesAndSizes) {
  WritableRig rig;
  rig.source->put("a", "1");
  rig.source->put("c", "333");
  const OpenedFile b = created(rig, kRootNode, "b", "22");
  const OpenedFile c = rig.open_name(kRootNode, "c", O_RDWR).value();
  ASSERT_TRUE(rig.write(c, 3, "44"));
  EXPECT_EQ(rig.list(kRootNode), "a:1 b:2 c:5");
  EXPECT_TRUE(rig.close(b));
  EXPECT_TRUE(rig.close(c));
  EXPECT_EQ(rig.list(kRootNode), "a:1 b:2 c:5");
  rig.advance(61s);
  EXPECT_EQ(rig.list(kRootNode), "a:1 b:2 c:5");
}

TEST(WrittenNames, ListedEntriesAreThoseOfLookups) {
  WritableRig rig;
  rig.source->put("a", "1");
  rig.source->put("b", "22");
  const OpenedFile b = rig.open_name(kRootNode, "b", O_RDWR).value();
  ASSERT_TRUE(rig.write(b, 2, "33"));
  const auto directory = rig.open_directory(kRootNode).value();
  for (Listing::Cursor cursor = directory->from(0); cursor.next();) {
    const CatalogEntry entry = cursor.entry();
    const NodeAttributes listed = rig.files->lookup_from_listing(kRootNode, entry);
    if (listed.node == 0) continue;  // the kernel looks it up by itself
    EXPECT_EQ(listed.node, rig.peek(kRootNode, entry.info.name));
    EXPECT_EQ(listed.size, entry.info.name == "a" ? 1u : 4u);
    rig.files->forget(listed.node, 1);
  }
  EXPECT_TRUE(rig.close(b));
}

// ---- rename

TEST(WrittenNames, RenamedFileKeepsNodeAndContent) {
  WritableRig rig;
  rig.source->put("a", "text");
  rig.source->put("d/x", "1");
  const NodeId a = rig.node(kRootNode, "a"), d = rig.node(kRootNode, "d");
  EXPECT_EQ(rig.rename(kRootNode, "a", d, "b"), "ok");
  EXPECT_EQ(rig.keys(), "d/b d/x");
  EXPECT_EQ(rig.peek(kRootNode, "a"), 0u);
  EXPECT_EQ(rig.peek(d, "b"), a);
  EXPECT_EQ(rig.files->path_of(a), "/data/d/b");
  EXPECT_EQ(rig.list(kRootNode), "d/");
  EXPECT_EQ(rig.list(d), "b:4 x:1");
  EXPECT_EQ(rig.content(d, "b"), "text");
  EXPECT_EQ(rig.rename(kRootNode, "a", d, "c"), "not_found");
}

TEST(WrittenNames, StoreWithoutRenameCopies) {
  WritableRig rig;
  rig.bucket().changed.renames = false;
  rig.source->put("a", "text");
  const NodeId a = rig.node(kRootNode, "a");
  const OpenedFile file = rig.open_name(kRootNode, "a", O_RDWR).value();
  EXPECT_EQ(rig.rename(kRootNode, "a", kRootNode, "b"), "ok");
  EXPECT_EQ(rig.keys(), "b");
  EXPECT_EQ(rig.peek(kRootNode, "b"), a);
  ASSERT_TRUE(rig.write(file, 0, "T"));
  EXPECT_TRUE(rig.close(file));
  EXPECT_EQ(rig.stored("b"), "Text");
}

TEST(WrittenNames, RenamedOpenFileIsSavedUnderNewName) {
  WritableRig rig;
  rig.source->put("a", "old");
  const OpenedFile file = rig.open_name(kRootNode, "a", O_RDWR).value();
  ASSERT_TRUE(rig.write(file, 0, "new"));
  EXPECT_EQ(rig.rename(kRootNode, "a", kRootNode, "b"), "ok");
  EXPECT_EQ(rig.stored("b"), "old");
  EXPECT_EQ(rig.peek(kRootNode, "b"), file.node);
  EXPECT_EQ(rig.read_open(file), "new");
  ASSERT_TRUE(rig.write(file, 3, "er"));
  ASSERT_TRUE(rig.flush(file));
  EXPECT_EQ(rig.keys(), "b");
  EXPECT_EQ(rig.stored("b"), "newer");
  EXPECT_TRUE(rig.close(file));
  EXPECT_EQ(rig.content(kRootNode, "b"), "newer");
}

// The staged file has not copied the version yet, and its key goes.
TEST(WrittenNames, RenamedFileIsCopiedBeforeItsFirstWrite) {
  WritableRig rig({.cached = false});
  rig.source->put("a", "0123456789");
  const OpenedFile file = rig.open_name(kRootNode, "a", O_RDWR).value();
  EXPECT_EQ(rig.rename(kRootNode, "a", kRootNode, "b"), "ok");
  EXPECT_EQ(rig.read_open(file), "0123456789");
  EXPECT_EQ(outcome(rig.write(file, 4, "--")), "ok");
  EXPECT_EQ(rig.read_open(file), "0123--6789");
  EXPECT_EQ(outcome(rig.close(file)), "ok");
  EXPECT_EQ(rig.keys(), "b");
  EXPECT_EQ(rig.stored("b"), "0123--6789");
}

TEST(WrittenNames, RenamedReadOpenStaysReadable) {
  WritableRig rig({.cached = false});
  rig.source->put("a", "text");
  const OpenedFile file = rig.open_name(kRootNode, "a").value();
  EXPECT_EQ(rig.rename(kRootNode, "a", kRootNode, "b"), "ok");
  EXPECT_EQ(rig.read_open(file), "text");
  EXPECT_EQ(rig.rename(kRootNode, "b", kRootNode, "c"), "ok");
  EXPECT_EQ(rig.read_open(file), "text");
  EXPECT_TRUE(rig.close(file));
}

TEST(WrittenNames, UnsavedFileIsRenamedAndSavedLater) {
  WritableRig rig;
  const OpenedFile file = created(rig, kRootNode, "a", "text");
  const uint64_t changes = rig.bucket().changes();
  EXPECT_EQ(rig.rename(kRootNode, "a", kRootNode, "b"), "ok");
  EXPECT_EQ(rig.bucket().changes(), changes) << "the store does not know it";
  EXPECT_EQ(rig.peek(kRootNode, "a"), 0u);
  EXPECT_EQ(rig.peek(kRootNode, "b"), file.node);
  EXPECT_EQ(rig.list(kRootNode), "b:4");
  EXPECT_TRUE(rig.close(file));
  EXPECT_EQ(rig.keys(), "b");
  EXPECT_EQ(rig.stored("b"), "text");
}

TEST(WrittenNames, UnsavedFileReplacesStoredOne) {
  WritableRig rig;
  rig.source->put("b", "old");
  const OpenedFile file = created(rig, kRootNode, "a", "new");
  EXPECT_EQ(rig.rename(kRootNode, "a", kRootNode, "b"), "ok");
  EXPECT_EQ(rig.peek(kRootNode, "b"), file.node);
  EXPECT_EQ(rig.list(kRootNode), "b:3");
  EXPECT_EQ(outcome(rig.close(file)), "ok");
  EXPECT_EQ(rig.stored("b"), "new");
}

// As programs save files: write, synchronise, replace.
TEST(WrittenNames, SavedTemporaryFileReplacesAFile) {
  WritableRig rig;
  rig.source->put("b", "version 0");
  for (int i = 1; i < 4; ++i) {
    const std::string text = "version " + std::to_string(i);
    const OpenedFile file = created(rig, kRootNode, "b.tmp", text);
    ASSERT_TRUE(rig.flush(file));
    ASSERT_EQ(rig.rename(kRootNode, "b.tmp", kRootNode, "b"), "ok");
    EXPECT_EQ(rig.peek(kRootNode, "b"), file.node);
    ASSERT_TRUE(rig.close(file));
    EXPECT_EQ(rig.content(kRootNode, "b"), text);
    EXPECT_EQ(rig.keys(), "b");
  }
}

TEST(WrittenNames, RenameOverOpenFileKeepsOldContent) {
  WritableRig rig({.cached = false});
  rig.source->put("a", "new");
  rig.source->put("b", "old");
  const OpenedFile reader = rig.open_name(kRootNode, "b").value();
  const OpenedFile writer = rig.open_name(kRootNode, "b", O_RDWR).value();
  EXPECT_EQ(rig.rename(kRootNode, "a", kRootNode, "b"), "ok");
  EXPECT_EQ(rig.read_open(reader), "old");
  ASSERT_TRUE(rig.write(writer, 0, "gone"));
  EXPECT_EQ(rig.read_open(reader), "gone");
  EXPECT_TRUE(rig.flush(writer));
  EXPECT_TRUE(rig.close(writer));
  EXPECT_TRUE(rig.close(reader));
  EXPECT_EQ(rig.stored("b"), "new");
  EXPECT_EQ(rig.content(kRootNode, "b"), "new");
}

TEST(WrittenNames, RenameOverUnsavedFileDropsIt) {
  WritableRig rig;
  rig.source->put("a", "new");
  const OpenedFile unsaved = created(rig, kRootNode, "b", "unsaved");
  EXPECT_EQ(rig.rename(kRootNode, "a", kRootNode, "b"), "ok");
  EXPECT_EQ(rig.read_open(unsaved), "unsaved");
  EXPECT_TRUE(rig.close(unsaved));
  EXPECT_EQ(rig.keys(), "b");
  EXPECT_EQ(rig.content(kRootNode, "b"), "new");
}

TEST(WrittenNames, RenameWithoutReplaceFails) {
  WritableRig rig;
  rig.source->put("a", "1");
  rig.source->put("b", "2");
  const OpenedFile unsaved = created(rig, kRootNode, "c", "3");
  EXPECT_EQ(rig.rename(kRootNode, "a", kRootNode, "b", true), "exists");
  EXPECT_EQ(rig.rename(kRootNode, "a", kRootNode, "c", true), "exists");
  EXPECT_EQ(rig.rename(kRootNode, "a", kRootNode, "d", true), "ok");
  EXPECT_TRUE(rig.close(unsaved));
  EXPECT_EQ(rig.keys(), "b c d");
}

TEST(WrittenNames, RenameToItselfDoesNothing) {
  WritableRig rig;
  rig.source->put("a", "1");
  const uint64_t changes = rig.bucket().changes();
  EXPECT_EQ(rig.rename(kRootNode, "a", kRootNode, "a"), "ok");
  EXPECT_EQ(rig.bucket().changes(), changes);
  EXPECT_EQ(rig.content(kRootNode, "a"), "1");
}

TEST(WrittenNames, RenameBetweenKindsFails) {
  WritableRig rig;
  rig.source->put("a", "1");
  rig.source->put("d/x", "1");
  EXPECT_EQ(rig.rename(kRootNode, "a", kRootNode, "d"), "is_directory");
  EXPECT_EQ(rig.rename(kRootNode, "d", kRootNode, "a"), "not_directory");
  EXPECT_EQ(rig.keys(), "a d/x");
}

TEST(WrittenNames, RenamedOpenFileKeepsItsOwner) {
  WritableRig rig({.uid = 1000, .gid = 1001, .umask = 077});
  rig.source->put("a", "1");
  const OpenedFile file = rig.open_name(kRootNode, "a", O_RDWR).value();
  const NodeAttributes before = rig.attributes(file.node).value();
  EXPECT_EQ(rig.rename(kRootNode, "a", kRootNode, "b"), "ok");
  const NodeAttributes after = rig.attributes(file.node).value();
  EXPECT_EQ(after.uid, before.uid);
  EXPECT_EQ(after.gid, before.gid);
  EXPECT_EQ(after.mode, before.mode);
  EXPECT_EQ(after.size, before.size);
  EXPECT_EQ(rig.lookup(kRootNode, "b")->uid, before.uid);
  EXPECT_TRUE(rig.close(file));
}

// ---- renamed directories

class WrittenDirectories : public ::testing::Test {
 protected:
  WrittenDirectories() {
    rig.bucket().changed.real_directories = true;
    rig.source->put("d/", "");
    rig.source->put("d/x", "one");
  }
  WritableRig rig;
};

TEST_F(WrittenDirectories, RenamedDirectoryKeepsItsNode) {
  const NodeId d = rig.node(kRootNode, "d");
  rig.node(d, "x");
  EXPECT_EQ(rig.rename(kRootNode, "d", kRootNode, "e"), "ok");
  EXPECT_EQ(rig.keys(), "e/ e/x");
  EXPECT_EQ(rig.peek(kRootNode, "d"), 0u);
  EXPECT_EQ(rig.peek(kRootNode, "e"), d);
  EXPECT_EQ(rig.list(d), "x:3");
  EXPECT_EQ(rig.content(d, "x"), "one");
  EXPECT_EQ(rig.list(kRootNode), "e/");
}

TEST_F(WrittenDirectories, UnsavedFileMovesWithDirectory) {
  const NodeId d = rig.node(kRootNode, "d");
  const OpenedFile file = created(rig, d, "new", "text");
  EXPECT_EQ(rig.rename(kRootNode, "d", kRootNode, "e"), "ok");
  EXPECT_EQ(rig.files->path_of(file.node), "/data/e/new");
  EXPECT_EQ(rig.list(d), "new:4 x:3");
  EXPECT_TRUE(rig.close(file));
  EXPECT_EQ(rig.stored("e/new"), "text");
}

// The rename makes the numbers below unknown, and another version is there by now.
TEST_F(WrittenDirectories, WrittenFileKeepsAttributesOverARename) {
  rig.source->put("x", "one");
  const OpenedFile file = rig.open_name(kRootNode, "x", O_RDWR).value();
  ASSERT_TRUE(rig.write(file, 3, "!"));
  EXPECT_EQ(rig.rename(kRootNode, "d", kRootNode, "e"), "ok");
  rig.source->put("x", "theirs");
  rig.advance(61s);
  const Result<NodeAttributes> now = rig.attributes(file.node);
  EXPECT_EQ(outcome(now), "ok");
  if (now) EXPECT_EQ(now->size, 4u);
  EXPECT_EQ(rig.peek(kRootNode, "x"), file.node);
  EXPECT_EQ(outcome(rig.close(file)), "conflict");
}

TEST_F(WrittenDirectories, OpenFileIsCopiedAfterDirectoryRename) {
  WritableRig uncached({.cached = false});
  uncached.bucket().changed.real_directories = true;
  uncached.bucket().changed.write_if_version = false;  // as the store of files
  uncached.source->put("d/", "");
  uncached.source->put("d/x", "0123456789");
  const OpenedFile file = uncached.open_name(uncached.node(kRootNode, "d"), "x", O_RDWR).value();
  EXPECT_EQ(uncached.rename(kRootNode, "d", kRootNode, "e"), "ok");
  EXPECT_EQ(outcome(uncached.write(file, 4, "--")), "ok");
  EXPECT_EQ(uncached.read_open(file), "0123--6789");
  EXPECT_TRUE(uncached.close(file));
}

TEST_F(WrittenDirectories, DirectoryIsNotMovedIntoItself) {
  const NodeId d = rig.node(kRootNode, "d");
  const NodeId sub = rig.make_directory(d, "sub")->node;
  EXPECT_EQ(rig.rename(kRootNode, "d", sub, "e"), "invalid_argument");
  EXPECT_EQ(rig.rename(kRootNode, "d", d, "e"), "invalid_argument");
}

TEST_F(WrittenDirectories, OnlyEmptyDirectoryIsReplaced) {
  rig.source->put("e/", "");
  rig.source->put("e/y", "two");
  EXPECT_EQ(rig.rename(kRootNode, "d", kRootNode, "e"), "not_empty");
  const NodeId e = rig.node(kRootNode, "e");
  EXPECT_EQ(rig.remove_file(e, "y"), "ok");
  EXPECT_EQ(rig.rename(kRootNode, "d", kRootNode, "e"), "ok");
  EXPECT_EQ(rig.keys(), "e/ e/x");
  EXPECT_EQ(rig.list(kRootNode), "e/");
}

}  // namespace
}  // namespace leat
