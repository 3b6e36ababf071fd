// SPDX-License-Identifier: Apache-2.0
// Tests roles of AWS: one that STS assumes (moto's, and a scripted one), and those from a machine,
// a container, a token or a program of the user.
#include <gmock/gmock.h>

#include <openssl/evp.h>

#include "source/aws_test.h"
#include "source/moto_test.h"
#include "source/source.h"

namespace leat {
namespace {

using testing::expected_signature;
using testing::given_signature;
using ::testing::HasSubstr;
using testing::header;
using testing::key_id;
using testing::kSize;
using testing::lawful;
using testing::LyingServer;
using testing::MotoServer;
using ::testing::Not;
using testing::refusal;
using ::testing::StartsWith;

constexpr char kRole[] = "arn:aws:iam::123456789012:role/reader";

std::string ok(const std::string& body) {
  return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", body.size(), body);
}

class AssumedRole : public testing::AwsTest {
 protected:
  AssumedRole() {
    // STS rejects shorter keys.
    set("AWS_ACCESS_KEY_ID", "AKIDENVIRONMENT01");
    set("AWS_SECRET_ACCESS_KEY", "s3cretOfTheEnvironment");
    reader_.config.options["role"] = kRole;
    reader_.config.options["role_session"] = "leat";
    reader_.config.options["sts_endpoint"] = sts_.endpoint();
  }
  static std::string granted(const std::string& id, const std::string& until) {
    return ok(
        fmt::format("<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>{}"
                    "</AccessKeyId><SecretAccessKey>s3cretOf{}</SecretAccessKey><SessionToken>"
                    "t0ken</SessionToken><Expiration>{}</Expiration></Credentials>"
                    "</AssumeRoleResult></AssumeRoleResponse>",
                    id, id, until));
  }
  // So near that it has to be renewed before its next use.
  static std::string soon() {
    std::time_t end = std::time(nullptr) + 90;
    std::tm parts{};
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&end, &parts));
    return text;
  }
  LyingServer sts_;
};

TEST_F(AssumedRole, SignsTheReadsAndIsAskedOnce) {
  reader_.config.options["external_id"] = "tenant/7";
  sts_.then_send_and_keep(granted("ASIAROLE000000001", "2099-01-01T00:00:00Z"));
  server_.then(serve_only("ASIAROLE000000001"));
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_TRUE(reader_.reads(0, kSize));
  ASSERT_EQ(sts_.requests().size(), 1u);
  const std::string asked = sts_.requests()[0];
  EXPECT_THAT(asked, StartsWith("GET /?Action=AssumeRole&RoleArn=arn%3Aaws%3Aiam%3A%3A1234567890"));
  EXPECT_THAT(asked, HasSubstr("RoleSessionName=leat&ExternalId=tenant%2F7"));
  EXPECT_EQ(key_id(asked), "AKIDENVIRONMENT01");
  EXPECT_EQ(given_signature(asked), expected_signature(asked, "s3cretOfTheEnvironment"));
  const std::string read = server_.requests().back();
  EXPECT_EQ(header(read, "x-amz-security-token"), "t0ken");
  EXPECT_EQ(given_signature(read), expected_signature(read, "s3cretOfASIAROLE000000001"));
}

TEST_F(AssumedRole, IsRenewedBeforeItsEnd) {
  sts_.then_send_and_keep(granted("ASIAROLE000000001", soon()));
  sts_.then_send_and_keep(granted("ASIAROLE000000002", "2099-01-01T00:00:00Z"));
  server_.then(testing::serve);
  EXPECT_TRUE(reader_.reads(0, kSize));
  // While the old credential is valid, no request waits for the new one.
  EXPECT_TRUE(reader_.reads(0, kSize));
  sts_.await_requests(2);
  while (key_id(server_.requests().back()) != "ASIAROLE000000002") {
    ASSERT_TRUE(reader_.reads(0, kSize));
  }
  EXPECT_EQ(sts_.requests().size(), 2u);
}

