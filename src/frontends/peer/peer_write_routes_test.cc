// SPDX-License-Identifier: Apache-2.0
// Changes of a store over real sockets: rights, the receiving process, and answers.
#include "frontends/peer/peer_write_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontends/peer/peer_server_fixture_test.h"
#include "wire/peer_error.h"

namespace leat {
namespace {

using ::testing::HasSubstr;
using testing::kSelf;
using testing::PeerServerTestBase;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class PeerWriteRoutesTest : public PeerServerTestBase {
 protected:
  std::shared_ptr<PeerClient> writer_of(const std::string& path,
                                        std::vector<Right> rights = {Right::kWrite}) {
    TokenClaims claims;
    claims.principal = "writer";
    claims.rights.add(path, std::move(rights));
    return client(claims);
  }
  PeerWrite write_of(const std::string& key) const {
    return {.mount = "/train", .store = source_->id(), .key = key};
  }
  PeerReply<SourceObject> write(PeerClient& peer, const PeerWrite& request, std::string_view text) {
    return executor_.block_on(
        peer.writes()->write(patient(), request, {.epoch = 7}, bytes_of(text)));
  }
  PeerReply<SourceObject> change(PeerClient& peer, ChangeOp op, std::vector<std::string> keys) {
    PeerChange request{.op = op, .mount = "/train", .store = source_->id()};
    request.keys = std::move(keys);
    return executor_.block_on(peer.writes()->change(patient(), std::move(request), {.epoch = 7}));
  }
  bool is_stored(const std::string& key) {
    return executor_.block_on(source_->stat(patient(), {.key = key})).has_value();
  }
  static void expect_denied(const PeerReply<SourceObject>& reply, const char* path) {
    ASSERT_FALSE(reply.result);
    EXPECT_EQ(reply.outcome, PeerOutcome::kAnswered);
    EXPECT_EQ(reply.result.error().code(), StatusCode::kPermissionDenied);
    EXPECT_THAT(reply.result.error().message(), HasSubstr(path));
    EXPECT_THAT(reply.result.error().message(), HasSubstr("ask for a token"));
  }
};

TEST_F(PeerWriteRoutesTest, WriterWrites) {
  const auto peer = writer_of("/train");
  const auto reply = write(*peer, write_of("train/a"), "text");
  ASSERT_TRUE(reply.result) << reply.result.error().to_string();
  EXPECT_EQ(reply.epoch, 7);
  EXPECT_EQ(reply.result->key, "train/a");
  EXPECT_EQ(reply.result->size, 4U);
  EXPECT_TRUE(reply.result->version.known());
  EXPECT_TRUE(is_stored("train/a"));
  EXPECT_EQ(changed_, std::vector<std::string>{"/train:train/a"});
  PeerWrite again = write_of("train/a");
  again.condition.absent = true;
  EXPECT_EQ(write(*peer, again, "x").result.error().code(), StatusCode::kExists);
}

TEST_F(PeerWriteRoutesTest, ReaderMayNotWrite) {
  const auto peer = reader_of("/train");
  expect_denied(write(*peer, write_of("train/a"), "text"), "/train/a");
  EXPECT_FALSE(is_stored("train/a"));
  source_->put("train/b", "b");
  expect_denied(change(*peer, ChangeOp::kRemove, {"train/b"}), "/train/b");
  EXPECT_TRUE(is_stored("train/b"));
}

TEST_F(PeerWriteRoutesTest, RightIsOfThePath) {
  const auto peer = writer_of("/train/out");
  EXPECT_TRUE(write(*peer, write_of("train/out/a"), "text").result);
  expect_denied(write(*peer, write_of("train/outside"), "text"), "/train/outside");
  expect_denied(change(*peer, ChangeOp::kRename, {"train/in", "train/out/b"}), "/train/in");
  expect_denied(change(*peer, ChangeOp::kRemove, {"train/out/a", "train/x"}), "/train/x");
  EXPECT_TRUE(is_stored("train/out/a"));
}

TEST_F(PeerWriteRoutesTest, CopyNeedsTheRightToRead) {
  source_->put("train/a", "a");
  expect_denied(change(*writer_of("/train"), ChangeOp::kCopy, {"train/a", "train/b"}), "/train/a");
  const auto both = writer_of("/train", {Right::kRead, Right::kWrite});
  const auto reply = change(*both, ChangeOp::kCopy, {"train/a", "train/b"});
  ASSERT_TRUE(reply.result) << reply.result.error().to_string();
  EXPECT_EQ(reply.result->key, "train/b");
}

TEST_F(PeerWriteRoutesTest, BusyStoreIsAnAnswer) {
  source_->put("train/a", "a");
  source_->fail_next(StatusCode::kBusy, 1);
  const auto reply = change(*writer_of("/train"), ChangeOp::kRename, {"train/a", "train/b"});
  EXPECT_EQ(reply.outcome, PeerOutcome::kAnswered);
  EXPECT_EQ(reply.result.error().code(), StatusCode::kBusy);
}

TEST_F(PeerWriteRoutesTest, OtherStoreIsRejected) {
  PeerWrite request = write_of("elsewhere/a");
  const auto peer = writer_of("/");
  EXPECT_EQ(write(*peer, request, "x").result.error().code(), StatusCode::kPermissionDenied);
  request = write_of("train/a");
  request.store = make_store_id("memory", "", "", "other");
  EXPECT_EQ(write(*peer, request, "x").result.error().code(), StatusCode::kPermissionDenied);
}

TEST_F(PeerWriteRoutesTest, LargeObjectIsWrittenInPieces) {
  const auto peer = writer_of("/train");
  const std::string piece(kWriteBytesMax, 'x');
  PeerWrite request = write_of("train/large");
  request.piece = WritePiece{Id128::random(), 0};
  ASSERT_TRUE(write(*peer, request, piece).result);
  EXPECT_FALSE(is_stored("train/large"));
  request.piece->offset = piece.size();
  request.piece->step = WritePiece::Step::kComplete;
  const auto reply = write(*peer, request, "end");
  ASSERT_TRUE(reply.result) << reply.result.error().to_string();
  EXPECT_EQ(reply.result->size, piece.size() + 3);
}

// A recorded write is of no use to anybody else, nor after a restart of the worker.
TEST_F(PeerWriteRoutesTest, RecordedWriteIsRejected) {
  const auto signed_write = [&](const std::string& instance) {
    HttpRequest request = to_http(write_of("train/a"), bytes_of("x"));
    put_request_header({.epoch = 7}, request);
    request.headers.set(kToField, kSelf.to_hex());
    if (!instance.empty()) request.headers.set(kInstanceField, instance);
    request.target = make_target(request.path, request.query);
    TokenClaims claims;
    claims.principal = "writer";
    claims.rights.add("/train", {Right::kWrite});
    RequestSigner(*issue(secrets()->signing(), claims)).sign(request);
    return request;
  };
  EXPECT_EQ(status_of(signed_write("")), kHttpUnsigned) << "names no process";
  const HttpRequest once = signed_write("first process");
  EXPECT_EQ(status_of(once), 200);
  EXPECT_EQ(status_of(once), kHttpUnsigned);
  HttpRequest changed = signed_write("first process");
  changed.body = "y";
  EXPECT_EQ(status_of(changed), kHttpUnsigned);
  restart();
  EXPECT_EQ(status_of(signed_write("first process")), kHttpUnsigned);
}

TEST_F(PeerWriteRoutesTest, BrokenConnectionMayHaveWritten) {
  const auto peer = writer_of("/train");
  ASSERT_TRUE(write(*peer, write_of("train/a"), "x").result);
  executor_.block_on(server_->stop());
  const auto reply = write(*peer, write_of("train/b"), "x");
  EXPECT_NE(reply.outcome, PeerOutcome::kAnswered);
  EXPECT_FALSE(reply.maybe_done) << "no connection";
  EXPECT_FALSE(is_stored("train/b"));
}

}  // namespace
}  // namespace leat
