// SPDX-License-Identifier: Apache-2.0
#include "wire/copy_request.h"

#include <gtest/gtest.h>

#include "wire/random_test.h"

namespace leat {
namespace {

CopyStepRequest request_of(uint64_t size, ByteRange range) {
  const StoreId store(*Id128::from_hex("000102030405060708090a0b0c0d0e0f"));
  return {.mount = "/data",
          .file = FileRef::make(store, "a\xff", Version::etag("\"x\""), size),
          .range = range,
          .spec = {.copy = Id128::random(), .to = "/out/a\xff"}};
}

TEST(CopyRequest, ComesBackAsItWas) {
  testing::Random random;
  for (int i = 0; i < 100; ++i) {
    CopyStepRequest request = request_of(9, {2, 3});
    if (random.coin()) {
      request.spec.to = "s3://bucket/x?region=r";
      request.spec.key = "deep/\xfe/" + std::to_string(i);
    }
    if (random.coin()) request.spec.mtime = WallTime(std::chrono::nanoseconds(-5 + i));
    request.spec.overwrite = random.coin() ? OverwriteMode::kAlways : OverwriteMode::kIfDifferent;
    request.spec.name_is_guess = random.coin();
    const HttpRequest http = to_http(request);
    EXPECT_EQ(http.method, "POST");
    const auto back = copy_request_from(http);
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(back->spec, request.spec);
    EXPECT_EQ(back->range, request.range);
    EXPECT_EQ(back->mount, "/data");
    EXPECT_EQ(back->file.id, request.file.id);
    const CopyStep step{.state = random.coin() ? CopyState::kAlreadyPresent : CopyState::kWritten,
                        .bytes = random.bits()};
    EXPECT_EQ(decode_copy_step(encode_copy_step(step)).value(), step);
  }
}

TEST(CopyRequest, OnlyAnEmptyFileHasAnEmptyRange) {
  EXPECT_TRUE(copy_request_from(to_http(request_of(0, {}))));
  EXPECT_EQ(copy_request_from(to_http(request_of(0, {0, 1}))).error().code(),
            StatusCode::kOutOfRange);
  EXPECT_EQ(copy_request_from(to_http(request_of(9, {}))).error().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(copy_request_from(to_http(request_of(9, {8, 2}))).error().code(),
            StatusCode::kOutOfRange);
}

TEST(CopyRequest, InvalidDestinationIsRejected) {
  for (const auto& [to, key] : {std::pair{"", ""},
                                {"/out/../in", ""},
                                {"s3://b/x", "../y"},
                                {"s3://b/x", "a//b"},
                                {"s3://b/x", "/a"}}) {
    CopyStepRequest request = request_of(9, {0, 9});
    request.spec.to = to;
    request.spec.key = key;
    EXPECT_EQ(copy_request_from(to_http(request)).error().code(), StatusCode::kInvalidArgument)
        << to << " " << key;
  }
  HttpRequest http = to_http(request_of(9, {0, 9}));
  http.body = R"({"copy":"12"})";
  EXPECT_EQ(copy_request_from(http).error().code(), StatusCode::kInvalidArgument);
}

// A newer worker may send more members.
TEST(CopyRequest, UnknownMembersAreIgnored) {
  HttpRequest http = to_http(request_of(9, {0, 9}));
  http.body.insert(1, R"("later":{"x":[1]},)");
  EXPECT_TRUE(copy_request_from(http));
  EXPECT_TRUE(decode_copy_step(R"({"state":"written","bytes":7,"later":"x"})"));
  EXPECT_FALSE(decode_copy_step(R"({"bytes":7})"));
}

}  // namespace
}  // namespace leat
