// SPDX-License-Identifier: Apache-2.0
#include "cluster/etcd_codec.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

TEST(EtcdCodec, RequestsKeysOfAPrefix) {
  EXPECT_EQ(etcd::range_request("a/", "a/", 0, 10),
            R"({"key":"YS8=","limit":"10","range_end":"YTA="})");
  EXPECT_EQ(etcd::range_request("", "", 7, 10),
            R"({"key":"AA==","limit":"10","range_end":"AA==","revision":"7"})");
  EXPECT_EQ(etcd::range_request("a\xff", "a\xff", 0, 1),
            R"({"key":"Yf8=","limit":"1","range_end":"Yg=="})");
}

TEST(EtcdCodec, ReadsEntries) {
  auto answer = etcd::range_answer(
      R"({"header":{"revision":"9"},"kvs":[{"key":"YQ==","create_revision":"2","mod_revision":"5",)"
      R"("version":"2","value":"Yg==","lease":"7587"}],"more":true,"count":"3"})");
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_EQ(answer->view.revision, 9);
  EXPECT_TRUE(answer->more);
  const RegistryEntry expected{
      .key = "a", .value = "b", .changed = 5, .created = 2, .version = 2, .lease = 7587};
  EXPECT_EQ(answer->view.entries, std::vector{expected});
}

TEST(EtcdCodec, MalformedAnswersAreErrors) {
  for (const char* body : {"", "<html>", "[]", "{}", R"({"header":{"revision":"x"}})",
                           R"({"header":{"revision":"9"},"kvs":[{"key":"%"}]})",
                           R"({"header":{"revision":"9"},"kvs":[7]})"}) {
    auto answer = etcd::range_answer(body);
    ASSERT_FALSE(answer) << body;
    EXPECT_EQ(answer.error().code(), StatusCode::kInternal);
  }
}

TEST(EtcdCodec, WatchRevisionIsThatOfItsLastEvent) {
  auto created = etcd::watch_answer(R"({"result":{"header":{"revision":"9"},"created":true}})");
  ASSERT_TRUE(created);
  EXPECT_TRUE(created->created);
  EXPECT_EQ(created->events.revision, 0) << "what came before is still on its way";
  auto event = etcd::watch_answer(
      R"({"result":{"header":{"revision":"9"},"events":[{"type":"DELETE","kv":{"key":"YQ==",)"
      R"("mod_revision":"5"}}]}})");
  ASSERT_TRUE(event);
  EXPECT_EQ(event->events.revision, 5);
  EXPECT_EQ(event->events.events.at(0).kind, RegistryEvent::Kind::kRemoved);
  auto progress = etcd::watch_answer(R"({"result":{"header":{"revision":"12"}}})");
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->events.revision, 12);
}

TEST(EtcdCodec, EndedWatchHasAReason) {
  auto compacted = etcd::watch_answer(
      R"({"result":{"header":{"revision":"9"},"canceled":true,"compact_revision":"8"}})");
  ASSERT_TRUE(compacted && compacted->ended);
  EXPECT_EQ(compacted->ended->code(), StatusCode::kOutOfRange);
  auto lost = etcd::watch_answer(
      R"({"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader"}})");
  ASSERT_TRUE(lost && lost->ended);
  EXPECT_EQ(lost->ended->code(), StatusCode::kUnavailable);
  EXPECT_EQ(lost->ended->message(), "etcd answered: etcdserver: no leader");
}

TEST(EtcdCodec, ErrorsHaveTheirCodes) {
  EXPECT_EQ(
      etcd::decode_error(404, R"({"error":"lease not found","code":5,"message":"lease not found"})")
          .code(),
      StatusCode::kNotFound);
  EXPECT_EQ(etcd::decode_error(401, R"({"code":16,"message":"invalid auth token"})").code(),
            StatusCode::kPermissionDenied);
  EXPECT_EQ(etcd::decode_error(503, "no upstream").code(), StatusCode::kUnavailable);
  EXPECT_EQ(
      etcd::decode_error(429, R"({"code":8,"message":"mvcc: database space exceeded"})").code(),
      StatusCode::kNoSpace);
  EXPECT_EQ(etcd::decode_error(404, "404 page not found").code(), StatusCode::kUnsupported);
  EXPECT_EQ(etcd::decode_error(405, "Method Not Allowed").code(), StatusCode::kUnsupported);
  EXPECT_EQ(etcd::decode_error(400,
                               "CommonName of client sending a request against gateway will be "
                               "ignored and not used as expected\n")
                .code(),
            StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace leat