TEST_F(AssumedRole, IsAssumedAnewWhenTheStoreRefusesIt) {
  sts_.then_send_and_keep(granted("ASIAROLE000000001", "2099-01-01T00:00:00Z"));
  sts_.then_send_and_keep(granted("ASIAROLE000000002", "2099-01-01T00:00:00Z"));
  server_.then(serve_only("ASIAROLE000000001"));
  server_.then(serve_only("ASIAROLE000000002"));
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_TRUE(reader_.reads(0, kSize));
}

TEST_F(AssumedRole, WhoseBaseIsReplacedIsAssumedByTheNewOne) {
  unsetenv("AWS_ACCESS_KEY_ID");
  write_file("AKIDFILE000000OLD");
  sts_.then_send_and_keep(granted("ASIAROLE000000001", soon()));
  sts_.then([&](const LyingServer::Exchange& exchange) {
    bool known = key_id(exchange.request) == "AKIDFILE000000NEW";
    exchange.send(known ? granted("ASIAROLE000000001", "2099-01-01T00:00:00Z")
                        : refusal("403 Forbidden", "InvalidClientTokenId"));
    exchange.keep();
  });
  server_.then(serve_only("ASIAROLE000000001"));
  EXPECT_TRUE(reader_.reads(0, kSize));
  write_file("AKIDFILE000000NEW");
  EXPECT_TRUE(reader_.reads(0, kSize));
  sts_.await_requests(3);
  EXPECT_EQ(sts_.requests().size(), 3u);
  EXPECT_TRUE(reader_.reads(0, kSize));
}

TEST_F(AssumedRole, ThatIsRefusedSaysWhy) {
  sts_.then_send(
      "HTTP/1.1 403 Forbidden\r\nContent-Length: 124\r\n\r\n"
      "<ErrorResponse><Error><Code>AccessDenied</Code><Message>not authorized to perform "
      "sts:AssumeRole</Message></Error></ErrorResponse>");
  Status status = reader_.failure(0, kSize);
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.to_string(), HasSubstr("not authorized to perform sts:AssumeRole"));
  EXPECT_THAT(status.to_string(), Not(HasSubstr("s3cret")));
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(AssumedRole, IsWaitedForWhileStsIsNotThere) {
  sts_.then_send("");
  EXPECT_EQ(reader_.failure(0, kSize).code(), StatusCode::kUnavailable);
}

TEST_F(AssumedRole, ByARealServer) {
  auto moto = MotoServer::start();
  ASSERT_TRUE(moto) << MotoServer::kHowToGetIt;
  moto->put("key", testing::content(0, kSize));
  set("AWS_ENDPOINT_URL_STS", moto->endpoint());
  for (const std::string& store : {server_.endpoint(), moto->endpoint()}) {
    auto url = StoreUrl::parse(fmt::format(
        "s3://bucket?endpoint={}&role={}&external_id=tenant&region=eu-west-1", store, kRole));
    SourcePtr source = open_source(url.value()).value();
    server_.then_send_and_keep(lawful(0, kSize));
    std::string into(kSize, '?');
    auto read = source->read(Context::background(), {"key", {0, kSize}, {}, {}},
                             std::as_writable_bytes(std::span(into)));
    auto done = reader_.executor.block_on(std::move(read));
    EXPECT_TRUE(done) << done.error().to_string();
    EXPECT_EQ(into, testing::content(0, kSize));
  }
  EXPECT_THAT(key_id(server_.requests().at(0)), StartsWith("ASIA"));
  EXPECT_TRUE(header(server_.requests()[0], "x-amz-security-token"));
}

// --- handed out by something else ---

using HandedOut = testing::AwsTest;

constexpr char kLasting[] =
    R"({{"Code":"Success","AccessKeyId":"{0}","SecretAccessKey":"s3cret","Token":"t0ken",)"
    R"("Expiration":"2099-01-01T00:00:00Z"}})";

