// SPDX-License-Identifier: Apache-2.0
#include "peer/upkeep.h"

#include <gtest/gtest.h>

#include "peer/random_test.h"

namespace leat {
namespace {

UpkeepRequest request_of(UpkeepAction action) {
  const StoreId store(*Id128::from_hex("000102030405060708090a0b0c0d0e0f"));
  return {action,
          {.mount = "/data",
           .file = FileRef::make(store, "a\xff", Version::etag("\"x\""), 9),
           .range = {2, 3}}};
}

TEST(Upkeep, ARequestComesBackAsItWas) {
  for (UpkeepAction action :
       {UpkeepAction::kEnsure, UpkeepAction::kMissing, UpkeepAction::kReadBack}) {
    const HttpRequest http = to_http(request_of(action));
    EXPECT_EQ(http.method, "POST");
    auto back = upkeep_request_from(http);
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(back->action, action);
    EXPECT_EQ(back->part.file.id, request_of(action).part.file.id);
    EXPECT_EQ(back->part.range, (ByteRange{2, 3}));
  }
}

TEST(Upkeep, WhatIsNotToBeDoneIsRefused) {
  HttpRequest http = to_http(request_of(UpkeepAction::kEnsure));
  http.query["do"] = "burn";
  EXPECT_EQ(upkeep_request_from(http).error().code(), StatusCode::kInvalidArgument);
  http.query.erase("do");
  EXPECT_EQ(upkeep_request_from(http).error().code(), StatusCode::kInvalidArgument);
}

TEST(Upkeep, AnswersComeBackAsTheyWere) {
  testing::Random random;
  for (int i = 0; i < 100; ++i) {
    UpkeepVerify verify{.ended = random.coin(),
                        .objects = random.bits(),
                        .bytes = random.upto(UINT64_MAX),
                        .corrupt_blocks = random.upto(9),
                        .objects_total = random.bits(),
                        .bytes_total = random.bits(),
                        .trouble = random.bytes(20)};
    EXPECT_EQ(decode_verify(encode_verify(verify)).value(), verify);
    EXPECT_EQ(decode_upkeep_bytes(encode_upkeep_bytes(verify.bytes)).value(), verify.bytes);
    std::vector<FileId> files(random.upto(20));
    for (FileId& id : files) id = FileId(Id128::random());
    EXPECT_EQ(decode_drop(encode_drop(files)).value(), files);
  }
  EXPECT_EQ(encode_upkeep_bytes(7), R"({"bytes":7})");
  EXPECT_FALSE(decode_upkeep_bytes("{}"));
  EXPECT_FALSE(decode_drop(R"({"files":[{"id":"12"}]})"));
  EXPECT_FALSE(decode_drop(encode_drop(std::vector<FileId>(kDropFilesMax + 1))));
}

}  // namespace
}  // namespace leat
