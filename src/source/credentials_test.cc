// SPDX-License-Identifier: Apache-2.0
// Who asks: where credentials come from, how long they are believed, and what is signed with them.
#include <gmock/gmock.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "source/lying_server_test.h"
#include "source/store_reader_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using testing::content;
using ::testing::HasSubstr;
using testing::lawful;
using testing::LyingServer;
using ::testing::Not;
using testing::StoreReader;

using Exchange = LyingServer::Exchange;

constexpr uint64_t kSize = 16;

std::string refusal(std::string_view status, std::string_view code, std::string_view text = "") {
  std::string body = fmt::format(
      "<?xml version=\"1.0\"?><Error><Code>{}</Code><Message>no</Message>{}</Error>", code, text);
  return fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\n\r\n{}", status, body.size(), body);
}

// The value of a header, or nothing.
std::optional<std::string> header(const std::string& request, const std::string& name) {
  size_t at = request.find("\r\n" + name + ": ");
  if (at == std::string::npos) return std::nullopt;
  at += name.size() + 4;
  return request.substr(at, request.find("\r\n", at) - at);
}

std::string key_id(const std::string& request) {
  std::string value = header(request, "authorization").value_or("");
  size_t at = value.find("Credential=");
  if (at == std::string::npos) return "";
  return value.substr(at + 11, value.find('/', at) - at - 11);
}

class CredentialsTest : public ::testing::Test {
 protected:
  CredentialsTest() {
    for (char** one = environ; *one != nullptr; ++one) {
      std::string_view text(*one);
      if (text.starts_with("AWS_")) kept_.emplace_back(text);
    }
    for (const std::string& text : kept_) {
      if (!text.starts_with("AWS_CA_BUNDLE=")) unsetenv(text.substr(0, text.find('=')).c_str());
    }
    std::filesystem::create_directories(folder_);
    set("AWS_EC2_METADATA_DISABLED", "true");
    set("AWS_SHARED_CREDENTIALS_FILE", folder_ / "credentials");
    set("AWS_CONFIG_FILE", folder_ / "config");
    reader_.config.options.erase("anonymous");
  }
  ~CredentialsTest() override {
    for (const std::string& name : set_) unsetenv(name.c_str());
    for (const std::string& text : kept_) {
      size_t equals = text.find('=');
      setenv(text.substr(0, equals).c_str(), text.substr(equals + 1).c_str(), 1);
    }
    std::filesystem::remove_all(folder_);
  }

  void set(const char* name, const std::string& value) {
    setenv(name, value.c_str(), 1);
    set_.emplace_back(name);
  }
  void set_keys(const std::string& token = "") {
    set("AWS_ACCESS_KEY_ID", "AKIDENV");
    set("AWS_SECRET_ACCESS_KEY", "s3cretOfTheEnvironment");
    if (!token.empty()) set("AWS_SESSION_TOKEN", token);
  }
  // As tools replace it: at once.
  void write_file(const std::string& id, const std::string& profile = "default") {
    std::ofstream(folder_ / "new") << fmt::format(
        "[{}]\naws_access_key_id = {}\naws_secret_access_key = s3cretOf{}\n", profile, id, id);
    std::filesystem::rename(folder_ / "new", folder_ / "credentials");
  }
  // Serves whoever asks with `id`, and refuses everybody else.
  LyingServer::Script serve_only(const std::string& id) {
    return [id](const Exchange& exchange) {
      bool known = key_id(exchange.request) == id;
      exchange.send(known ? lawful(0, kSize) : refusal("403 Forbidden", "InvalidAccessKeyId"));
      exchange.keep();
    };
  }

  const std::filesystem::path folder_ =
      fmt::format("{}leat_credentials_{}", ::testing::TempDir(), getpid());
  std::vector<std::string> kept_;
  std::vector<std::string> set_;
  LyingServer server_;
  StoreReader reader_{server_.endpoint()};
};

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

TEST_F(CredentialsTest, AStoreThatRefusesEverythingIsAskedOnceForEachRead) {
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

TEST_F(RoleTest, IsAskedAgainWhenTheStoreRefusesWhatItGave) {
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
  reader_.terms.first_byte_max = 100ms;
  Status status = reader_.failure(0, kSize);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.to_string();
  EXPECT_THAT(status.to_string(), HasSubstr("credentials"));
}

// --- signatures ---

std::string sha256_hex(std::string_view text) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), hash, &size, EVP_sha256(), nullptr);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", hash[i]);
  return hex;
}

std::string hmac(std::string_view key, std::string_view text) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash, &size);
  return {reinterpret_cast<char*>(hash), size};
}

std::string decoded(std::string_view path) {
  std::string text;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%') {
      text += path[i];
      continue;
    }
    text += static_cast<char>(std::stoi(std::string(path.substr(i + 1, 2)), nullptr, 16));
    i += 2;
  }
  return text;
}

std::string encoded(std::string_view path) {
  std::string text;
  for (char c : path) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 std::string_view("-._~/").contains(c);
    text += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return text;
}

// Outer spaces away, inner ones once.
std::string folded(std::string_view value) {
  std::string text;
  for (char c : value) {
    if (c != ' ' || (!text.empty() && text.back() != ' ')) text += c;
  }
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

// Signature Version 4 as a server checks it, from what came over the wire.
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
std::string expected_signature(const std::string& request, const std::string& secret) {
  const std::string authorization = header(request, "authorization").value_or("");
  auto field = [&](const std::string& name) {
    size_t at = authorization.find(name + "=") + name.size() + 1;
    return authorization.substr(at, authorization.find(',', at) - at);
  };
  std::string target = request.substr(4, request.find(" HTTP/1.1") - 4);
  const size_t question = target.find('?');
  std::string query = question == std::string::npos ? "" : target.substr(question + 1);
  const std::string names = field("SignedHeaders");
  std::string canonical =
      fmt::format("GET\n{}\n{}\n", encoded(decoded(target.substr(0, question))), query);
  for (size_t at = 0; at <= names.size();) {
    size_t end = std::min(names.find(';', at), names.size());
    std::string name = names.substr(at, end - at);
    canonical += fmt::format("{}:{}\n", name, folded(header(request, name).value_or("missing")));
    at = end + 1;
  }
  canonical += fmt::format("\n{}\nUNSIGNED-PAYLOAD", names);
  const std::string credential = field("Credential");
  const std::string scope = credential.substr(credential.find('/') + 1);
  std::string key = "AWS4" + secret;
  for (size_t at = 0; at <= scope.size();) {
    size_t end = std::min(scope.find('/', at), scope.size());
    key = hmac(key, scope.substr(at, end - at));
    at = end + 1;
  }
  std::string to_sign =
      fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", header(request, "x-amz-date").value_or(""), scope,
                  sha256_hex(canonical));
  std::string hex;
  for (char c : hmac(key, to_sign)) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return hex;
}

std::string given_signature(const std::string& request) {
  std::string value = header(request, "authorization").value_or("");
  size_t at = value.find("Signature=");
  return at == std::string::npos ? "none" : value.substr(at + 10);
}

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
