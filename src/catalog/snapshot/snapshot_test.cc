// SPDX-License-Identifier: Apache-2.0
#include "catalog/snapshot/snapshot.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "base/crc32c.h"
#include "catalog/snapshot/snapshot_entry.h"
#include "catalog/snapshot/snapshot_layout.h"
#include "catalog/snapshot/snapshot_order.h"
#include "catalog/snapshot/snapshot_writer.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

class SnapshotTest : public testing::Test {
 protected:
  SnapshotTest() : folder_(testing::TempDir() + "/leat_snapshot_" + Id128::random().to_hex()) {
    fs::create_directories(folder_);
  }
  ~SnapshotTest() override { fs::remove_all(folder_); }

  std::string path() const { return folder_ + "/s.snapshot"; }

  static SnapshotEntry file(std::string path, uint64_t size = 1) {
    SnapshotEntry entry;
    entry.path = std::move(path);
    entry.size = size;
    entry.mtime_ns = 1'700'000'000'000'000'000 + static_cast<int64_t>(size);
    entry.version = Version::etag("\"d41d8cd98f00b204e9800998ecf8427e\"");
    return entry;
  }
  static SnapshotHead head() {
    SnapshotHead head;
    head.store = make_store_id("s3", "localhost", "", "bucket");
    head.source = "s3://bucket/train/";
    head.prefix = "train/";
    head.created_ns = 17;
    return head;
  }

  SnapshotPtr build(const std::vector<SnapshotEntry>& entries, uint64_t memory = 64 << 20) {
    SnapshotWriter writer({.path = path(), .memory_bytes = memory}, head());
    for (const SnapshotEntry& entry : entries) EXPECT_TRUE(writer.add(entry));
    auto finished = writer.finish();
    EXPECT_TRUE(finished) << finished.error().to_string();
    auto opened = Snapshot::open(path());
    EXPECT_TRUE(opened) << opened.error().to_string();
    return opened ? *opened : nullptr;
  }
  static std::vector<std::string> paths(Snapshot::Cursor cursor) {
    std::vector<std::string> found;
    while (auto entry = cursor.next()) {
      found.push_back(entry->kind == FileKind::kDirectory ? entry->path + "/" : entry->path);
    }
    return found;
  }
  // Children of a directory, without deeper entries.
  static std::vector<std::string> children(const Snapshot& snapshot, std::string_view directory) {
    std::vector<std::string> found;
    auto cursor = snapshot.below(directory);
    if (!cursor) return {"nothing"};
    while (auto entry = cursor->next()) {
      found.push_back(entry->path);
      cursor->skip_below();
    }
    return found;
  }

  const std::string folder_;
};

TEST_F(SnapshotTest, HoldsWhatWasPutIntoIt) {
  SnapshotEntry odd = file("b/odd \x01 name", UINT64_MAX);
  odd.version = {Version::Kind::kGeneration, "17"};
  odd.mtime_ns = -5;
  SnapshotEntry bare = file("z");
  bare.mtime_ns.reset();
  bare.version = {};
  SnapshotEntry upper = file("u");
  upper.version = Version::etag("\"ABCD-2\"");
  auto snapshot = build({bare, odd, file("a", 7), upper, file("b/c/d", 9)});
  ASSERT_NE(snapshot, nullptr);
  EXPECT_EQ(snapshot->head().files, 5u);
  EXPECT_EQ(snapshot->head().directories, 2u);
  EXPECT_EQ(snapshot->head().source, "s3://bucket/train/");
  EXPECT_EQ(snapshot->head().prefix, "train/");
  EXPECT_EQ(snapshot->head().store, head().store);
  for (const SnapshotEntry& wanted : {bare, odd, file("a", 7), upper, file("b/c/d", 9)}) {
    auto found = snapshot->find(wanted.path);
    ASSERT_TRUE(found) << wanted.path;
    EXPECT_EQ(found->size, wanted.size);
    EXPECT_EQ(found->mtime_ns, wanted.mtime_ns);
    EXPECT_EQ(found->version, wanted.version);
    EXPECT_EQ(found->kind, FileKind::kFile);
  }
  auto directory = snapshot->find("b");
  ASSERT_TRUE(directory);
  EXPECT_EQ(directory->kind, FileKind::kDirectory);
  EXPECT_EQ(directory->below, 3u);
  for (const char* missing : {"", "x", "a/b", "b/", "b/c/d/e", "b/odd"}) {
    EXPECT_FALSE(snapshot->find(missing)) << missing;
  }
  EXPECT_EQ(paths(snapshot->all()),
            (std::vector<std::string>{"a", "b/", "b/c/", "b/c/d", "b/odd \x01 name", "u", "z"}));
}

