// SPDX-License-Identifier: Apache-2.0
// Tests the way from a URL and the environment to a source, with a server that checks signatures.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "runtime/executor.h"
#include "source/lying_server_test.h"
#include "source/stores/opendal_source.h"
#include "source/versitygw_test.h"

namespace leat {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::VersityGateway;

// Sets variables and restores them; the tests of this file own AWS_*.
class Environment {
 public:
  Environment() {
    for (const char* name :
         {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
          "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3",
          "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_EC2_METADATA_DISABLED",
          "AWS_EC2_METADATA_SERVICE_ENDPOINT", "HOME"}) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value == nullptr ? std::nullopt : std::optional(value));
      if (std::string_view(name) != "HOME") unsetenv(name);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_) {
      if (value) {
        setenv(name.c_str(), value->c_str(), 1);
      } else {
        unsetenv(name.c_str());
      }
    }
  }
  void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

class OpenSource : public ::testing::Test {
 protected:
  Result<SourcePtr> open(const std::string& url, std::string_view salt = {}) {
    return open_source(StoreUrl::parse(url).value(), salt);
  }
  StoreId id(const std::string& url, std::string_view salt = {}) {
    auto source = open(url, salt);
    EXPECT_TRUE(source) << (source ? "" : source.error().to_string());
    return source ? (*source)->id() : StoreId();
  }
  std::string failure(const std::string& url, StatusCode code) {
    auto source = open(url);
    EXPECT_FALSE(source) << url;
    if (source) return "";
    EXPECT_EQ(source.error().code(), code) << source.error().to_string();
    return source.error().to_string();
  }

  Environment environment_;
  Executor executor_;
};

TEST_F(OpenSource, UnknownSchemesAndOptionsAreNamed) {
  EXPECT_THAT(failure("s4://bucket", StatusCode::kInvalidArgument),
              HasSubstr("there are file, s3, gs, az,"));
  EXPECT_THAT(failure("az://container", StatusCode::kInvalidArgument),
              HasSubstr("needs the option account"));
  EXPECT_THAT(failure("oss://bucket", StatusCode::kInvalidArgument),
              HasSubstr("needs the option region"));
  EXPECT_THAT(failure("s3://bucket?endpiont=http://x", StatusCode::kInvalidArgument),
              HasSubstr("did you mean 'endpoint'?"));
  EXPECT_THAT(failure("s3://bucket?adressing=path", StatusCode::kInvalidArgument),
              HasSubstr("did you mean 'addressing'?"));
  EXPECT_THAT(failure("file:///data?cahce=x", StatusCode::kInvalidArgument),
              HasSubstr("did you mean 'cache'? There are quota, ttl, priority, pin, cache"));
  EXPECT_THAT(failure("s3://bucket?anonymous=yes", StatusCode::kInvalidArgument),
              HasSubstr("must be 'true' or 'false'"));
  EXPECT_THAT(failure("s3://bucket?endpoint=127.0.0.1:7070", StatusCode::kInvalidArgument),
              HasSubstr("http[s]://host[:port]"));
}

TEST_F(OpenSource, SecretsInUrlsAreRefusedAndNotRepeated) {
  std::string text = failure("s3://bucket?secret_access_key=HUSH", StatusCode::kInvalidArgument);
  EXPECT_THAT(text, HasSubstr("credentials are not taken from URLs"));
  EXPECT_THAT(text, Not(HasSubstr("HUSH")));
  text = failure("s3://bucket?endpoint=http://me:HUSH@host", StatusCode::kInvalidArgument);
  EXPECT_THAT(text, Not(HasSubstr("hush")));
}

TEST_F(OpenSource, StoreIdentityIgnoresPrefixAndSpelling) {
  StoreId store = id("s3://bucket?endpoint=http://host:7070");
  EXPECT_EQ(store, id("s3://bucket/some/prefix?endpoint=HTTP://Host:7070/&region=eu-west-1"));
  EXPECT_EQ(id("s3://b?endpoint=https://host"), id("s3://b?endpoint=https://host:443"));
  EXPECT_NE(store, id("s3://other?endpoint=http://host:7070"));
  EXPECT_NE(store, id("s3://bucket?endpoint=http://host:7071"));
  EXPECT_NE(store, id("s3://bucket?endpoint=http://host:7070", "salt"));
  // Credentials that may see other objects make another store.
  StoreId named = id("s3://bucket?endpoint=http://host:7070&profile=anonymous");
  StoreId nobody = id("s3://bucket?endpoint=http://host:7070&anonymous=true");
  EXPECT_NE(store, named);
  EXPECT_NE(store, nobody);
  EXPECT_NE(named, nobody);
  environment_.set("AWS_ENDPOINT_URL", "http://host:7070");
  EXPECT_EQ(store, id("s3://bucket"));
  environment_.set("AWS_ENDPOINT_URL_S3", "http://host:9090");
  EXPECT_NE(store, id("s3://bucket"));
  EXPECT_EQ(id("file:///a"), id("/b"));
  // The two ways to write an Azure file system.
  EXPECT_EQ(id("abfs://c@account.dfs.core.windows.net/a"), id("abfs://c?account=account"));
  EXPECT_EQ(id("https://Host:443/a"), id("https://host/b"));
  EXPECT_NE(id("https://host"), id("http://host"));
}

