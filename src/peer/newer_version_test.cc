// SPDX-License-Identifier: Apache-2.0
// Versions N and N + 1 are compatible: members that a newer worker or client adds are ignored, in
// each JSON message of the protocol.
#include <gtest/gtest.h>

#include "peer/changes.h"
#include "peer/copy_request.h"
#include "peer/name_pages.h"
#include "peer/peer_error.h"
#include "peer/upkeep.h"

namespace leat {
namespace {

// Adds unknown members at the front and at the end of each object, nested ones included.
std::string newer(std::string text) {
  const std::string later = R"("later":{"deep":[1,{"x":null}]},"and":7)";
  std::string made;
  for (size_t i = 0; i < text.size(); ++i) {
    made += text[i];
    const bool empty = i + 1 < text.size() && text[i + 1] == '}';
    if (text[i] == '{') made += later + (empty ? "" : ",");
  }
  made.insert(made.size() - 1, R"(,"last":"word")");
  return made;
}

TEST(NewerVersion, OfNames) {
  NamePage page;
  SourceObject object;
  object.key = "dir/a";
  object.size = 5;
  object.version = Version::etag("x");
  page.page.objects = {object};
  page.page.next_token = "dir/a";
  const auto names = decode_name_page(newer(encode_name_page(page)), "dir/");
  ASSERT_TRUE(names) << names.error().to_string();
  ASSERT_EQ(names->page.objects.size(), 1u);
  EXPECT_EQ(names->page.objects[0].key, "dir/a");
  EXPECT_EQ(names->page.next_token, "dir/a");
  const auto stat = decode_name_stat(newer(encode_name_stat({.object = object})));
  ASSERT_TRUE(stat) << stat.error().to_string();
  EXPECT_EQ(stat->object.size, 5u);
}

TEST(NewerVersion, OfChangesAndWhatKindOfThemIsNotKnownIsAll) {
  const PeerChanges news{
      .number = 4, .changes = {{.mount = "/m", .key = "a/", .kind = PeerChange::Kind::kDirectory}}};
  const auto changes = decode_changes(newer(encode_changes(news)));
  ASSERT_TRUE(changes) << changes.error().to_string();
  EXPECT_EQ(*changes, news);
  const auto other =
      decode_changes(R"({"number":5,"changes":[{"mount":"/m","key":"a","kind":"moved"}]})");
  ASSERT_TRUE(other) << other.error().to_string();
  ASSERT_EQ(other->changes.size(), 1u);
  EXPECT_EQ(other->changes[0].kind, PeerChange::Kind::kAll);
}

TEST(NewerVersion, OfWhatJobsAsk) {
  EXPECT_EQ(decode_upkeep_bytes(newer(encode_upkeep_bytes(7))).value(), 7u);
  const std::vector<FileId> files = {FileId(Id128::random()), FileId(Id128::random())};
  EXPECT_EQ(decode_drop(newer(encode_drop(files))).value(), files);
  const UpkeepVerify verify{.ended = true, .objects = 3, .trouble = "x"};
  EXPECT_EQ(decode_verify(newer(encode_verify(verify))).value(), verify);
  const CopyStep step{.state = CopyState::kThere, .bytes = 1};
  EXPECT_EQ(decode_copy_step(newer(encode_copy_step(step))).value(), step);
}

TEST(NewerVersion, OfErrorsAndACodeThatIsNotKnownIsStillAnAnswer) {
  const Status why(StatusCode::kChanged, "another");
  const Status back = decode_peer_error(409, newer(encode_peer_error(why)));
  EXPECT_EQ(back.code(), why.code());
  EXPECT_EQ(back.message(), why.message());
  const Status later =
      decode_peer_error(409, R"({"error":{"code":"a_later_one","message":"words"}})");
  EXPECT_EQ(later.code(), StatusCode::kInternal);
  EXPECT_TRUE(later.message().contains("words")) << later.message();
}

}  // namespace
}  // namespace leat