TEST_F(SnapshotTest, ADirectoryIsFollowedByAllThatIsBelowIt) {
  auto snapshot = build({file("a!"), file("a/b"), file("a.x/y"), file("a/b2/c"), file("a0")});
  EXPECT_EQ(paths(snapshot->all()), (std::vector<std::string>{"a/", "a/b", "a/b2/", "a/b2/c", "a!",
                                                              "a.x/", "a.x/y", "a0"}));
  EXPECT_EQ(children(*snapshot, ""), (std::vector<std::string>{"a", "a!", "a.x", "a0"}));
  EXPECT_EQ(children(*snapshot, "a"), (std::vector<std::string>{"a/b", "a/b2"}));
  EXPECT_EQ(children(*snapshot, "a/b"), (std::vector<std::string>{"nothing"})) << "it is a file";
}

TEST_F(SnapshotTest, WhatIsFileAndDirectoryIsTheDirectory) {
  SnapshotEntry marker;
  marker.path = "empty";
  marker.kind = FileKind::kDirectory;
  auto snapshot = build({file("a"), file("a/b"), file("a", 5), marker, file("c"), file("c", 9)});
  EXPECT_EQ(paths(snapshot->all()), (std::vector<std::string>{"a/", "a/b", "c", "empty/"}));
  EXPECT_EQ(snapshot->find("c")->size, 1u) << "the first of a name";
  EXPECT_EQ(snapshot->head().skipped, 3u);
  EXPECT_EQ(children(*snapshot, "empty"), std::vector<std::string>{});
}

TEST_F(SnapshotTest, WhatCannotBeANameIsLeftOut) {
  auto snapshot = build({file("a//b"), file("/x"), file("y/"), file("."), file("a/../b"), file(""),
                         file(std::string(256, 'n')), file(std::string("n\0m", 3)), file("good")});
  EXPECT_EQ(paths(snapshot->all()), std::vector<std::string>{"good"});
  EXPECT_EQ(snapshot->head().skipped, 8u);
}

TEST_F(SnapshotTest, OfNothingIsASnapshotToo) {
  auto snapshot = build({});
  ASSERT_NE(snapshot, nullptr);
  EXPECT_EQ(snapshot->size(), 0u);
  EXPECT_FALSE(snapshot->find("a"));
  EXPECT_EQ(children(*snapshot, ""), std::vector<std::string>{});
}

// Random names against a map; sorted in memory and in many runs.
TEST_F(SnapshotTest, AgreesWithAMap) {
  for (uint64_t memory : {uint64_t{64} << 20, uint64_t{4096}}) {
    std::mt19937 random(static_cast<unsigned>(memory));
    std::map<std::string, uint64_t> model;
    std::vector<SnapshotEntry> entries;
    for (int i = 0; i < 5000; ++i) {
      std::string name = fmt::format("d{}", random() % 7);
      for (unsigned depth = random() % 4; depth > 0; --depth) {
        name += fmt::format("/{}", std::string(1 + random() % 3, "ab!."[random() % 3]));
      }
      name += fmt::format("/f{}", random() % 3000);
      if (!model.emplace(name, i).second) continue;
      entries.push_back(file(name, static_cast<uint64_t>(i)));
    }
    auto snapshot = build(entries, memory);
    ASSERT_NE(snapshot, nullptr);
    EXPECT_EQ(snapshot->head().files, model.size());
    for (const auto& [name, size] : model) {
      auto found = snapshot->find(name);
      ASSERT_TRUE(found) << name;
      EXPECT_EQ(found->size, size);
      EXPECT_FALSE(snapshot->find(name + "x"));
    }
    auto all = snapshot->all();
    std::string before;
    uint64_t count = 0;
    for (; auto entry = all.next(); ++count) {
      EXPECT_TRUE(compare_paths(before, entry->path) < 0) << before << " " << entry->path;
      before = entry->path;
      if (entry->kind != FileKind::kDirectory) continue;
      auto below = snapshot->below(entry->path);
      ASSERT_TRUE(below);
      uint64_t inside = 0;
      for (; auto child = below->next(); ++inside) {
        ASSERT_TRUE(child->path.starts_with(entry->path + "/"));
      }
      EXPECT_EQ(inside, entry->below);
    }
    EXPECT_EQ(count, snapshot->size());
  }
}

