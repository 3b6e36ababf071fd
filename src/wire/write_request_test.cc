// SPDX-License-Identifier: Apache-2.0
#include "wire/write_request.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "wire/random_test.h"

namespace leat {
namespace {

const StoreId kStore(*Id128::from_hex("000102030405060708090a0b0c0d0e0f"));

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

PosixAttributes random_attributes(testing::Random& random) {
  PosixAttributes attributes;
  if (random.coin()) attributes.mode = S_IFREG | (random.bits() % 01000);
  if (random.coin()) attributes.uid = static_cast<uid_t>(random.bits());
  if (random.coin()) attributes.gid = 0;
  if (random.coin()) attributes.mtime = WallTime(std::chrono::nanoseconds(-7));
  if (random.coin()) attributes.atime = WallTime(std::chrono::nanoseconds(random.bits() >> 1));
  return attributes;
}

PeerWrite write_of(std::string key) {
  return {.mount = "/data", .store = kStore, .key = std::move(key)};
}

StatusCode code_of(const HttpRequest& http) {
  const auto parsed = write_from(http);
  return parsed ? StatusCode::kInternal : parsed.error().code();
}

TEST(WriteRequest, ComesBackAsItWas) {
  testing::Random random;
  for (int i = 0; i < 100; ++i) {
    PeerWrite request = write_of(random.coin() ? "a\xff/b" : "a b");
    request.attributes = random_attributes(random);
    if (random.coin()) {
      request.condition.version = Version::etag("\"x&y\"");
    } else {
      request.condition.absent = random.coin();
    }
    if (random.coin()) request.piece = {Id128::random(), uint64_t(i) << 30};
    const std::string content = random.bytes(100);
    const HttpRequest http = to_http(request, bytes_of(content));
    EXPECT_EQ(http.method, "POST");
    EXPECT_EQ(http.body, content);
    const auto back = write_from(http);
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(back->mount, request.mount);
    EXPECT_EQ(back->store, request.store);
    EXPECT_EQ(back->key, request.key);
    EXPECT_EQ(back->condition.absent, request.condition.absent);
    EXPECT_EQ(back->condition.version, request.condition.version);
    EXPECT_EQ(back->attributes, request.attributes);
    EXPECT_EQ(back->piece, request.piece);
  }
}

TEST(WriteRequest, ChangedContentIsDetected) {
  HttpRequest http = to_http(write_of("a"), bytes_of("content"));
  http.body[3] ^= 1;
  EXPECT_EQ(code_of(http), StatusCode::kCorrupt);
  http.body.clear();
  EXPECT_EQ(code_of(http), StatusCode::kCorrupt);
}

TEST(WriteRequest, WrongFieldsAreRejected) {
  for (const char* key : {"", "/a", "a//b", "../a", "a/.."}) {
    EXPECT_EQ(code_of(to_http(write_of(key), {})), StatusCode::kInvalidArgument) << key;
  }
  EXPECT_EQ(code_of(to_http(write_of("a/"), bytes_of("x"))), StatusCode::kInvalidArgument);
  const std::string large(kWriteBytesMax + 1, 'x');
  EXPECT_EQ(code_of(to_http(write_of("a"), bytes_of(large))), StatusCode::kInvalidArgument);
  PeerWrite both = write_of("a");
  both.condition = {.absent = true, .version = Version::etag("x")};
  EXPECT_EQ(code_of(to_http(both, {})), StatusCode::kInvalidArgument);
  PeerWrite abort = write_of("a");
  abort.piece = {Id128::random(), 0, WritePiece::Step::kAbort};
  EXPECT_EQ(code_of(to_http(abort, bytes_of("x"))), StatusCode::kInvalidArgument);
  HttpRequest http = to_http(write_of("a"), {});
  http.query["attributes"] = "mode=x";
  EXPECT_EQ(code_of(http), StatusCode::kInvalidArgument);
  http.query["attributes"] = "mode=-1";
  EXPECT_EQ(code_of(http), StatusCode::kInvalidArgument);
  http.query["attributes"] = "later=7,mode=33188";
  EXPECT_EQ(write_from(http)->attributes.mode, mode_t{33188});
}

TEST(ChangeRequest, ComesBackAsItWas) {
  testing::Random random;
  for (const ChangeOp op :
       {ChangeOp::kCopy, ChangeOp::kRename, ChangeOp::kRemove, ChangeOp::kSetAttributes}) {
    PeerChange request{.op = op, .mount = "/data", .store = kStore};
    request.keys = op == ChangeOp::kSetAttributes ? std::vector<std::string>{"a\xff/"}
                                                  : std::vector<std::string>{"a\xff", "b/c"};
    request.exclusive = random.coin();
    request.attributes = random_attributes(random);
    const auto back = change_from(to_http(request));
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(back->op, op);
    EXPECT_EQ(back->mount, "/data");
    EXPECT_EQ(back->keys, request.keys);
    EXPECT_EQ(back->exclusive, request.exclusive);
    EXPECT_EQ(back->attributes, request.attributes);
  }
}

TEST(ChangeRequest, WrongNumberOfKeysIsRejected) {
  PeerChange request{.op = ChangeOp::kRename, .mount = "/data", .store = kStore, .keys = {"a"}};
  EXPECT_FALSE(change_from(to_http(request)));
  request.op = ChangeOp::kRemove;
  EXPECT_TRUE(change_from(to_http(request)));
  request.keys.clear();
  EXPECT_FALSE(change_from(to_http(request)));
  request.keys.assign(kChangeKeysMax + 1, "a");
  EXPECT_FALSE(change_from(to_http(request)));
  request.keys = {"../a"};
  EXPECT_FALSE(change_from(to_http(request)));
}

TEST(ChangeAnswer, ComesBackAsItWas) {
  EXPECT_EQ(decode_change_answer(encode_change_answer({})).value().key, "");
  SourceObject object;
  object.key = "a\xff";
  object.size = 3;
  object.version = Version::etag("x");
  PosixAttributes attributes{.mode = S_IFREG | 0640, .uid = 7};
  object.attributes = std::make_shared<const PosixAttributes>(attributes);
  const auto back = decode_change_answer(encode_change_answer(object));
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(back->key, object.key);
  EXPECT_EQ(back->size, 3U);
  EXPECT_EQ(back->version, object.version);
  ASSERT_NE(back->attributes, nullptr);
  EXPECT_EQ(*back->attributes, attributes);
}

}  // namespace
}  // namespace leat
