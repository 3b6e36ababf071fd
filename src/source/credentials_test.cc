// SPDX-License-Identifier: Apache-2.0
// Tests the origin of credentials, how long they are cached, and what is signed with them.
#include <gmock/gmock.h>

#include <filesystem>

#include "source/aws_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using testing::content;
using testing::decoded;
using testing::expected_signature;
using testing::given_signature;
using ::testing::HasSubstr;
using testing::header;
using testing::key_id;
using testing::kSize;
using testing::lawful;
using testing::LyingServer;
using ::testing::Not;
using testing::refusal;
using testing::StoreReader;

using Exchange = LyingServer::Exchange;

using CredentialsTest = testing::AwsTest;

TEST_F(CredentialsTest, AFileThatIsReplacedNeedsNoRemount) {
  write_file("OLD");
  server_.then(serve_only("OLD"));
  server_.then(serve_only("NEW"));
  EXPECT_TRUE(reader_.reads(0, kSize));
  write_file("NEW");
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_EQ(server_.requests().size(), 3u);
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_EQ(server_.requests().size(), 4u);
}

TEST_F(CredentialsTest, AProfileThatIsReplacedNeedsNoRemount) {
  write_file("OLD", "other");
  reader_.config.options["profile"] = "other";
  server_.then(serve_only("OLD"));
  server_.then(serve_only("NEW"));
  EXPECT_TRUE(reader_.reads(0, kSize));
  write_file("NEW", "other");
  EXPECT_TRUE(reader_.reads(0, kSize));
}

// The service signs everything but reads.
TEST_F(CredentialsTest, AFileThatIsReplacedServesStatsAsWell) {
  write_file("OLD");
  auto known_to = [](const char* id) {
    return [id](const Exchange& exchange) {
      const bool known = key_id(exchange.request) == id;
      exchange.send(known ? "HTTP/1.1 200 OK\r\nContent-Length: 16\r\nETag: \"e\"\r\n\r\n"
                          : "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
      exchange.keep();
    };
  };
  server_.then(known_to("OLD"));
  server_.then(known_to("NEW"));
  auto stat = [&] {
    return reader_.executor.block_on(reader_.source().stat(Context::background(), {"key", {}}));
  };
  EXPECT_TRUE(stat());
  write_file("NEW");
  auto renewed = stat();
  EXPECT_TRUE(renewed) << renewed.error().to_string();
}

TEST_F(CredentialsTest, AFileThatIsBrokenForAMomentDoesNoHarm) {
  write_file("OLD");
  server_.then_send_and_keep(lawful(0, kSize));
  server_.then_send_and_keep(refusal("403 Forbidden", "AccessDenied"));
  server_.then_send_and_keep(lawful(0, kSize));
  EXPECT_TRUE(reader_.reads(0, kSize));
  std::filesystem::remove(folder_ / "credentials");
  EXPECT_EQ(reader_.failure(0, kSize).code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_EQ(key_id(server_.requests().back()), "OLD");
}

TEST_F(CredentialsTest, DeniedReadIsSentOnce) {
  write_file("ONLY");
  server_.then_send_and_keep(refusal("403 Forbidden", "AccessDenied"));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(reader_.failure(0, kSize).code(), StatusCode::kPermissionDenied);
  }
  EXPECT_EQ(server_.requests().size(), 20u);
}

TEST_F(CredentialsTest, NoneAtAll) {
  Status status = reader_.failure(0, kSize);
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.to_string(), HasSubstr("no credentials were found, so nothing was sent"));
  write_file("LATE");
  server_.then(serve_only("LATE"));
  EXPECT_TRUE(reader_.reads(0, kSize));
}

TEST_F(CredentialsTest, EmptyVariablesAreNone) {
  set("AWS_ACCESS_KEY_ID", "");
  set("AWS_SECRET_ACCESS_KEY", "");
  set("AWS_PROFILE", "");
  write_file("FILE");
  server_.then(serve_only("FILE"));
  EXPECT_TRUE(reader_.reads(0, kSize));
}

TEST_F(CredentialsTest, AnEnvironmentThatIsNotTextDoesNoHarm) {
  set("LEAT_TEST_NOT_TEXT", "\xff\xfe");
  set_keys();
  server_.then(serve_only("AKIDENV"));
  EXPECT_TRUE(reader_.reads(0, kSize));
}

// --- the machine's role ---

class RoleTest : public CredentialsTest {
 protected:
  RoleTest() { set("AWS_CONTAINER_CREDENTIALS_FULL_URI", role_.endpoint() + "/role"); }
  std::string as_role(const std::string& id) {
    std::string body = fmt::format(
        "{{\"AccessKeyId\":\"{}\",\"SecretAccessKey\":\"s3cretOfRole\",\"Token\":\"t0ken\","
        "\"Expiration\":\"2099-01-01T00:00:00Z\"}}",
        id);
    return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", body.size(), body);
  }
  LyingServer role_;
};

TEST_F(RoleTest, GivesTheCredentialsOfReads) {
  role_.then_send(as_role("ROLE"));
  server_.then(serve_only("ROLE"));
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_EQ(role_.requests().size(), 1u);
  EXPECT_THAT(role_.requests()[0], Not(HasSubstr("authorization")));
  EXPECT_EQ(header(server_.requests()[0], "x-amz-security-token"), "t0ken");
}