class OpenSourceOnServer : public OpenSource {
 protected:
  void SetUp() override {
    ASSERT_FALSE(VersityGateway::binary().empty()) << VersityGateway::kHowToGetIt;
    gateway_ = VersityGateway::start();
    ASSERT_TRUE(gateway_);
    url_ = "s3://bucket?endpoint=" + gateway_->endpoint();
    environment_.set("AWS_EC2_METADATA_DISABLED", "true");
    environment_.set("HOME", gateway_->bucket_folder().parent_path());
  }
  Result<ListPage> list(const std::string& url) {
    auto source = open(url).value();
    return executor_.block_on(source->list(Context::background(), {"", false, ""}));
  }
  std::string write_credentials(const std::string& profile) {
    std::string path = gateway_->bucket_folder().parent_path() / "credentials";
    std::ofstream(path) << fmt::format("[{}]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
                                       profile, VersityGateway::kAccessKey,
                                       VersityGateway::kSecretKey);
    return path;
  }

  std::shared_ptr<VersityGateway> gateway_;
  std::string url_;
};

TEST_F(OpenSourceOnServer, CredentialsComeFromTheEnvironment) {
  environment_.set("AWS_ACCESS_KEY_ID", VersityGateway::kAccessKey);
  environment_.set("AWS_SECRET_ACCESS_KEY", VersityGateway::kSecretKey);
  auto page = list(url_);
  EXPECT_TRUE(page) << page.error().to_string();
}

TEST_F(OpenSourceOnServer, CredentialsComeFromAProfile) {
  environment_.set("AWS_SHARED_CREDENTIALS_FILE", write_credentials("training"));
  auto named = list(url_ + "&profile=training");
  EXPECT_TRUE(named) << named.error().to_string();
  environment_.set("AWS_PROFILE", "training");
  auto implied = list(url_);
  EXPECT_TRUE(implied) << implied.error().to_string();
}

TEST_F(OpenSourceOnServer, AWrongSecretIsToldWithoutTheSecret) {
  environment_.set("AWS_ACCESS_KEY_ID", VersityGateway::kAccessKey);
  environment_.set("AWS_SECRET_ACCESS_KEY", "HUSH");
  auto page = list(url_);
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code(), StatusCode::kPermissionDenied) << page.error().to_string();
  EXPECT_THAT(page.error().to_string(), HasSubstr("SignatureDoesNotMatch"));
  EXPECT_THAT(page.error().to_string(), Not(HasSubstr("HUSH")));
}

TEST_F(OpenSourceOnServer, NoCredentialsAtAll) {
  auto page = list(url_);
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code(), StatusCode::kPermissionDenied) << page.error().to_string();
  EXPECT_THAT(page.error().to_string(), HasSubstr("no credentials were found"));
  EXPECT_THAT(page.error().to_string(), HasSubstr("AWS_ACCESS_KEY_ID"));
  auto anonymous = list(url_ + "&anonymous=true");
  ASSERT_FALSE(anonymous);
  EXPECT_EQ(anonymous.error().code(), StatusCode::kPermissionDenied);
}

TEST_F(OpenSourceOnServer, RoleResponseIsNotTheStoresResponse) {
  testing::LyingServer machine;
  machine.then_send("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  environment_.set("AWS_EC2_METADATA_DISABLED", "false");
  environment_.set("AWS_EC2_METADATA_SERVICE_ENDPOINT", machine.endpoint());
  auto page = list(url_);
  ASSERT_FALSE(page);
  EXPECT_FALSE(machine.requests().empty());
  EXPECT_EQ(page.error().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(page.error().to_string(), HasSubstr("nothing was sent"));
  EXPECT_THAT(page.error().to_string(), Not(HasSubstr("the store answered")));
}

TEST_F(OpenSourceOnServer, ABucketThatIsNotThere) {
  environment_.set("AWS_ACCESS_KEY_ID", VersityGateway::kAccessKey);
  environment_.set("AWS_SECRET_ACCESS_KEY", VersityGateway::kSecretKey);
  auto page = list("s3://absent?endpoint=" + gateway_->endpoint());
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code(), StatusCode::kNotFound) << page.error().to_string();
  EXPECT_THAT(page.error().to_string(), HasSubstr("NoSuchBucket"));
}

// Files put into the gateway's directory directly, as demos and tests do.
TEST_F(OpenSourceOnServer, FilesPutIntoTheServerHaveVersions) {
  environment_.set("AWS_ACCESS_KEY_ID", VersityGateway::kAccessKey);
  environment_.set("AWS_SECRET_ACCESS_KEY", VersityGateway::kSecretKey);
  std::ofstream(gateway_->bucket_folder() / "by-hand") << "content";
  auto source = open(url_).value();
  auto page = list(url_);
  ASSERT_TRUE(page) << page.error().to_string();
  ASSERT_EQ(page->objects.size(), 1u);
  auto object = executor_.block_on(source->stat(Context::background(), {"by-hand"}));
  ASSERT_TRUE(object);
  EXPECT_EQ(object->version, page->objects[0].version);
  std::string into(7, '?');
  auto done = executor_.block_on(source->read(Context::background(),
                                              {"by-hand", {0, 7}, page->objects[0].version},
                                              std::as_writable_bytes(std::span(into))));
  EXPECT_TRUE(done) << done.error().to_string();
  EXPECT_EQ(into, "content");
}

}  // namespace
}  // namespace leat