TEST_F(SnapshotTest, OnlyAWholeOneTakesThePlaceOfAnother) {
  build({file("old")});
  {
    SnapshotWriter writer({.path = path()}, head());
    ASSERT_TRUE(writer.add(file("new")));
  }
  EXPECT_TRUE((*Snapshot::open(path()))->find("old"));
  SnapshotWriter nowhere({.path = folder_ + "/missing/s"}, head());
  Result<> added = nowhere.add(file("x"));
  Result<SnapshotHead> finished = nowhere.finish();
  EXPECT_FALSE(finished);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_to(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST_F(SnapshotTest, DamageIsFoundWhenItIsOpened) {
  build({file("a"), file("b/c"), file("d")});
  const std::string good = content_of(path());
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    write_to(path(), bad);
    EXPECT_FALSE(Snapshot::open(path())) << "a flipped bit at " << at;
    write_to(path(), good.substr(0, at));
    EXPECT_FALSE(Snapshot::open(path())) << "cut at " << at;
  }
  write_to(path(), good + "x");
  EXPECT_FALSE(Snapshot::open(path()));
  EXPECT_EQ(Snapshot::open(folder_ + "/none").error().code(), StatusCode::kNotFound);
}

// A false file with matching checksums: its content may be nonsense, but the process must not
// crash.
TEST_F(SnapshotTest, NoLieReadsOutsideOfTheFile) {
  build({file("a"), file("b/c"), file("b/d/e"), file("b/d/f"), file("g/h"), file("i"), file("j"),
         file("k/l"), file("m")});
  const std::string good = content_of(path());
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    const bool in_header = random() % 3 == 0;
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes) {
      size_t at = in_header ? 64 + random() % 88 : 192 + random() % (bad.size() - 192);
      bad[at] = static_cast<char>(random());
    }
    auto span = std::as_bytes(std::span(bad));
    uint32_t crc = crc32c(span.subspan(snapshot_layout::kHeaderBytes));
    std::memcpy(bad.data() + 152, &crc, sizeof crc);
    crc = crc32c(span.first(snapshot_layout::kHeaderCrcOffset));
    std::memcpy(bad.data() + snapshot_layout::kHeaderCrcOffset, &crc, sizeof crc);
    write_to(path(), bad);
    auto opened = Snapshot::open(path());
    if (!opened) continue;
    for (const char* name : {"a", "b", "b/c", "b/d/f", "k/l", "zz"}) {
      static_cast<void>((*opened)->find(name));
    }
    children(**opened, "");
    children(**opened, "b");
    uint64_t seen = 0;
    for (auto all = (*opened)->all(); all.next() && seen < 1000;) ++seen;
  }
}

TEST(SnapshotEntryTest, TakesNoNoise) {
  std::mt19937 random(5);
  for (int round = 0; round < 20'000; ++round) {
    std::string noise(random() % 60, '\0');
    for (char& byte : noise) byte = static_cast<char>(random());
    SnapshotEntry entry;
    entry.path = "before";
    size_t at = 0;
    if (read_entry(std::as_bytes(std::span(noise)), at, entry)) EXPECT_LE(at, noise.size());
  }
}

TEST(SnapshotEntryTest, RefusesANumberOfElevenBytes) {
  const std::string noise = std::string(1, '\0') + std::string(10, '\x80') + "\x01" + "a\x05";
  SnapshotEntry entry;
  size_t at = 0;
  EXPECT_FALSE(read_entry(std::as_bytes(std::span(noise)), at, entry));
}

TEST(SnapshotEntryTest, AHexEntityTagTakesHalfItsDigits) {
  SnapshotEntry hex, other;
  hex.path = other.path = "a";
  hex.version = Version::etag("\"d41d8cd98f00b204e9800998ecf8427e\"");
  other.version = Version::etag("\"g41d8cd98f00b204e9800998ecf8427e\"");
  std::string hex_bytes, other_bytes;
  append_entry(hex_bytes, hex, 0);
  append_entry(other_bytes, other, 0);
  EXPECT_EQ(hex_bytes.size(), other_bytes.size() - 34 + 16);
}

}  // namespace
}  // namespace leat
