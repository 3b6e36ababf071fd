// SPDX-License-Identifier: Apache-2.0
#include "wire/staging_messages.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

const Id128 kLog = Id128::digest({});

StagedChange save() {
  StagedChange change{.key = "a\xff/b",
                      .content = Id128::random(),
                      .size = 7,
                      .crc = 5,
                      .holders = {WorkerId(Id128::random()), WorkerId(Id128::random())},
                      .since = WallTime(std::chrono::nanoseconds(9)),
                      .copies = 2};
  change.attributes.mode = 0100644;
  change.condition.version = Version::etag("\"x\"");
  return change;
}

TEST(StagingMessages, ChangeSurvivesARoundTrip) {
  const StagedChange rename{
      .kind = StagedKind::kRename, .key = "b/", .from = "a/", .exclusive = true};
  for (const StagedChange& change : {save(), rename}) {
    const auto again = decode_staged_change(encode_staged_change(change));
    ASSERT_TRUE(again) << again.error().to_string();
    EXPECT_EQ(*again, change);
    const auto sent = staged_append_from(to_http(StagedAppend{.mount = "/m", .change = change}));
    ASSERT_TRUE(sent);
    EXPECT_EQ(sent->change, change);
    EXPECT_EQ(sent->mount, "/m");
  }
}

TEST(StagingMessages, EventsSurviveARoundTrip) {
  StagedEvents events{.log = kLog, .term = 3, .position = 9, .is_whole = true};
  events.events.push_back({.position = 7, .number = 7, .change = save()});
  events.events.push_back({.kind = StagedEvent::Kind::kCopied, .position = 8, .number = 5});
  events.events.push_back({.kind = StagedEvent::Kind::kDone,
                           .position = 9,
                           .number = 7,
                           .version = Version::etag("\"y\"")});
  const auto again = decode_staged_events(encode_staged_events(events));
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(*again, events);
}

TEST(StagingMessages, PartsOfAWholeLogEndWithItsPosition) {
  StagedEvents whole{.log = kLog, .term = 3, .position = 9'000, .is_whole = true};
  EXPECT_EQ(parts_of(whole), std::vector{whole});
  whole.events.resize(2 * kStagedPartEvents + 1);
  const auto parts = parts_of(whole);
  ASSERT_EQ(parts.size(), 3);
  EXPECT_TRUE(parts[0].is_whole && !parts[0].is_part && parts[0].position == 0);
  EXPECT_TRUE(!parts[2].is_whole && parts[2].is_part && parts[2].position == 9'000);
  EXPECT_EQ(parts[2].events.size(), 1);
}

TEST(StagingMessages, VersionNamesItsLogAndChange) {
  const Version version = staged_version(kLog, 42);
  EXPECT_TRUE(is_staged_version(version));
  EXPECT_EQ(staged_number(kLog, version), 42);
  EXPECT_EQ(staged_number(Id128::random(), version), std::nullopt);
  EXPECT_FALSE(is_staged_version(Version::etag("\"0af3\"")));
}

TEST(StagingMessages, BadChangesAreRejected) {
  EXPECT_FALSE(decode_staged_change("{}"));
  EXPECT_FALSE(decode_staged_change(R"({"kind":"save","key":"../a","copies":1})"));
  EXPECT_FALSE(decode_staged_change(R"({"kind":"rename","key":"a","copies":1})"));
  EXPECT_FALSE(decode_staged_change(R"({"kind":"save","key":"a","copies":9})"));
  EXPECT_FALSE(decode_staged_change(R"({"kind":"link","key":"a","copies":1})"));
}

TEST(StagingMessages, DamagedPieceIsFound) {
  const StagedPiece piece{.content = kLog, .offset = 4, .is_last = true};
  HttpRequest http = to_http(piece, std::as_bytes(std::span("abc", 3)));
  const auto read = staged_piece_from(http);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->offset, 4);
  EXPECT_TRUE(read->is_last);
  http.body[1] = 'x';
  EXPECT_EQ(staged_piece_from(http).error().code(), StatusCode::kCorrupt);
}

}  // namespace
}  // namespace leat