TEST_F(HandedOut, ByTheMachine) {
  LyingServer machine;
  set("AWS_EC2_METADATA_DISABLED", "false");
  set("AWS_EC2_METADATA_SERVICE_ENDPOINT", machine.endpoint());
  set("HOME", folder_);
  machine.then_send_and_keep(ok("session"));
  machine.then_send_and_keep(ok("itsrole"));
  machine.then_send_and_keep(ok(fmt::format(kLasting, "MACHINE")));
  server_.then(serve_only("MACHINE"));
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_TRUE(reader_.reads(0, kSize));
  auto asked = machine.requests();
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_THAT(asked[0], StartsWith("PUT /latest/api/token "));
  EXPECT_THAT(asked[2], StartsWith("GET /latest/meta-data/iam/security-credentials/itsrole "));
  for (int i : {1, 2}) EXPECT_EQ(header(asked[i], "x-aws-ec2-metadata-token"), "session");
}

TEST_F(HandedOut, ByAContainer) {
  LyingServer container;
  set("AWS_CONTAINER_CREDENTIALS_FULL_URI", container.endpoint() + "/role");
  std::ofstream(folder_ / "token") << "pass\n";
  set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", folder_ / "token");
  container.then_send(ok(fmt::format(kLasting, "CONTAINER")));
  server_.then(serve_only("CONTAINER"));
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_EQ(header(container.requests().at(0), "authorization"), "pass");
}

TEST_F(HandedOut, ForAWebIdentity) {
  auto moto = MotoServer::start();
  ASSERT_TRUE(moto) << MotoServer::kHowToGetIt;
  std::ofstream(folder_ / "token") << "identity";
  set("AWS_WEB_IDENTITY_TOKEN_FILE", folder_ / "token");
  set("AWS_ROLE_ARN", kRole);
  reader_.config.options["sts_endpoint"] = moto->endpoint();
  server_.then_send_and_keep(lawful(0, kSize));
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_THAT(key_id(server_.requests().at(0)), StartsWith("ASIA"));
}

TEST_F(HandedOut, ByASingleSignOn) {
  LyingServer portal;
  set("AWS_SSO_ENDPOINT", portal.endpoint() + "/federation/credentials");
  set("HOME", folder_);
  std::ofstream(folder_ / "config")
      << "[profile team]\nsso_start_url = https://team.invalid/start\nsso_region = us-east-1\n"
         "sso_account_id = 123456789012\nsso_role_name = Reader\n";
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  const std::string start = "https://team.invalid/start";
  EVP_Digest(start.data(), start.size(), hash, &size, EVP_sha1(), nullptr);
  std::string name;
  for (unsigned i = 0; i < size; ++i) name += fmt::format("{:02x}", hash[i]);
  std::filesystem::create_directories(folder_ / ".aws/sso/cache");
  std::ofstream(folder_ / ".aws/sso/cache" / (name + ".json"))
      << R"({"accessToken":"b3arer","expiresAt":"2099-01-01T00:00:00Z"})";
  reader_.config.options["profile"] = "team";
  portal.then_send(ok(R"({"roleCredentials":{"accessKeyId":"SSO","secretAccessKey":"s3cret",)"
                      R"("sessionToken":"t0ken","expiration":4070908800000}})"));
  server_.then(serve_only("SSO"));
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_EQ(header(portal.requests().at(0), "x-amz-sso_bearer_token"), "b3arer");
}

TEST_F(HandedOut, ByAProgram) {
  std::ofstream(folder_ / "answer") << R"({"Version":1,"AccessKeyId":"PROGRAM",)"
                                       R"("SecretAccessKey":"s3cret"})";
  std::ofstream(folder_ / "config")
      << fmt::format("[default]\ncredential_process = cat {}\n", (folder_ / "answer").string());
  server_.then(serve_only("PROGRAM"));
  EXPECT_TRUE(reader_.reads(0, kSize));
}

TEST_F(HandedOut, RequestedProfilePrecedesEnvironment) {
  set_keys();
  write_file("PROFILE", "other");
  reader_.config.options["profile"] = "other";
  server_.then(serve_only("PROFILE"));
  EXPECT_TRUE(reader_.reads(0, kSize));
}

}  // namespace
}  // namespace leat