TEST_F(RoleTest, IsQueriedAgainAfterADenial) {
  role_.then_send(as_role("FIRST"));
  role_.then_send(as_role("SECOND"));
  server_.then(serve_only("FIRST"));
  server_.then_send_and_keep(refusal("400 Bad Request", "ExpiredToken"));
  server_.then(serve_only("SECOND"));
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_EQ(role_.requests().size(), 2u);
}

TEST_F(RoleTest, IsAskedOnceForManyWhoWait) {
  std::promise<void> asked;
  std::promise<void> go;
  role_.then([&](const Exchange& exchange) {
    asked.set_value();
    go.get_future().wait();
    exchange.send(as_role("ROLE"));
  });
  role_.then_send(as_role("ANOTHER"));
  server_.then(serve_only("ROLE"));
  std::vector<std::string> buffers(20, std::string(kSize, '?'));
  std::vector<std::future<Result<>>> reads;
  for (std::string& into : buffers) {
    auto task =
        reader_.source().read(Context::background().with_timeout(10s), {"key", {0, kSize}, {}, {}},
                              std::as_writable_bytes(std::span(into)));
    reads.push_back(
        boost::asio::co_spawn(reader_.executor.any(), std::move(task), boost::asio::use_future));
  }
  asked.get_future().wait();
  go.set_value();
  for (auto& read : reads) EXPECT_TRUE(read.get());
  EXPECT_EQ(role_.requests().size(), 1u);
}

TEST_F(RoleTest, ThatIsSilentEndsTheAttempt) {
  role_.then([](const Exchange& exchange) { exchange.stall(); });
  reader_.timeouts.first_byte_timeout = 100ms;
  Status status = reader_.failure(0, kSize);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.to_string();
  EXPECT_THAT(status.to_string(), HasSubstr("credentials"));
}

// --- signatures ---

TEST_F(CredentialsTest, SignaturesOfAllKindsOfKeys) {
  set_keys();
  server_.then_send_and_keep(lawful(0, kSize));
  for (const char* key : {"key", "a b", "d/e f/g", "ü/日本語", "a+b", "100%", "a%20b", "a%2Fb",
                          "~x", "a?b=c", "a#b", "a&b=c", "it's(a)*!", "a=b;c@d:e$f,g",
                          "back\\slash", "\"quoted\"", "<x>|{y}^`[z]", "x-._~", "a%"}) {
    ASSERT_EQ(reader_.read(0, kSize, key), content(0, kSize)) << key;
    const std::string request = server_.requests().back();
    EXPECT_EQ(given_signature(request), expected_signature(request, "s3cretOfTheEnvironment"))
        << request;
    std::string target = request.substr(4, request.find(" HTTP/1.1") - 4);
    EXPECT_EQ(decoded(target), std::string("/bucket/") + key);
  }
}

TEST_F(CredentialsTest, SignaturesOfConditions) {
  set_keys();
  server_.then_send_and_keep(lawful(0, kSize));
  for (const char* etag : {"\"v1\"", "\"with space\"", "\"two  spaces\"", "\"a,b;c\""}) {
    ASSERT_EQ(reader_.read(0, kSize, "key", Version::etag(etag)), content(0, kSize));
    const std::string request = server_.requests().back();
    EXPECT_EQ(header(request, "if-match"), etag);
    EXPECT_EQ(given_signature(request), expected_signature(request, "s3cretOfTheEnvironment"))
        << request;
    EXPECT_THAT(request, HasSubstr("if-match;range"));
  }
}

TEST_F(CredentialsTest, ASessionTokenIsSentAndSigned) {
  set_keys("t0ken+/=");
  server_.then_send_and_keep(lawful(0, kSize));
  ASSERT_TRUE(reader_.reads(0, kSize));
  const std::string request = server_.requests().back();
  EXPECT_EQ(header(request, "x-amz-security-token"), "t0ken+/=");
  EXPECT_THAT(request, HasSubstr("x-amz-security-token, Signature="));
  EXPECT_EQ(given_signature(request), expected_signature(request, "s3cretOfTheEnvironment"));
}

TEST_F(CredentialsTest, AnEmptySessionTokenIsNotSent) {
  set_keys();
  set("AWS_SESSION_TOKEN", "");
  server_.then_send_and_keep(lawful(0, kSize));
  ASSERT_TRUE(reader_.reads(0, kSize));
  EXPECT_THAT(server_.requests().back(), Not(HasSubstr("x-amz-security-token")));
}

TEST_F(CredentialsTest, SecretsStandInNoMessage) {
  set_keys("t0kenOfTheSession");
  for (const std::string& answer :
       {refusal("403 Forbidden", "SignatureDoesNotMatch",
                "<AWSAccessKeyId>AKIDENV</AWSAccessKeyId><StringToSign>AWS4 t0kenOfTheSession"
                "</StringToSign><SignatureProvided>51Gnature</SignatureProvided>"),
        refusal("400 Bad Request", "InvalidToken", "<Token-0>t0kenOfTheSession</Token-0>"),
        std::string("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 46\r\n\r\n"
                    "x-amz-security-token: t0kenOfTheSession, sorry"),
        std::string("nonsense"), std::string()}) {
    LyingServer server;
    StoreReader reader(server.endpoint());
    reader.config.options.erase("anonymous");
    server.then_send(answer);
    std::string text = reader.failure(0, kSize).to_string();
    for (const char* secret : {"s3cret", "t0ken", "51Gnature", "AWS4", "AKIDENV", "Signature="}) {
      EXPECT_THAT(text, Not(HasSubstr(secret)));
    }
    EXPECT_THAT(text, Not(HasSubstr(given_signature(server.requests()[0]))));
  }
}

}  // namespace
}  // namespace leat
