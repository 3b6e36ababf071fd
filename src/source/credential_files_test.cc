// SPDX-License-Identifier: Apache-2.0
// Tests credentials of one mount: in a separate file, replaced while the store is open.
#include <gmock/gmock.h>

#include <array>
#include <map>

#include "source/aws_test.h"
#include "source/azurite_test.h"
#include "source/source.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using testing::AzuriteServer;
using ::testing::HasSubstr;
using testing::kSize;
using testing::lawful;
using testing::LyingServer;
using ::testing::Not;
using testing::refusal;
using testing::StoreReader;

class CredentialFiles : public testing::AwsTest {
 protected:
  // Replaces the file atomically, as tools do.
  std::string write(const std::string& text, const std::string& name = "own") {
    std::ofstream(folder_ / "new") << text;
    std::filesystem::rename(folder_ / "new", folder_ / name);
    return folder_ / name;
  }
  OpendalConfig config(const std::string& scheme, const std::string& file) const {
    OpendalConfig config;
    config.scheme = scheme;
    config.bucket = "bucket";
    config.endpoint = server_.endpoint();
    config.options["credentials"] = file;
    return config;
  }
  // Serves requests that contain `secret`, and rejects all others.
  LyingServer::Script serve_with(const std::string& secret) {
    return [secret](const LyingServer::Exchange& exchange) {
      bool known = exchange.request.contains(secret);
      exchange.send(known ? lawful(0, kSize) : refusal("403 Forbidden", "AuthenticationFailed"));
      exchange.keep();
    };
  }
  // A store that rejects requests gets a new credential once a second.
  bool reads_in_time(StoreReader& reader) {
    for (auto end = std::chrono::steady_clock::now() + 20s; std::chrono::steady_clock::now() < end;
         poll(nullptr, 0, 50)) {
      if (reader.read(0, kSize)) return true;
    }
    return false;
  }
};

TEST_F(CredentialFiles, OfAzureAreReadAgainWhenTheStoreRefuses) {
  reader_.config = config("az", write("AZURE_STORAGE_SAS_TOKEN='sv=2020-01-01&sig=OLD'\n"));
  reader_.config.options["account"] = "account";
  server_.then(serve_with("sig=OLD"));
  // Replaced during the read: an earlier replacement might be found before it.
  server_.then([this](const LyingServer::Exchange& exchange) {
    write("# rotated\nexport AZURE_STORAGE_SAS_TOKEN=\"sv=2020-01-01&sig=NEW\"\n");
    serve_with("sig=NEW")(exchange);
  });
  server_.then(serve_with("sig=NEW"));
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_EQ(server_.requests().size(), 3u);
}

