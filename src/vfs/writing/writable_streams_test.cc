// SPDX-License-Identifier: Apache-2.0
// New files: parts leave while a program writes them (write=through).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <functional>
#include <random>
#include <string>

#include "vfs/writing/staged/part_stream.h"
#include "vfs/writing/writable_rig_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using testing::OpenedFile;
using testing::outcome;
using testing::pattern;
using testing::WritableRig;

constexpr uint64_t kPart = PartWriter::kPartBytes;

// A store with S3's limits.
struct StreamRig : WritableRig {
  explicit StreamRig(testing::TreeRigOptions options = {}) : WritableRig(std::move(options)) {
    bucket().changed.part_bytes_min = 5 * kMiB;
    bucket().changed.parts_max = 10'000;
    bucket().before = [this](std::string_view operation, const std::string&) {
      if (operation == "append") ++appends;
      return fail ? fail(operation) : Result<>();
    };
  }
  // Writes in pieces, as a program does.
  void append(const OpenedFile& file, const std::string& text) {
    for (size_t at = 0; at < text.size(); at += kMiB) {
      ASSERT_TRUE(write(file, content.size(), text.substr(at, kMiB)));
      content += text.substr(at, kMiB);
    }
  }
  void edit(const OpenedFile& file, uint64_t offset, const std::string& text) {
    ASSERT_TRUE(write(file, offset, text));
    if (content.size() < offset + text.size()) content.resize(offset + text.size());
    content.replace(offset, text.size(), text);
  }
  // Parts are sent on the executor's threads.
  void wait_for_bytes(uint64_t bytes) {
    for (int i = 0; i < 2000 && bucket().written_bytes() < bytes; ++i) {
      static_cast<void>(executor.block_on(sleep_for(Context::background(), 5ms)));
    }
    ASSERT_GE(bucket().written_bytes(), bytes);
  }
  bool is_stored(const std::string& key = "x") { return stored(key) == content; }

  std::string content;
  std::atomic<int> appends = 0;
  std::function<Result<>(std::string_view operation)> fail{};
};

TEST(WrittenStream, PartsLeaveBeforeTheClose) {
  StreamRig rig;
  const OpenedFile file = rig.create(kRootNode, "x").value();
  rig.append(file, pattern(kPart, 1));
  EXPECT_EQ(rig.appends, 0);
  rig.append(file, pattern(3 * kPart + 17, 2));
  rig.wait_for_bytes(4 * kPart);
  EXPECT_EQ(rig.stored("x"), "(none)") << "visible as a whole or not at all";
  ASSERT_TRUE(rig.close(file));
  EXPECT_TRUE(rig.is_stored());
  EXPECT_EQ(rig.bucket().written_bytes(), rig.content.size()) << "each byte once";
}

TEST(WrittenStream, TruncatedFileIsSentMeanwhile) {
  StreamRig rig;
  rig.bucket().put("x", "before");
  const OpenedFile file = rig.create(kRootNode, "x", O_RDWR | O_CREAT | O_TRUNC).value();
  rig.append(file, pattern(3 * kPart, 2));
  rig.wait_for_bytes(3 * kPart);
  EXPECT_EQ(rig.stored("x"), "before");
  ASSERT_TRUE(rig.close(file));
  EXPECT_TRUE(rig.is_stored());
}

