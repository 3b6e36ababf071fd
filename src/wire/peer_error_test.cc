// SPDX-License-Identifier: Apache-2.0
#include "wire/peer_error.h"

#include <gtest/gtest.h>

#include "wire/peer_request_header.h"
#include "wire/random_test.h"

namespace leat {
namespace {

TEST(PeerError, CodeAndMessageComeBackWhateverTheyAre) {
  testing::Random random;
  for (int code = 1; code <= static_cast<int>(StatusCode::kBusy); ++code) {
    for (int i = 0; i < 20; ++i) {
      const Status status(static_cast<StatusCode>(code), random.bytes(60));
      const HttpResponse response = peer_error_response(status, 7);
      EXPECT_GE(response.status, 400);
      const Status there = decode_peer_error(response.status, response.body);
      EXPECT_EQ(there.code(), status.code());
      EXPECT_EQ(there.message(), status.message());
    }
  }
}

TEST(PeerError, IsTheDocumentedAnswer) {
  const Status busy(StatusCode::kBusy, "worker a is first at epoch 9");
  HttpResponse response = peer_error_response(busy, 9);
  EXPECT_EQ(response.status, kHttpMisdirected);
  EXPECT_EQ(epoch_of(response), 9);
  EXPECT_EQ(response.body, R"({"error":{"code":"busy","message":"worker a is first at epoch 9"}})");

  const Status missing(StatusCode::kNotFound, "not cached");
  response = peer_error_response(kHttpNotCached, missing, 9);
  EXPECT_EQ(response.status, 504);
  EXPECT_EQ(decode_peer_error(response.status, response.body).code(), StatusCode::kNotFound);
  EXPECT_EQ(peer_error_http(StatusCode::kNotFound), 404);
  EXPECT_EQ(peer_error_http(StatusCode::kVersionChanged), 409);
  EXPECT_EQ(peer_error_http(StatusCode::kOutOfRange), 416);
  EXPECT_EQ(peer_error_http(StatusCode::kThrottled), 429);
  EXPECT_EQ(peer_error_http(StatusCode::kUnavailable), 503);
}

TEST(PeerError, CausesAreInTheMessage) {
  const Status store(StatusCode::kThrottled, "503 SlowDown");
  const Status there = decode_peer_error(429, encode_peer_error(store.with_context("cannot read")));
  EXPECT_EQ(there.code(), StatusCode::kThrottled);
  EXPECT_EQ(there.message(), "cannot read: 503 SlowDown");
}

TEST(PeerError, ForeignAnswerIsUnavailable) {
  for (const char* body : {"", "<html>404</html>", "{}", "[]", "7", R"({"error":7})",
                           R"({"error":{"code":"not_found"}})", R"({"error":{"message":"x"}})",
                           R"({"error":{"code":7,"message":"x"}})",
                           R"({"error":{"code":"not_found","message_base64":"!"}})"}) {
    EXPECT_EQ(decode_peer_error(404, body).code(), StatusCode::kUnavailable) << body;
  }
  EXPECT_EQ(decode_peer_error(418, R"({"error":{"code":"newer","message":"x"}})").code(),
            StatusCode::kInternal);
}

}  // namespace
}  // namespace leat
