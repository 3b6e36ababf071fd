// SPDX-License-Identifier: Apache-2.0
#include "wire/batch.h"

#include <gtest/gtest.h>

#include <cstring>

#include "wire/random_test.h"

namespace leat {
namespace {

PeerReadRequest read_of(std::string key, uint64_t size, ByteRange range) {
  const StoreId store(*Id128::from_hex("000102030405060708090a0b0c0d0e0f"));
  return {.mount = "/data",
          .file = FileRef::make(store, std::move(key), Version::etag("\"x\""), size),
          .range = range};
}

std::string record(std::string_view json) {
  const auto size = static_cast<uint32_t>(json.size());
  std::string text(sizeof size, '\0');
  std::memcpy(text.data(), &size, sizeof size);
  return text.append(json);
}

std::string first_record() {
  return R"({"mount":"/data","store":"000102030405060708090a0b0c0d0e0f","key":"a","version":"1:v",)"
         R"("size":9,"offset":2,"bytes":3)";
}

// Splits the text into pieces of `piece` bytes, as an answer may arrive.
Bytes in_pieces(const std::string& text, size_t piece) {
  Bytes all;
  for (size_t at = 0; at < text.size(); at += piece) {
    all.append(Bytes::copy_of(std::string_view(text).substr(at, piece)));
  }
  return all;
}

TEST(Batch, IsTheDocumentedForm) {
  const std::vector<PeerReadRequest> requests = {read_of("a", 9, {2, 3})};
  EXPECT_EQ(encode_batch(requests),
            record(R"({"mount":"/data","store":"000102030405060708090a0b0c0d0e0f","key":"a",)"
                   R"("version":"1:\"x\"","size":9,"offset":2,"bytes":3})"));
  const BatchAnswer answer = {Bytes::copy_of("xyz"),
                              error(StatusCode::kVersionChanged, "it is another one")};
  const std::string text = encode_batch_answer(answer, false).to_string();
  using std::string_view_literals::operator""sv;
  const std::string reason = R"({"error":{"code":"changed","message":"it is another one"}})";
  EXPECT_EQ(text, std::string("\xce\0\0\0\3\0\0\0xyz\x99\1\0\0\x3a\0\0\0"sv) + reason);
}

TEST(Batch, RandomOnesComeBack) {
  testing::Random random;
  for (int i = 0; i < 200; ++i) {
    std::vector<PeerReadRequest> requests;
    const uint64_t count = 1 + random.upto(9);
    while (requests.size() < count) {
      const uint64_t size = 1 + random.upto(UINT64_MAX - 1);
      const uint64_t offset = random.upto(size - 1);
      const uint64_t most = std::min<uint64_t>(size - offset, 2000);
      requests.push_back(read_of("k" + random.bytes(40, std::string_view("\0/", 2)), size,
                                 {offset, 1 + random.upto(most - 1)}));
    }
    auto there = decode_batch(encode_batch(requests));
    ASSERT_TRUE(there) << there.error().to_string();
    ASSERT_EQ(there->size(), requests.size());
    BatchAnswer answer;
    std::vector<std::string> expected;
    for (size_t n = 0; n < requests.size(); ++n) {
      ASSERT_EQ((*there)[n].file.id, requests[n].file.id);
      ASSERT_EQ((*there)[n].range, requests[n].range);
      expected.push_back(std::string(requests[n].range.size, static_cast<char>('a' + n)));
      if (random.upto(4) == 1) {
        expected.back() = random.bytes(30);
        answer.push_back(error(StatusCode::kThrottled, expected.back()));
      } else {
        answer.emplace_back(Bytes::copy_of(expected.back()));
      }
    }
    const std::string text = encode_batch_answer(answer, false).to_string();
    auto back = decode_batch_answer(in_pieces(text, 1 + random.upto(text.size())), requests);
    ASSERT_TRUE(back) << back.error().to_string();
    for (size_t n = 0; n < answer.size(); ++n) {
      ASSERT_EQ((*back)[n].has_value(), answer[n].has_value());
      ASSERT_EQ(answer[n] ? (*back)[n]->to_string() : (*back)[n].error().message(), expected[n]);
    }
  }
}

TEST(Batch, PartsLieInTheAnswer) {
  const std::vector<PeerReadRequest> requests = {read_of("a", 3, {0, 3}), read_of("b", 3, {0, 3})};
  const Bytes body = Bytes::copy_of(
      encode_batch_answer({Bytes::copy_of("aaa"), Bytes::copy_of("bbb")}, false).to_string());
  auto parts = decode_batch_answer(body, requests);
  ASSERT_TRUE(parts);
  EXPECT_EQ((*parts)[0]->slices()[0].data, body.slices()[0].data + 8);
  EXPECT_EQ((*parts)[1]->slices()[0].data, body.slices()[0].data + 19);
  // Encoding does not copy payloads, either.
  const Bytes payload = Bytes::copy_of("ccc");
  EXPECT_EQ(encode_batch_answer({payload}, false).slices()[1].data, payload.slices()[0].data);
}

TEST(Batch, WhatIsNotCachedHasItsOwnStatus) {
  const BatchAnswer missing = {error(StatusCode::kNotFound, "x")};
  EXPECT_EQ(static_cast<uint8_t>(encode_batch_answer(missing, false).to_string()[0]), 404 & 0xff);
  EXPECT_EQ(static_cast<uint8_t>(encode_batch_answer(missing, true).to_string()[0]), 504 & 0xff);
}

TEST(Batch, HasLimits) {
  std::vector<PeerReadRequest> requests(kBatchRecordsMax, read_of("a", 9, {2, 3}));
  EXPECT_TRUE(check_batch(requests));
  EXPECT_TRUE(decode_batch(encode_batch(requests)));
  requests.push_back(requests[0]);
  EXPECT_FALSE(check_batch(requests));
  EXPECT_FALSE(decode_batch(encode_batch(requests)));
  EXPECT_FALSE(check_batch({}));
  EXPECT_FALSE(decode_batch(""));
  requests.assign(2, read_of("a", kBatchBytesMax, {0, kBatchBytesMax / 2}));
  EXPECT_TRUE(decode_batch(encode_batch(requests)));
  requests.push_back(read_of("a", 9, {0, 1}));
  EXPECT_FALSE(decode_batch(encode_batch(requests)));
}

TEST(Batch, MalformedBatchesAreRejected) {
  const std::string good = record(first_record() + "}");
  EXPECT_TRUE(decode_batch(good));
  EXPECT_TRUE(decode_batch(record(first_record() + R"(,"more":{"deep":[1,{"size":7}]}})")));
  for (size_t size = 1; size < good.size(); ++size) {
    EXPECT_FALSE(decode_batch(good.substr(0, size))) << size;
  }
  for (const std::string& bad : {
           good + "x",
           record("{}"),
           record("[]"),
           record("7"),
           record(""),
           record(first_record() + R"(,"bytes":-3})"),
           record(first_record() + R"(,"bytes":3.5})"),
           record(first_record() + R"(,"bytes":"3"})"),
           record(first_record() + R"(,"bytes":0})"),
           record(first_record() + R"(,"bytes":8})"),
           record(first_record() + R"(,"key":"../a"})"),
           record(first_record() + R"(,"key":"a\u0000"})"),
           record(first_record() + R"(,"key":"\ud800"})"),
           record(first_record() + R"(,"key_base64":"!"})"),
           record(first_record() + R"(,"store":"no"})"),
           record(first_record() + R"(,"mount":"x"})"),
           record(first_record() + R"(,"offset":18446744073709551615})"),
           record(first_record() + R"(,"size":18446744073709551616})"),
           record(std::string(kBatchRecordBytesMax + 1, ' ')),
       }) {
    auto decoded = decode_batch(bad);
    ASSERT_FALSE(decoded) << bad;
    EXPECT_NE(decoded.error().message().find("of the batch"), std::string::npos)
        << decoded.error().to_string();
  }
}

TEST(Batch, AnswerMustMatchTheRequest) {
  const std::vector<PeerReadRequest> requests = {read_of("a", 9, {0, 3}), read_of("b", 9, {0, 3})};
  auto decode = [&](const BatchAnswer& answer) {
    return decode_batch_answer(encode_batch_answer(answer, false), requests).has_value();
  };
  const Bytes three = Bytes::copy_of("xyz");
  EXPECT_TRUE(decode({three, three}));
  EXPECT_FALSE(decode({three}));
  EXPECT_FALSE(decode({three, three, three}));
  EXPECT_FALSE(decode({three, Bytes::copy_of("xy")}));
  EXPECT_FALSE(decode({three, Bytes::copy_of("vxyz")}));
  const std::string text = encode_batch_answer({three, three}, false).to_string();
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(decode_batch_answer(Bytes::copy_of(text.substr(0, size)), requests)) << size;
  }
}

}  // namespace
}  // namespace leat