TEST(WrittenStream, ChangeOfASentByteSendsTheWhole) {
  for (int kind = 0; kind < 3; ++kind) {
    SCOPED_TRACE(kind);
    StreamRig rig;
    const OpenedFile file = rig.create(kRootNode, "x").value();
    rig.append(file, pattern(3 * kPart, 1));
    rig.wait_for_bytes(2 * kPart);
    if (kind == 0) rig.edit(file, 5, "header");
    if (kind == 1) {
      ASSERT_TRUE(rig.set(file.node, {.size = kPart}));
      rig.content.resize(kPart);
    }
    if (kind == 2) {
      ASSERT_TRUE(rig.allocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
      rig.content.replace(0, 4096, 4096, '\0');
    }
    rig.append(file, pattern(kPart, 2));
    ASSERT_TRUE(rig.close(file));
    EXPECT_TRUE(rig.is_stored());
  }
}

TEST(WrittenStream, BytesBehindTheFrontierMayChange) {
  StreamRig rig;
  const OpenedFile file = rig.create(kRootNode, "x").value();
  ASSERT_TRUE(rig.allocate(file, 0, 0, 4 * kPart));
  rig.append(file, pattern(2 * kPart + kMiB, 1));
  rig.content.resize(4 * kPart);
  rig.wait_for_bytes(2 * kPart);
  rig.edit(file, 2 * kPart + 5, "later");
  rig.edit(file, 5 * kPart, "far");
  ASSERT_TRUE(rig.close(file));
  EXPECT_TRUE(rig.is_stored());
  EXPECT_EQ(rig.bucket().written_bytes(), rig.content.size()) << "each byte once";
}

TEST(WrittenStream, TimesStayOverTheSave) {
  StreamRig rig;
  const OpenedFile file = rig.create(kRootNode, "x").value();
  rig.append(file, pattern(2 * kPart, 1));
  rig.set_wall_clock(WallTime(1'900'000'000s));
  rig.append(file, pattern(kPart, 2));
  const NodeAttributes before = rig.attributes(file.node).value();
  ASSERT_TRUE(rig.flush(file));
  EXPECT_EQ(rig.attributes(file.node)->mtime, before.mtime);
  EXPECT_EQ(rig.bucket().written_bytes(), rig.content.size());
  ASSERT_TRUE(rig.close(file));
  EXPECT_EQ(rig.lookup(kRootNode, "x")->mtime, before.mtime);
}

TEST(WrittenStream, ChosenTimesAreKept) {
  StreamRig rig;
  const WallTime noon(1'900'000'000s);
  const OpenedFile file = rig.create(kRootNode, "x").value();
  rig.append(file, pattern(3 * kPart, 1));
  ASSERT_TRUE(rig.set(file.node, {.mode = 0600, .mtime = noon}));
  ASSERT_TRUE(rig.flush(file));
  EXPECT_TRUE(rig.is_stored());
  EXPECT_EQ(rig.attributes(file.node)->mtime, noon);
  ASSERT_TRUE(rig.close(file));
}

TEST(WrittenStream, FileSentAsAWholeHasItsLastTime) {
  StreamRig rig;
  const OpenedFile file = rig.create(kRootNode, "x").value();
  rig.append(file, pattern(3 * kPart, 1));
  const WallTime first = rig.attributes(file.node)->mtime;
  rig.set_wall_clock(WallTime(1'900'000'000s));
  rig.append(file, "later");
  EXPECT_EQ(rig.attributes(file.node)->mtime, first);
  ASSERT_TRUE(rig.set(file.node, {.mode = 0600}));
  EXPECT_EQ(rig.attributes(file.node)->mtime, WallTime(1'900'000'000s));
  ASSERT_TRUE(rig.close(file));
  EXPECT_TRUE(rig.is_stored());
}

TEST(WrittenStream, RenamedFileIsComplete) {
  StreamRig rig;
  const OpenedFile file = rig.create(kRootNode, "x").value();
  rig.append(file, pattern(3 * kPart, 1));
  const WallTime later(1'900'000'000s);
  rig.set_wall_clock(later);
  rig.append(file, "later");
  EXPECT_EQ(rig.rename(kRootNode, "x", kRootNode, "y"), "ok");
  EXPECT_EQ(rig.attributes(file.node)->mtime, later);
  rig.append(file, pattern(3 * kPart, 2));
  ASSERT_TRUE(rig.close(file));
  EXPECT_TRUE(rig.is_stored("y"));
  EXPECT_EQ(rig.stored("x"), "(none)");
  EXPECT_EQ(rig.bucket().open_writers, 0);
}

TEST(WrittenStream, WritesAfterAnFsyncAreSaved) {
  StreamRig rig;
  const OpenedFile file = rig.create(kRootNode, "x").value();
  rig.append(file, pattern(3 * kPart, 1));
  ASSERT_TRUE(rig.flush(file));
  EXPECT_TRUE(rig.is_stored());
  rig.edit(file, 3, "after");
  rig.append(file, pattern(3 * kPart, 2));
  ASSERT_TRUE(rig.close(file));
  EXPECT_TRUE(rig.is_stored());
}

TEST(WrittenStream, RemovedFileLeavesNothing) {
  StreamRig rig;
  const OpenedFile file = rig.create(kRootNode, "x").value();
  rig.append(file, pattern(3 * kPart, 1));
  EXPECT_EQ(rig.remove_file(kRootNode, "x"), "ok");
  rig.append(file, pattern(3 * kPart, 1));
  EXPECT_TRUE(rig.read_open(file, 10 * kPart) == rig.content);
  ASSERT_TRUE(rig.close(file));
  EXPECT_EQ(rig.keys(), "");
  EXPECT_EQ(rig.bucket().open_writers, 0) << "the upload was given up";
}

TEST(WrittenStream, FailureSendsTheWholeLater) {
  for (const char* failing : {"append", "complete"}) {
    for (const StatusCode code : {StatusCode::kUnavailable, StatusCode::kInvalidArgument}) {
      SCOPED_TRACE(fmt::format("{} {}", failing, to_string(code)));
      StreamRig rig;
      int failures = 0;
      rig.fail = [&](std::string_view operation) -> Result<> {
        if (operation != failing || failures++ > 0) return {};
        return error(code, "as the test ordered");
      };
      const OpenedFile file = rig.create(kRootNode, "x").value();
      rig.append(file, pattern(4 * kPart, 1));
      ASSERT_TRUE(rig.close(file));
      EXPECT_TRUE(rig.is_stored());
      EXPECT_EQ(rig.bucket().open_writers, 0);
    }
  }
}

TEST(WrittenStream, ConditionHoldsAtTheEnd) {
  StreamRig rig;
  const OpenedFile file = rig.create(kRootNode, "x").value();
  rig.append(file, pattern(3 * kPart, 1));
  rig.wait_for_bytes(2 * kPart);
  rig.bucket().put("x", "of somebody else");
  EXPECT_EQ(outcome(rig.close(file)), "conflict");
  EXPECT_EQ(rig.stored("x"), "of somebody else");
  const std::string all = rig.keys();
  ASSERT_TRUE(all.starts_with("x x.conflict-")) << all;
  EXPECT_TRUE(rig.is_stored(all.substr(2)));
}

TEST(WrittenStream, LostAnswerIsNoConflict) {
  StreamRig rig;
  int lost = 0;
  rig.bucket().after = [&](std::string_view operation, const std::string&) -> Result<> {
    if (operation != "complete" || lost++ > 0) return {};
    return error(StatusCode::kUnavailable, "the answer is lost");
  };
  const OpenedFile file = rig.create(kRootNode, "x").value();
  rig.append(file, pattern(3 * kPart, 1));
  ASSERT_TRUE(rig.close(file));
  EXPECT_TRUE(rig.is_stored());
  EXPECT_EQ(rig.keys(), "x");
}

TEST(WrittenStream, UploadsAtATimeAreBounded) {
  StreamRig rig;
  std::vector<OpenedFile> files;
  const std::string text = pattern(2 * kPart, 1);
  for (int i = 0; i < PartStream::kStreamsMax + 2; ++i) {
    files.push_back(rig.create(kRootNode, fmt::format("f{}", i)).value());
    rig.content.clear();
    rig.append(files.back(), text);
  }
  EXPECT_LE(rig.bucket().open_writers, PartStream::kStreamsMax);
  for (const OpenedFile& file : files) ASSERT_TRUE(rig.close(file));
  EXPECT_EQ(rig.bucket().open_writers, 0);
  for (size_t i = 0; i < files.size(); ++i) EXPECT_TRUE(rig.is_stored(fmt::format("f{}", i)));
}

// Random programs: most write in order, some rewrite, cut, rename, fail. The object has the bytes
// that a string has after the same changes.
TEST(WrittenStream, RandomProgramsAreSavedRight) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    std::minstd_rand random(seed);
    StreamRig rig;
    rig.bucket().changed.copies_parts = seed % 2 == 0;
    rig.fail = [&, flaky = std::make_shared<std::minstd_rand>(seed)](std::string_view operation) {
      const bool fails = seed % 3 == 0 && operation != "stat" && (*flaky)() % 10 == 0;
      return fails ? Result<>(error(StatusCode::kUnavailable, "as the test ordered")) : Result<>();
    };
    std::string name = "x";
    const OpenedFile file = rig.create(kRootNode, name).value();
    for (int step = 0; step < 30; ++step) {
      const std::string text(1 + random() % (3 * kMiB), static_cast<char>(random()));
      switch (random() % 14) {
        case 0:
          rig.edit(file, random() % (rig.content.size() + 1), text.substr(0, 100));
          break;
        case 1:
          rig.edit(file, rig.content.size() + random() % kMiB, text);
          break;
        case 2: {
          const uint64_t size = rig.content.size() - random() % (rig.content.size() / 8 + 1);
          ASSERT_TRUE(rig.set(file.node, {.size = size}));
          rig.content.resize(size);
          break;
        }
        case 3:
          if (rig.flush(file)) ASSERT_TRUE(rig.is_stored(name)) << "step " << step;
          break;
        case 4: {
          const std::string other = fmt::format("y{}", step);
          if (rig.rename(kRootNode, name, kRootNode, other) == "ok") name = other;
          break;
        }
        default:
          rig.edit(file, rig.content.size(), text);
      }
    }
    rig.fail = {};
    ASSERT_TRUE(rig.flush(file));
    ASSERT_TRUE(rig.is_stored(name));
    ASSERT_TRUE(rig.close(file));
    EXPECT_EQ(rig.bucket().open_writers, 0);
  }
}

}  // namespace
}  // namespace leat
