// SPDX-License-Identifier: Apache-2.0
// Versions N and N + 1 are compatible: members that a newer worker or client adds are ignored, in
// each JSON message of the protocol.
#include <gtest/gtest.h>

#include "wire/cache_op.h"
#include "wire/copy_request.h"
#include "wire/invalidations.h"
#include "wire/name_messages.h"
#include "wire/peer_error.h"

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
  ListResponse page;
  SourceObject object;
  object.key = "dir/a";
  object.size = 5;
  object.version = Version::etag("x");
  page.page.objects = {object};
  page.page.next_token = "dir/a";
  const auto names = decode_list_response(newer(encode_list_response(page)), "dir/");
  ASSERT_TRUE(names) << names.error().to_string();
  ASSERT_EQ(names->page.objects.size(), 1u);
  EXPECT_EQ(names->page.objects[0].key, "dir/a");
  EXPECT_EQ(names->page.next_token, "dir/a");
  const auto stat = decode_stat_response(newer(encode_stat_response({.object = object})));
  ASSERT_TRUE(stat) << stat.error().to_string();
  EXPECT_EQ(stat->object.size, 5u);
}

TEST(NewerVersion, UnknownInvalidationKindIsReadAsAll) {
  const Invalidations news{
      .number = 4, .items = {{.mount = "/m", .key = "a/", .kind = Invalidation::Kind::kDirectory}}};
  const auto changes = decode_invalidations(newer(encode_invalidations(news)));
  ASSERT_TRUE(changes) << changes.error().to_string();
  EXPECT_EQ(*changes, news);
  const auto other =
      decode_invalidations(R"({"number":5,"changes":[{"mount":"/m","key":"a","kind":"moved"}]})");
  ASSERT_TRUE(other) << other.error().to_string();
  ASSERT_EQ(other->items.size(), 1u);
  EXPECT_EQ(other->items[0].kind, Invalidation::Kind::kAll);
}

TEST(NewerVersion, UnknownMembersOfJobRequestsAreIgnored) {
  EXPECT_EQ(decode_bytes_answer(newer(encode_bytes_answer(7))).value(), 7u);
  const std::vector<FileId> files = {FileId(Id128::random()), FileId(Id128::random())};
  EXPECT_EQ(decode_drop(newer(encode_drop(files))).value(), files);
  const VerifyProgress verify{.ended = true, .objects = 3, .error = "x"};
  EXPECT_EQ(decode_verify(newer(encode_verify(verify))).value(), verify);
  const CopyStep step{.state = CopyState::kAlreadyPresent, .bytes = 1};
  EXPECT_EQ(decode_copy_step(newer(encode_copy_step(step))).value(), step);
}

TEST(NewerVersion, UnknownErrorCodeIsStillAnAnswer) {
  const Status why(StatusCode::kVersionChanged, "another");
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
