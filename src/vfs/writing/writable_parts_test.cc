// SPDX-License-Identifier: Apache-2.0
// Saves of large files of which the store has most bytes already.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <functional>
#include <random>
#include <string>
#include <thread>

#include "vfs/writing/write_behind_test.h"

namespace leat {
namespace {

using testing::OpenedFile;
using testing::outcome;
using testing::pattern;
using testing::WritableRig;
using testing::WriteBehind;

constexpr uint64_t kLarge = 64 * kMiB;

// A store with S3's limits.
struct PartsRig : WritableRig {
  explicit PartsRig(testing::RigWriting writing = {}) : WritableRig({}, std::move(writing)) {
    bucket().changed.copies_parts = true;
    bucket().changed.part_bytes_min = 5 * kMiB;
    bucket().changed.parts_max = 10'000;
    bucket().put("x", content);
  }
  // Returns how many bytes the action sent to the store.
  uint64_t sent_by(const std::function<void()>& action) {
    const uint64_t before = bucket().written_bytes();
    action();
    return bucket().written_bytes() - before;
  }
  // Compares without the bytes in the message.
  bool is_stored() { return stored("x") == content; }
  void edit(const OpenedFile& file, uint64_t offset, const std::string& text) {
    ASSERT_TRUE(write(file, offset, text));
    if (content.size() < offset + text.size()) content.resize(offset + text.size());
    content.replace(offset, text.size(), text);
  }

