// SPDX-License-Identifier: Apache-2.0
// Staged changes on a worker's disk: the logs and the contents.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "staging/staged_contents.h"
#include "staging/staging_log.h"

namespace leat {
namespace {

class TempDirectory {
 public:
  TempDirectory() { EXPECT_NE(::mkdtemp(path_.data()), nullptr); }
  ~TempDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = ::testing::TempDir() + "leat-staging-XXXXXX";
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

StagedEvents events_of(const Id128& log, uint64_t position, std::string key) {
  StagedEvents events{.log = log, .term = 1, .position = position};
  events.events.push_back({.position = position, .number = position, .change = {.key = key}});
  return events;
}

TEST(StagingLog, EventsAreThereAfterAReopening) {
  const TempDirectory directory;
  const Id128 log = Id128::random();
  {
    const auto opened = StagingLog::open(directory.path() + "/s").value();
    ASSERT_TRUE(opened->append("/m", {}, events_of(log, 1, "a")));
    ASSERT_TRUE(opened->append("/m", {}, events_of(log, 2, "b")));
    ASSERT_TRUE(opened->append("/other", {}, events_of(log, 1, "c")));
    EXPECT_FALSE(StagingLog::open(directory.path() + "/s"));
  }
  const auto opened = StagingLog::open(directory.path() + "/s").value();
  auto stored = opened->load().value();
  ASSERT_EQ(stored.size(), 2);
  EXPECT_EQ(stored[0].mount, "/m");
  EXPECT_EQ(stored[0].events.position, 2);
  ASSERT_EQ(stored[0].events.events.size(), 2);
  EXPECT_EQ(stored[0].events.events[1].change.key, "b");
  EXPECT_EQ(opened->size("/m"), 2);
}

TEST(StagingLog, WholeEventsReplaceTheLog) {
  const TempDirectory directory;
  const auto log = StagingLog::open(directory.path() + "/s").value();
  for (uint64_t i = 1; i < 5; ++i) ASSERT_TRUE(log->append("/m", {}, events_of(Id128(), i, "a")));
  StagedEvents whole = events_of(Id128::random(), 9, "b");
  whole.is_whole = true;
  ASSERT_TRUE(log->append("/m", {}, whole));
  EXPECT_EQ(log->load().value()[0].events, whole);
  EXPECT_EQ(log->size("/m"), 1);
  ASSERT_TRUE(log->remove("/m"));
  EXPECT_TRUE(log->load().value().empty());
}

TEST(StagedContents, PiecesMakeAContent) {
  const TempDirectory directory;
  const Id128 id = Id128::random();
  const auto contents = StagedContents::open(directory.path() + "/c", 100).value();
  ASSERT_TRUE(contents->write(id, 0, bytes_of("abc"), false));
  EXPECT_FALSE(contents->has(id));
  EXPECT_EQ(contents->write(id, 5, bytes_of("x"), true).error().code(), StatusCode::kUnavailable);
  ASSERT_TRUE(contents->write(id, 0, bytes_of("abc"), false));  // repeated
  ASSERT_TRUE(contents->write(id, 3, bytes_of("de"), true));
  ASSERT_TRUE(contents->write(id, 3, bytes_of("de"), true));
  EXPECT_TRUE(contents->has(id));
  EXPECT_EQ(contents->read(id, {1, 3}).value(), "bcd");
  EXPECT_FALSE(contents->read(id, {4, 3}));
  EXPECT_EQ(contents->bytes(), 5);
}

TEST(StagedContents, CompleteOnesAreThereAfterAReopening) {
  const TempDirectory directory;
  const Id128 complete = Id128::random(), part = Id128::random();
  {
    const auto contents = StagedContents::open(directory.path() + "/c", 100).value();
    ASSERT_TRUE(contents->write(complete, 0, bytes_of("abc"), true));
    ASSERT_TRUE(contents->write(part, 0, bytes_of("abc"), false));
  }
  const auto contents = StagedContents::open(directory.path() + "/c", 100).value();
  EXPECT_EQ(contents->all(), std::vector{complete});
  EXPECT_EQ(contents->bytes(), 3);
  contents->remove(complete);
  EXPECT_EQ(contents->read(complete, {0, 3}).error().code(), StatusCode::kNotFound);
  EXPECT_EQ(contents->bytes(), 0);
}

TEST(StagedContents, RoomIsBounded) {
  const TempDirectory directory;
  const auto contents = StagedContents::open(directory.path() + "/c", 4).value();
  EXPECT_EQ(contents->write(Id128::random(), 0, bytes_of("abcde"), true).error().code(),
            StatusCode::kNoSpace);
  EXPECT_TRUE(contents->write(Id128::random(), 0, bytes_of("abcd"), true));
}

}  // namespace
}  // namespace leat
