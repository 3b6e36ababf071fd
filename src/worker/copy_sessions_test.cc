// SPDX-License-Identifier: Apache-2.0
#include "worker/copy_sessions.h"

#include <gtest/gtest.h>

#include "source/memory_source_test.h"

namespace leat {
namespace {

using testing::MemorySource;

class CopySessionsTest : public ::testing::Test {
 protected:
  ~CopySessionsTest() override { executor_.block_on(sessions_.stop()); }

  FileToRead file(const std::string& key) {
    const SourceObject object =
        executor_.block_on(files_.stat(Context::background(), {.key = key})).value();
    mtime_ = object.mtime;
    return {key, std::make_shared<const FileRef>(
                     FileRef::make(files_.id(), key, object.version, object.size))};
  }
  CopySpec goal(const std::string& to, OverwriteMode over = OverwriteMode::kNever) {
    CopySpec made{.copy = Id128::random(), .to = to, .overwrite = over};
    made.mtime = mtime_;
    return made;
  }
  Result<CopyStep> step(const FileToRead& file, ByteRange range, const CopySpec& goal) {
    return executor_.block_on(sessions_.step(Context::background(), file, range, goal));
  }
  std::string content(const std::string& key) {
    const auto object = executor_.block_on(target_->stat(Context::background(), {.key = key}));
    if (!object) return "(none)";
    std::string text(object->size, '\0');
    ReadRequest read{.key = key, .range = {0, object->size}, .if_version = {}};
    if (!text.empty()) {
      EXPECT_TRUE(executor_.block_on(target_->read(Context::background(), std::move(read),
                                                   std::as_writable_bytes(std::span(text)))));
    }
    return text;
  }

  Executor executor_{{.threads = 2}};
  MemorySource files_{"files"};
  std::shared_ptr<MemorySource> target_ = std::make_shared<MemorySource>("target");
  std::optional<WallTime> mtime_;
  CopySessions sessions_{files_,
                         [this](const CopySpec& goal) -> Result<CopySessions::Destination> {
                           return CopySessions::Destination{target_, goal.to};
                         },
                         executor_};
};

TEST_F(CopySessionsTest, AnObjectIsSeenWhenAllOfItIsThere) {
  files_.put("a", "0123456789");
  const FileToRead a = file("a");
  const CopySpec to = goal("x");
  EXPECT_EQ(step(a, {0, 4}, to)->state, CopyState::kMore);
  EXPECT_EQ(step(a, {4, 4}, to)->bytes, 4u);
  EXPECT_EQ(content("x"), "(none)");
  EXPECT_EQ(step(a, {8, 2}, to)->state, CopyState::kWritten);
  EXPECT_EQ(content("x"), "0123456789");
}

TEST_F(CopySessionsTest, OutOfOrderStepIsRejected) {
  files_.put("a", "0123456789");
  const FileToRead a = file("a");
  const CopySpec to = goal("x");
  EXPECT_EQ(step(a, {4, 4}, to).error().code(), StatusCode::kUnavailable);
  ASSERT_TRUE(step(a, {0, 4}, to));
  EXPECT_EQ(step(a, {8, 2}, to).error().code(), StatusCode::kUnavailable);
  EXPECT_EQ(step(a, {4, 6}, to)->state, CopyState::kWritten);
}

TEST_F(CopySessionsTest, ExistingFileIsReplacedOnlyOnRequest) {
  files_.put("a", "0123456789");
  const FileToRead a = file("a");
  target_->put("other", "mine");
  EXPECT_EQ(step(a, {0, 10}, goal("other")).error().code(), StatusCode::kExists);
  EXPECT_EQ(content("other"), "mine");
  EXPECT_EQ(step(a, {0, 10}, goal("other", OverwriteMode::kIfDifferent))->state,
            CopyState::kWritten);
  EXPECT_EQ(content("other"), "0123456789");
  mtime_ = std::nullopt;
  EXPECT_EQ(step(a, {0, 10}, goal("other")).error().code(), StatusCode::kExists)
      << "without a time nobody knows";
  mtime_ = WallTime(std::chrono::seconds(0));
  EXPECT_EQ(step(a, {0, 10}, goal("other"))->state, CopyState::kAlreadyPresent);
  EXPECT_EQ(step(a, {0, 10}, goal("other", OverwriteMode::kAlways))->state, CopyState::kWritten);
}

TEST_F(CopySessionsTest, ANameThatIsADirectoryIsNoGuess) {
  files_.put("a", "x");
  const FileToRead a = file("a");
  target_->put("folder/file", "y");
  CopySpec to = goal("folder");
  to.name_is_guess = true;
  EXPECT_EQ(step(a, {0, 1}, to).error().code(), StatusCode::kIsDirectory);
}

TEST_F(CopySessionsTest, AFailureLeavesNothing) {
  files_.put("a", "0123456789");
  const FileToRead a = file("a");
  const CopySpec to = goal("x");
  ASSERT_TRUE(step(a, {0, 4}, to));
  files_.put("a", "another!!!");
  EXPECT_EQ(step(a, {4, 6}, to).error().code(), StatusCode::kVersionChanged);
  EXPECT_EQ(content("x"), "(none)");
  EXPECT_EQ(step(a, {4, 6}, to).error().code(), StatusCode::kUnavailable);
}

TEST_F(CopySessionsTest, AnEmptyFileIsWrittenInOneStep) {
  files_.put("empty", "");
  EXPECT_EQ(step(file("empty"), {}, goal("x"))->state, CopyState::kWritten);
  EXPECT_EQ(content("x"), "");
}

TEST_F(CopySessionsTest, AStoreThatHasTheFileCopiesItByItself) {
  files_.put("a", "0123456789");
  FileToRead a = file("a");
  target_->put("from", "0123456789");
  a.ref = std::make_shared<const FileRef>(
      FileRef::make(target_->id(), "from", a.ref->version, a.ref->size));
  const uint64_t reads = files_.reads();
  const auto copied = step(a, {0, 4}, goal("x"));
  ASSERT_TRUE(copied) << copied.error().to_string();
  EXPECT_EQ(copied->state, CopyState::kWritten);
  EXPECT_EQ(copied->bytes, 0u);
  EXPECT_EQ(files_.reads(), reads);
  EXPECT_EQ(content("x"), "0123456789");
  EXPECT_EQ(step(a, {0, 4}, goal("from", OverwriteMode::kAlways)).error().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(CopySessionsTest, SessionLimitRejectsUntilOthersEnd) {
  files_.put("a", "0123456789");
  const FileToRead a = file("a");
  std::vector<CopySpec> begun;
  for (size_t i = 0; i < CopySessions::kSessionsMax; ++i) {
    begun.push_back(goal("x" + std::to_string(i)));
    ASSERT_TRUE(step(a, {0, 4}, begun.back()));
  }
  EXPECT_EQ(step(a, {0, 4}, goal("more")).error().code(), StatusCode::kBusy);
  EXPECT_EQ(step(a, {4, 6}, begun[0])->state, CopyState::kWritten);
  EXPECT_TRUE(step(a, {0, 4}, goal("more")));
}

}  // namespace
}  // namespace leat
