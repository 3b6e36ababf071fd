// SPDX-License-Identifier: Apache-2.0
// Tests reads from a store without ETags: size and time are the version. A response that shows both
// costs one request; otherwise a stat before and one after the read compare them.
#include <gmock/gmock.h>

#include <string>

#include "source/nginx_test.h"
#include "source/shim/leat_store.h"
#include "source/store_reader_test.h"

namespace leat {
namespace {

using testing::content;
using testing::LyingServer;
using testing::StoreReader;

constexpr uint64_t kSize = 16;
constexpr char kTime[] = "Fri, 02 Jan 2026 03:04:05 GMT";
constexpr char kLaterTime[] = "Fri, 02 Jan 2026 03:04:06 GMT";

std::string time_line(std::string_view time) {
  return time.empty() ? "" : fmt::format("Last-Modified: {}\r\n", time);
}

std::string head(uint64_t size, std::string_view time = kTime) {
  return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n", size,
                     time_line(time));
}

// The first kSize bytes of an object of `total` bytes.
std::string part(std::string_view total, std::string_view time = kTime) {
  return fmt::format(
      "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-15/{}\r\n{}Content-Length: 16\r\n"
      "Connection: close\r\n\r\n{}",
      total, time_line(time), content(0, kSize));
}

class UnversionedObjects : public ::testing::Test {
 protected:
  UnversionedObjects() {
    reader_.config.scheme = "http";
    reader_.object_size = kSize;
  }

  // A read of that version.
  Result<std::string> read() { return reader_.read(0, kSize, "key", version_); }
  StatusCode failure() {
    Result<std::string> got = read();
    EXPECT_FALSE(got) << "read " << *got;
    message_ = got ? "" : got.error().to_string();
    return got ? StatusCode::kInternal : got.error().code();
  }
  // "HGH": the methods of the requests since the last call.
  std::string methods() {
    std::string letters;
    const std::vector<std::string> requests = server_.requests();
    for (; counted_ < requests.size(); ++counted_) letters += requests[counted_][0];
    return letters;
  }

  LyingServer server_;
  StoreReader reader_{server_.endpoint()};
  const Version version_ = Version::size_mtime(kSize, 1'767'323'045'000'000'000);  // kTime
  std::string message_;
  size_t counted_ = 0;
};

TEST_F(UnversionedObjects, ReadIsOneRequest) {
  server_.then_send(part("16"));
  server_.then_send(part("16"));
  EXPECT_EQ(read(), content(0, kSize));
  EXPECT_EQ(read(), content(0, kSize));
  EXPECT_EQ(methods(), "GG");
}

// Long enough to be written in place while it is sent.
TEST_F(UnversionedObjects, LargeReadIsComparedAfterwards) {
  constexpr uint64_t kLarge = 2 * kSmallRequestBytes;
  const Version version = Version::size_mtime(kLarge, 1'767'323'045'000'000'000);
  reader_.object_size = kLarge;
  const std::string response = fmt::format(
      "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-{}/{}\r\n{}Content-Length: {}\r\n"
      "Connection: close\r\n\r\n{}",
      kLarge - 1, kLarge, time_line(kTime), kLarge, content(0, kLarge));
  for (std::string_view time : {kTime, kLaterTime}) {
    server_.then_send(response);
    server_.then_send(head(kLarge, time));
  }
  EXPECT_EQ(reader_.read(0, kLarge, "key", version), content(0, kLarge));
  auto changed = reader_.read(0, kLarge, "key", version);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code(), StatusCode::kVersionChanged);
  EXPECT_EQ(methods(), "GHGH");
}

TEST_F(UnversionedObjects, ResponseOfALaterTimeIsAChange) {
  server_.then_send(part("16", kLaterTime));
  EXPECT_EQ(failure(), StatusCode::kVersionChanged);
  EXPECT_THAT(message_, ::testing::HasSubstr(kLaterTime));
  EXPECT_EQ(methods(), "G");
}

TEST_F(UnversionedObjects, ResponseWithoutTimeIsCompared) {
  server_.then_send(part("16", ""));
  server_.then_send(head(kSize));
  server_.then_send(part("16", ""));
  server_.then_send(head(kSize));
  server_.then_send(head(kSize));
  server_.then_send(part("16", ""));
  server_.then_send(head(kSize, kLaterTime));
  EXPECT_EQ(read(), content(0, kSize));
  EXPECT_EQ(methods(), "GHGH");
  EXPECT_EQ(failure(), StatusCode::kVersionChanged);
  EXPECT_EQ(methods(), "HGH") << "the store is known to show no version";
}

TEST_F(UnversionedObjects, ResponseWithoutSizeIsCompared) {
  server_.then_send(part("*"));
  server_.then_send(head(kSize));
  server_.then_send(part("*"));
  server_.then_send(head(kSize));
  EXPECT_EQ(read(), content(0, kSize));
  EXPECT_EQ(methods(), "GHGH");
}

// Only a stat distinguishes a change from a server that unpacks.
TEST_F(UnversionedObjects, ChangeOfSizeIsAChange) {
  for (uint64_t size_after : {kSize, uint64_t{1000}}) {
    server_.then_send(part("1000"));
    server_.then_send(head(kSize));
    server_.then_send(part("1000"));
    server_.then_send(head(size_after));
  }
  EXPECT_EQ(failure(), StatusCode::kUnsupported);
  EXPECT_EQ(failure(), StatusCode::kVersionChanged);
  EXPECT_EQ(methods(), "GHGHGHGH");
}

TEST_F(UnversionedObjects, ShorterObjectIsAChange) {
  server_.then_send("HTTP/1.1 416 Range Not Satisfiable\r\nConnection: close\r\n\r\n");
  server_.then_send(head(8, kLaterTime));
  EXPECT_EQ(failure(), StatusCode::kVersionChanged) << message_;
}

TEST(UnversionedServer, ReadIsOneRequest) {
  auto server = testing::NginxServer::start();
  ASSERT_TRUE(server) << testing::NginxServer::kHowToGetIt;
  server->put("key", content(0, kSize));
  StoreReader reader(server->plain_endpoint());
  reader.config.scheme = "http";
  auto found = reader.executor.block_on(reader.source().stat({}, {.key = "key"}));
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_EQ(found->version.kind, Version::Kind::kSizeMtime);
  const leat_http_traffic before = leat_http_traffic_now();
  EXPECT_EQ(reader.read(0, kSize, "key", found->version), content(0, kSize));
  const leat_http_traffic after = leat_http_traffic_now();
  EXPECT_EQ(after.requests[0] - before.requests[0], 1);
  EXPECT_EQ(after.requests[1] - before.requests[1], 0);
}

}  // namespace
}  // namespace leat