TEST_F(CredentialFiles, OfAzureAgainstARealServer) {
  auto azurite = AzuriteServer::start();
  ASSERT_TRUE(azurite) << AzuriteServer::kHowToGetIt;
  azurite->put("key", testing::content(0, kSize));
  auto text = [](const char* key) { return fmt::format("AZURE_STORAGE_ACCOUNT_KEY={}\n", key); };
  StoreReader other(azurite->endpoint());
  for (StoreReader* reader : {&reader_, &other}) {
    reader->config = config("az", write(text(AzuriteServer::kKey), "good"));
    reader->config.endpoint = azurite->endpoint();
    reader->config.options["account"] = AzuriteServer::kAccount;
  }
  reader_.config.options["credentials"] = write(text("bm90IHRoZSBrZXk="));
  EXPECT_EQ(reader_.failure(0, kSize).code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(other.reads(0, kSize));
  write(text(AzuriteServer::kKey));
  EXPECT_TRUE(reads_in_time(reader_));
  // Conversely, a key that still works is no longer used.
  write(text("bm90IHRoZSBrZXk="));
  bool refused = false;
  for (int i = 0; i < 400 && !refused; ++i, poll(nullptr, 0, 50)) {
    Result<std::string> got = reader_.read(0, kSize);
    refused = !got && got.error().code() == StatusCode::kPermissionDenied;
  }
  EXPECT_TRUE(refused);
  EXPECT_TRUE(other.reads(0, kSize));
}

TEST_F(CredentialFiles, OfGoogleAreReadAgainWhenTheStoreRefuses) {
  LyingServer tokens;
  auto as_token = [](const std::string& token) {
    std::string body =
        fmt::format(R"({{"access_token":"{}","token_type":"Bearer","expires_in":3600}})", token);
    return fmt::format(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
        body.size(), body);
  };
  tokens.then_send(as_token("OLD"));
  tokens.then_send(as_token("NEW"));
  write("subject", "subject");
  reader_.config = config(
      "gs",
      write(fmt::format(R"({{"type":"external_account","audience":"a","token_url":"{}/token",)"
                        R"("subject_token_type":"urn:ietf:params:oauth:token-type:jwt",)"
                        R"("credential_source":{{"file":"{}","format":{{"type":"text"}}}}}})",
                        tokens.endpoint(), (folder_ / "subject").string())));
  server_.then(serve_with("Bearer OLD"));
  server_.then(serve_with("Bearer NEW"));
  // The token is requested within a read, and does not belong to it.
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_EQ(tokens.requests().size(), 2u);
}

TEST_F(CredentialFiles, OfGoogleThatAreGoneAreNobodyElses) {
  set("GOOGLE_APPLICATION_CREDENTIALS", write("{}"));
  reader_.config = config("gs", folder_ / "gone");
  EXPECT_EQ(reader_.failure(0, kSize).code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(CredentialFiles, OfS3AreOneMountsOwn) {
  set_keys();
  StoreReader other(server_.endpoint());
  other.config = reader_.config;
  reader_.config.options["credentials"] = write(
      "[default]\naws_access_key_id = OWN\naws_secret_access_key = s3cret\n"
      "[team]\naws_access_key_id = TEAM\naws_secret_access_key = s3cret\n");
  server_.then(serve_only("OWN"));
  server_.then(serve_only("AKIDENV"));
  server_.then(serve_only("TEAM"));
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_TRUE(other.reads(0, kSize));
  StoreReader team(server_.endpoint());
  team.config = reader_.config;
  team.config.options["profile"] = "team";
  EXPECT_TRUE(team.reads(0, kSize));
}

TEST_F(CredentialFiles, OfWebhdfsHoldADelegationToken) {
  reader_.config = config("webhdfs", write("WEBHDFS_DELEGATION_TOKEN=OLD\n"));
  server_.then(serve_with("delegation=OLD"));
  server_.then(serve_with("delegation=NEW"));
  EXPECT_TRUE(reader_.reads(0, kSize));
  write("WEBHDFS_DELEGATION_TOKEN=NEW\n");
  EXPECT_TRUE(reader_.reads(0, kSize));
}

// Run by the test below, with a proxy for every name.
TEST_F(CredentialFiles, ChildThatAsksRegionalStores) {
  if (std::getenv("LEAT_TEST_REGIONAL") == nullptr) return;
  for (const auto& [scheme, text] : std::map<std::string, std::string>{
           {"oss", "ALIBABA_CLOUD_ACCESS_KEY_ID=OSSKEY\nALIBABA_CLOUD_ACCESS_KEY_SECRET=s\n"},
           {"cos", "TENCENTCLOUD_SECRET_ID=COSKEY\nTENCENTCLOUD_SECRET_KEY=s\n"},
           {"obs", "HUAWEI_CLOUD_ACCESS_KEY_ID=OBSKEY\nHUAWEI_CLOUD_SECRET_ACCESS_KEY=s\n"}}) {
    StoreReader reader("");
    reader.config = config(scheme, write(text));
    reader.config.endpoint = fmt::format("http://{}.invalid", scheme);
    EXPECT_TRUE(reader.reads(0, kSize)) << scheme;
  }
}

TEST_F(CredentialFiles, OfRegionalStoresSignWhatIsAsked) {
  server_.then_send_and_keep(lawful(0, kSize));
  auto child = testing::run_again(
      "CredentialFiles.ChildThatAsksRegionalStores",
      {"LEAT_TEST_REGIONAL=1", "http_proxy=" + server_.endpoint(), "NO_PROXY", "no_proxy"});
  EXPECT_EQ(child.status, 0) << child.output;
  const std::vector<std::string> requests = server_.requests();
  ASSERT_EQ(requests.size(), 3u);
  // In the order of the schemes.
  for (size_t i = 0; i < 3; ++i) {
    const char* key = std::array{"COSKEY", "OBSKEY", "OSSKEY"}[i];
    EXPECT_THAT(testing::header(requests[i], "authorization").value_or(""), HasSubstr(key));
  }
}

TEST_F(CredentialFiles, ACustomersKeyThatIsReplacedIsTakenUp) {
  set_keys();
  reader_.config.options["sse_customer_key_file"] = write(std::string(32, 'a'));
  server_.then_send_and_keep(lawful(0, kSize));
  EXPECT_TRUE(reader_.reads(0, kSize));
  server_.then(serve_with("YmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmI="));
  write(std::string(32, 'b'));
  EXPECT_TRUE(reads_in_time(reader_));
}

TEST_F(CredentialFiles, DeniedReadIsNotRetried) {
  reader_.config = config("az", write("AZURE_STORAGE_SAS_TOKEN=sv=2020-01-01&sig=ONLY\n"));
  reader_.config.options["account"] = "account";
  server_.then_send_and_keep(refusal("403 Forbidden", "AuthorizationFailure"));
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(reader_.failure(0, kSize).code(), StatusCode::kPermissionDenied);
  }
  auto seconds = std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() - start);
  EXPECT_LE(server_.requests().size(), 20u + static_cast<size_t>(seconds.count()));
}

TEST_F(CredentialFiles, AnEnvironmentThatIsNotTextIsSaid) {
  set("LEAT_TEST_NOT_TEXT", "\xff\xfe");
  auto opened = OpendalSource::open(config("gs", write("{}")));
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().to_string(), HasSubstr("LEAT_TEST_NOT_TEXT is not UTF-8"));
}

