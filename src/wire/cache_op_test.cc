// SPDX-License-Identifier: Apache-2.0
#include "wire/cache_op.h"

#include <gtest/gtest.h>

#include "wire/random_test.h"

namespace leat {
namespace {

CacheOpRequest request_of(CacheOp action) {
  const StoreId store(*Id128::from_hex("000102030405060708090a0b0c0d0e0f"));
  return {action,
          {.mount = "/data",
           .file = FileRef::make(store, "a\xff", Version::etag("\"x\""), 9),
           .range = {2, 3}}};
}

TEST(CacheOp, ARequestComesBackAsItWas) {
  for (CacheOp action : {CacheOp::kEnsure, CacheOp::kMissing, CacheOp::kVerify}) {
    const HttpRequest http = to_http(request_of(action));
    EXPECT_EQ(http.method, "POST");
    auto back = cache_op_request_from(http);
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(back->op, action);
    EXPECT_EQ(back->part.file.id, request_of(action).part.file.id);
    EXPECT_EQ(back->part.range, (ByteRange{2, 3}));
  }
}

TEST(CacheOp, UnknownOperationIsRejected) {
  HttpRequest http = to_http(request_of(CacheOp::kEnsure));
  http.query["do"] = "burn";
  EXPECT_EQ(cache_op_request_from(http).error().code(), StatusCode::kInvalidArgument);
  http.query.erase("do");
  EXPECT_EQ(cache_op_request_from(http).error().code(), StatusCode::kInvalidArgument);
}

TEST(CacheOp, AnswersComeBackAsTheyWere) {
  testing::Random random;
  for (int i = 0; i < 100; ++i) {
    VerifyProgress verify{.ended = random.coin(),
                          .objects = random.bits(),
                          .bytes = random.upto(UINT64_MAX),
                          .corrupt_blocks = random.upto(9),
                          .objects_total = random.bits(),
                          .bytes_total = random.bits(),
                          .error = random.bytes(20)};
    EXPECT_EQ(decode_verify(encode_verify(verify)).value(), verify);
    EXPECT_EQ(decode_bytes_answer(encode_bytes_answer(verify.bytes)).value(), verify.bytes);
    std::vector<FileId> files(random.upto(20));
    for (FileId& id : files) id = FileId(Id128::random());
    EXPECT_EQ(decode_drop(encode_drop(files)).value(), files);
  }
  EXPECT_EQ(encode_bytes_answer(7), R"({"bytes":7})");
  EXPECT_FALSE(decode_bytes_answer("{}"));
  EXPECT_FALSE(decode_drop(R"({"files":[{"id":"12"}]})"));
  EXPECT_FALSE(decode_drop(encode_drop(std::vector<FileId>(kDropFilesMax + 1))));
}

}  // namespace
}  // namespace leat