  std::string content = pattern(kLarge, 1);
};

TEST(WrittenParts, AppendSendsOnlyTheEnd) {
  PartsRig rig;
  const OpenedFile file = rig.open_name(kRootNode, "x", O_WRONLY).value();
  rig.edit(file, kLarge, pattern(kMiB, 2));
  EXPECT_EQ(rig.sent_by([&] { ASSERT_TRUE(rig.close(file)); }), kMiB);
  EXPECT_TRUE(rig.is_stored());
}

TEST(WrittenParts, EachSaveSendsWhatChangedSince) {
  PartsRig rig;
  const OpenedFile file = rig.open_name(kRootNode, "x", O_WRONLY).value();
  rig.edit(file, 30 * kMiB, "first");
  EXPECT_LE(rig.sent_by([&] { ASSERT_TRUE(rig.flush(file)); }), 9 * kMiB);
  EXPECT_TRUE(rig.is_stored());
  rig.edit(file, 3, "second");
  EXPECT_LE(rig.sent_by([&] { ASSERT_TRUE(rig.flush(file)); }), 9 * kMiB);
  EXPECT_TRUE(rig.is_stored());
  ASSERT_TRUE(rig.set(file.node, {.mode = 0600}));
  EXPECT_EQ(rig.sent_by([&] { ASSERT_TRUE(rig.close(file)); }), 0u);
  EXPECT_TRUE(rig.is_stored());
}

TEST(WrittenParts, NewFileIsSentOnce) {
  PartsRig rig;
  const OpenedFile file = rig.create(kRootNode, "x", O_RDWR | O_CREAT | O_TRUNC).value();
  rig.content.clear();
  // Parts may leave before the flush.
  const auto write_all = [&] {
    rig.edit(file, 0, pattern(40 * kMiB, 3));
    ASSERT_TRUE(rig.flush(file));
  };
  EXPECT_EQ(rig.sent_by(write_all), 40 * kMiB);
  rig.edit(file, 40 * kMiB, "more");
  EXPECT_EQ(rig.sent_by([&] { ASSERT_TRUE(rig.close(file)); }), 4u);
  EXPECT_TRUE(rig.is_stored());
}

TEST(WrittenParts, StoreWithoutCopiesGetsAll) {
  PartsRig rig;
  rig.bucket().changed.copies_parts = false;
  const OpenedFile file = rig.open_name(kRootNode, "x", O_WRONLY).value();
  rig.edit(file, kLarge, "more");
  EXPECT_EQ(rig.sent_by([&] { ASSERT_TRUE(rig.close(file)); }), kLarge + 4);
  EXPECT_TRUE(rig.is_stored());
}

TEST(WrittenParts, RefusedCopyLeadsToTheWhole) {
  PartsRig rig;
  rig.bucket().before = [](std::string_view operation, const std::string&) -> Result<> {
    if (operation != "copy_part") return {};
    return error(StatusCode::kInvalidArgument, "parts have to be of one size");
  };
  const OpenedFile file = rig.open_name(kRootNode, "x", O_WRONLY).value();
  rig.edit(file, kLarge, "more");
  ASSERT_TRUE(rig.close(file));
  EXPECT_TRUE(rig.is_stored());
}

TEST(WrittenParts, LostAnswerIsNoConflict) {
  PartsRig rig;
  int lost = 0;
  rig.bucket().after = [&](std::string_view operation, const std::string&) -> Result<> {
    if (operation != "complete" || lost++ > 0) return {};
    return error(StatusCode::kUnavailable, "the answer is lost");
  };
  const OpenedFile file = rig.open_name(kRootNode, "x", O_WRONLY).value();
  rig.edit(file, kLarge, "more");
  ASSERT_TRUE(rig.flush(file));
  EXPECT_TRUE(rig.is_stored());
  rig.edit(file, 7, "and more");
  EXPECT_LE(rig.sent_by([&] { ASSERT_TRUE(rig.close(file)); }), 9 * kMiB);
  EXPECT_TRUE(rig.is_stored());
}

TEST(WrittenParts, OtherVersionIsAConflict) {
  PartsRig rig;
  const OpenedFile file = rig.open_name(kRootNode, "x", O_WRONLY).value();
  rig.edit(file, kLarge, "more");
  rig.bucket().put("x", "of somebody else");
  EXPECT_EQ(outcome(rig.close(file)), "conflict");
  EXPECT_EQ(rig.stored("x"), "of somebody else");
  const std::string all = rig.keys();
  ASSERT_TRUE(all.starts_with("x x.conflict-")) << all;
  EXPECT_TRUE(rig.stored(all.substr(2)) == rig.content);
}

TEST(WrittenParts, ReplacedBaseIsNotMixedIn) {
  PartsRig rig;
  rig.bucket().changed.write_if_version = false;
  const OpenedFile file = rig.open_name(kRootNode, "x", O_WRONLY).value();
  rig.edit(file, kLarge, "more");
  rig.bucket().put("x", std::string(kLarge, '!'));
  ASSERT_TRUE(rig.close(file)) << "the store does not compare, so the last writer wins";
  EXPECT_TRUE(rig.is_stored());
}

TEST(WrittenParts, RenamedFileIsSavedRight) {
  PartsRig rig;
  const OpenedFile file = rig.open_name(kRootNode, "x", O_WRONLY).value();
  rig.edit(file, 9 * kMiB, "before");
  EXPECT_EQ(rig.rename(kRootNode, "x", kRootNode, "y"), "ok");
  rig.edit(file, kLarge, "after");
  ASSERT_TRUE(rig.close(file));
  EXPECT_TRUE(rig.stored("y") == rig.content);
  EXPECT_EQ(rig.stored("x"), "(none)");
}

// Pending changes are sent from a sealed content, in which nothing changes.
TEST_F(WriteBehind, LargeEditSendsOnlyWhatChanged) {
  writing.bucket->changed.copies_parts = true;
  writing.bucket->changed.part_bytes_min = 5 * kMiB;
  std::string content = pattern(kLarge, 1);
  writing.bucket->put("x", content);
  const uint64_t before = writing.bucket->written_bytes();
  for (const uint64_t at : {kLarge, 20 * kMiB}) {
    const OpenedFile file = rig->open_name(kRootNode, "x", O_WRONLY).value();
    ASSERT_TRUE(rig->write(file, at, "more"));
    content.resize(kLarge + 4);
    content.replace(at, 4, "more");
    ASSERT_TRUE(rig->close(file));
    if (at == kLarge) ASSERT_TRUE(rig->drain());
  }
  ASSERT_TRUE(rig->drain());
  EXPECT_TRUE(rig->stored("x") == content);
  EXPECT_LE(writing.bucket->written_bytes() - before, 9 * kMiB);
}

// Random edits and saves: the object has the bytes that a string has after the same edits.
TEST(WrittenParts, RandomEditsAreSavedRight) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    std::minstd_rand random(seed);
    PartsRig rig;
    rig.content.resize(40 * kMiB);
    rig.bucket().put("x", rig.content);
    OpenedFile file = rig.open_name(kRootNode, "x", O_RDWR).value();
    for (int step = 0; step < 25; ++step) {
      const uint64_t size = rig.content.size();
      const uint64_t at = random() % (size + kMiB);
      const uint64_t many = 1 + random() % (random() % 3 == 0 ? 6 * kMiB : 5000);
      switch (random() % 8) {
        case 0:
          ASSERT_TRUE(rig.set(file.node, {.size = at}));
          rig.content.resize(at);
          break;
        case 1:
          ASSERT_TRUE(rig.allocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, many));
          if (at < size) {
            const uint64_t cleared = std::min(many, size - at);
            rig.content.replace(at, cleared, cleared, '\0');
          }
          break;
        case 2:
          ASSERT_TRUE(rig.flush(file));
          ASSERT_TRUE(rig.is_stored()) << "step " << step;
          break;
        case 3:
          ASSERT_TRUE(rig.close(file));
          ASSERT_TRUE(rig.is_stored()) << "step " << step;
          file = rig.open_name(kRootNode, "x", O_RDWR).value();
          break;
        default:
          rig.edit(file, at, std::string(many, static_cast<char>(random())));
      }
    }
    ASSERT_TRUE(rig.close(file));
    ASSERT_TRUE(rig.is_stored());
  }
}

// Saves run while another thread writes; the last save has all of it.
TEST(WrittenParts, WritesDuringSavesAreNotLost) {
  PartsRig rig;
  const OpenedFile file = rig.open_name(kRootNode, "x", O_RDWR).value();
  std::thread writer([&] {
    std::minstd_rand random(5);
    for (int step = 0; step < 300; ++step) {
      rig.edit(file, random() % kLarge, std::string(1 + random() % 9000, static_cast<char>(step)));
    }
  });
  for (int save = 0; save < 3; ++save) EXPECT_TRUE(rig.flush(file));
  writer.join();
  ASSERT_TRUE(rig.close(file));
  EXPECT_TRUE(rig.is_stored());
}

}  // namespace
}  // namespace leat