TEST_F(CredentialFiles, WhatTheyHoldStandsInNoMessage) {
  auto refused = [&](const std::string& scheme, const std::string& text) {
    OpendalConfig asked = config(scheme, write(text));
    asked.options["bucket_id"] = "id";
    auto opened = OpendalSource::open(asked);
    EXPECT_FALSE(opened);
    return opened ? "" : opened.error().to_string();
  };
  std::string text = refused("az", "AZURE_STORAGE_ACCOUNT_KEY=x\nHUSH\n");
  EXPECT_THAT(text, HasSubstr("line 2 of credentials"));
  EXPECT_THAT(text, Not(HasSubstr("HUSH")));
  for (const char* scheme : {"oss", "cos", "obs", "b2"}) {
    text = refused(scheme, "SECRET=HUSH\n");
    EXPECT_THAT(text, HasSubstr(" have no "));
    EXPECT_THAT(text, Not(HasSubstr("HUSH")));
  }
  EXPECT_THAT(OpendalSource::open(config("obs", "/none/there")).error().to_string(),
              HasSubstr("cannot read credentials /none/there"));
  // Azure's and HDFS's credentials are in the URLs.
  for (const std::string& answer :
       {refusal("403 Forbidden", "AuthenticationFailed",
                "<AuthenticationErrorDetail>Signature "
                "HUSH</AuthenticationErrorDetail>"),
        std::string("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 8\r\n\r\nsig=HUSH"),
        std::string("nonsense"), std::string()}) {
    for (const char* scheme : {"az", "webhdfs"}) {
      LyingServer server;
      StoreReader reader(server.endpoint());
      reader.config = config(scheme, write("AZURE_STORAGE_SAS_TOKEN=sv=2020-01-01&sig=HUSH\n"
                                           "WEBHDFS_DELEGATION_TOKEN=HUSH\n"));
      reader.config.endpoint = server.endpoint();
      reader.config.options["account"] = "account";
      server.then_send(answer);
      EXPECT_THAT(reader.failure(0, kSize).to_string(), Not(HasSubstr("HUSH")));
      auto listed = reader.executor.block_on(reader.source().list(Context::background(), {}));
      ASSERT_FALSE(listed);
      EXPECT_THAT(listed.error().to_string(), Not(HasSubstr("HUSH")));
    }
  }
}

}  // namespace
}  // namespace leat
