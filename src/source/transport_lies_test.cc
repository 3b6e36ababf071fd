// SPDX-License-Identifier: Apache-2.0
// Tests false or ambiguous responses: each is an error.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "source/lying_server_test.h"
#include "source/store_reader_test.h"

namespace leat {
namespace {

using ::testing::HasSubstr;
using testing::lawful;
using testing::LyingServer;
using testing::partial_head;
using testing::StoreReader;

using Exchange = LyingServer::Exchange;

constexpr uint64_t kSize = 16;

struct Lie {
  const char* name;
  std::string answer;
  const char* said = "";  // part of the message
  StatusCode code = StatusCode::kUnavailable;
};

void PrintTo(const Lie& lie, std::ostream* out) {
  *out << lie.name;
}

std::string with_head(std::string_view lines, std::string_view body = "0123456789abcdef") {
  return fmt::format("{}{}\r\n{}", partial_head(0, kSize), lines, body);
}

std::string chunked(std::string_view body) {
  return with_head("Transfer-Encoding: chunked\r\n", body);
}

std::vector<Lie> lies() {
  const std::string kNul(1, '\0');
  const std::string kBody = "0123456789abcdef";
  return {
      {"Short", with_head("Content-Length: 16\r\n", "01234567")},
      {"ShortUntilClose", with_head("", "01234567"), "ended after 8 of 16 bytes"},
      {"LongUntilClose", with_head("", kBody + "X")},
      {"ShorterLength", with_head("Content-Length: 15\r\n")},
      {"LongerLength", with_head("Content-Length: 17\r\n", kBody + "X")},
      {"TwoLengths", with_head("Content-Length: 16\r\nContent-Length: 17\r\n")},
      {"AListOfLengths", with_head("Content-Length: 16, 17\r\n")},
      {"NegativeLength", with_head("Content-Length: -16\r\n")},
      {"SignedLength", with_head("Content-Length: +16\r\n")},
      {"EmptyLength", with_head("Content-Length: \r\n")},
      {"HexLength", with_head("Content-Length: 0x10\r\n")},
      {"HugeLength", with_head("Content-Length: 99999999999999999999999999\r\n")},
      {"LargestLength", with_head("Content-Length: 18446744073709551615\r\n")},
      {"WordLength", with_head("Content-Length: sixteen\r\n")},
      {"ChunksTooShort", chunked("8\r\n01234567\r\n0\r\n\r\n"), "of 16 bytes"},
      {"ChunksTooLong", chunked("10\r\n0123456789abcdef\r\n1\r\nX\r\n0\r\n\r\n")},
      {"OneChunkTooLong", chunked("11\r\n0123456789abcdefX\r\n0\r\n\r\n")},
      {"AChunkBeyondItsSize", chunked("8\r\n01234567XX\r\n8\r\n89abcdef\r\n0\r\n\r\n")},
      {"ChunkSizeOfWords", chunked("sixteen\r\n0123456789abcdef\r\n0\r\n\r\n")},
      {"NegativeChunkSize", chunked("-10\r\n0123456789abcdef\r\n0\r\n\r\n")},
      {"HugeChunkSize", chunked("fffffffffffffffff\r\n0123456789abcdef\r\n0\r\n\r\n")},
      {"LargestChunkSize", chunked("ffffffffffffffff\r\n0123456789abcdefX")},
      {"NoChunkSize", chunked("\r\n0123456789abcdef\r\n0\r\n\r\n")},
      {"NoLastChunk", chunked("10\r\n0123456789abcdef\r\n")},
      {"NoEndOfTrailers", chunked("10\r\n0123456789abcdef\r\n0\r\nX: y\r\n")},
      {"EndlessTrailers", chunked("10\r\n0123456789abcdef\r\n0\r\n" + std::string(200'000, 'x'))},
      {"ManyTrailers", chunked("10\r\n0123456789abcdef\r\n0\r\n" +
                               [] {
                                 std::string lines;
                                 for (int i = 0; i < 30'000; ++i) lines += "X: y\r\n";
                                 return lines;
                               }())},
      {"EndlessChunkExtension", chunked("10;" + std::string(200'000, 'x'))},
      {"HeadTooLarge", partial_head(0, kSize) + "X: " + std::string(70'000, 'x')},
      {"TooManyHeaders", with_head([] {
         std::string lines = "Content-Length: 16\r\n";
         for (int i = 0; i < 1000; ++i) lines += "X: y\r\n";
         return lines;
       }())},
      {"EndlessInterimAnswers",
       [] {
         std::string text;
         for (int i = 0; i < 100; ++i) text += "HTTP/1.1 102 Processing\r\n\r\n";
         return text;
       }()},
      {"NotHttp", "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n\r\n"},
      {"NoStatus", "HTTP/1.1 \r\n\r\n"},
      {"StatusOfWords", "HTTP/1.1 OK 206\r\n\r\n"},
      {"StatusTooLong", "HTTP/1.1 2066 Partial\r\n\r\n"},
      {"StatusZero", "HTTP/1.1 000 Nothing\r\nContent-Length: 16\r\n\r\n" + kBody},
      {"AnotherVersion", "HTTP/3.0 206 Partial\r\nContent-Length: 16\r\n\r\n" + kBody},
      {"NulInHeader", with_head("X: a" + kNul + "b\r\nContent-Length: 16\r\n")},
      {"NulInName", with_head("X" + kNul + "Y: b\r\nContent-Length: 16\r\n")},
      {"NulInStatusLine", "HTTP/1.1 206 Par" + kNul + "tial\r\nContent-Length: 16\r\n\r\n" + kBody},
      {"Nuls", std::string(1000, '\0')},
      {"HeaderWithoutColon", with_head("Content-Length 16\r\n")},
      {"SpaceBeforeColon", with_head("Content-Length : 16\r\n")},
      {"NothingAtAll", ""},
      {"NoContentRange", "HTTP/1.1 206 Partial Content\r\nContent-Length: 16\r\n\r\n" + kBody,
       "range ''"},
      {"AnotherRange",
       [&] {
         std::string answer = with_head("Content-Length: 16\r\n");
         return answer.replace(answer.find("0-15/"), 5, "1-16/");
       }(),
       "range 'bytes 1-16/"},
      {"ShorterRange",
       [&] {
         std::string answer = with_head("Content-Length: 15\r\n");
         return answer.replace(answer.find("0-15/"), 5, "0-14/");
       }()},
      {"TwoContentRanges", with_head("Content-Range: bytes 1-16/99\r\nContent-Length: 16\r\n")},
      {"WholeObject", "HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n" + kBody + "X",
       "ignored the range", StatusCode::kUnsupported},
      {"WholeObjectInChunks",
       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n" + kBody + "\r\n0\r\n\r\n",
       "ignored the range", StatusCode::kUnsupported},
      {"AnotherSuccess", "HTTP/1.1 203 Transformed\r\nContent-Length: 16\r\n\r\n" + kBody, "203"},
      {"NoContent", "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", "204"},
  };
}

class LieTest : public ::testing::TestWithParam<Lie> {
 protected:
  LieTest() {
    server_.then([](const Exchange& exchange) {
      exchange.send(GetParam().answer);
      // Not a reset, which would drop bytes in flight.
      shutdown(exchange.fd, SHUT_WR);
      exchange.stall();
    });
  }
  LyingServer server_;
  StoreReader reader_{server_.endpoint()};
};

TEST_P(LieTest, IsAnError) {
  Status status = reader_.failure(0, kSize);
  EXPECT_EQ(status.code(), GetParam().code) << status.to_string();
  EXPECT_THAT(status.to_string(), HasSubstr(GetParam().said));
  EXPECT_THAT(status.to_string(), HasSubstr("cannot read 16 bytes at 0 of s3://bucket/key"));
}

// Additional promises of Leat's own transport.
class LiarsConnectionTest : public LieTest {};

TEST_P(LiarsConnectionTest, IsNotUsedAgain) {
  server_.then_send(lawful(0, kSize));
  EXPECT_EQ(reader_.failure(0, kSize).code(), GetParam().code);
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_EQ(server_.connections(), 2u);
}

std::string name_of(const ::testing::TestParamInfo<Lie>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(All, LieTest, ::testing::ValuesIn(lies()), name_of);
INSTANTIATE_TEST_SUITE_P(All, LiarsConnectionTest, ::testing::ValuesIn(lies()), name_of);

// Ambiguous responses. The stock client accepts one interpretation.
class AmbiguousTest : public ::testing::Test {
 protected:
  LyingServer server_;
  StoreReader reader_{server_.endpoint()};
};

TEST_F(AmbiguousTest, ALengthBesideChunksIsRefused) {
  server_.then_send(with_head("Content-Length: 16\r\nTransfer-Encoding: chunked\r\n",
                              "10\r\n0123456789abcdef\r\n0\r\n\r\n"));
  EXPECT_THAT(reader_.failure(0, kSize).to_string(), HasSubstr("two ways"));
}

TEST_F(AmbiguousTest, OtherCodingsAreRefused) {
  for (const char* coding : {"gzip, chunked", "gzip", "identity", "chunked, chunked"}) {
    LyingServer server;
    StoreReader reader(server.endpoint());
    server.then_send(with_head(fmt::format("Transfer-Encoding: {}\r\n", coding),
                               "10\r\n0123456789abcdef\r\n0\r\n\r\n"));
    EXPECT_EQ(reader.failure(0, kSize).code(), StatusCode::kUnavailable) << coding;
  }
}

TEST_F(AmbiguousTest, TwoEqualLengthsAreRefused) {
  server_.then_send(with_head("Content-Length: 16\r\nContent-Length: 16\r\n"));
  EXPECT_THAT(reader_.failure(0, kSize).to_string(), HasSubstr("two lengths"));
}

TEST_F(AmbiguousTest, AnotherProtocolIsRefused) {
  server_.then([](const Exchange& exchange) {
    exchange.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\n\r\n");
    exchange.stall();
  });
  EXPECT_THAT(reader_.failure(0, kSize).to_string(), HasSubstr("101"));
}

}  // namespace
}  // namespace leat
