// SPDX-License-Identifier: Apache-2.0
// Tests S3 options that appear in the requests: encryption by the store, requester pays, the place
// of the bucket's name.
#include <gmock/gmock.h>

#include "source/aws_test.h"
#include "source/moto_test.h"
#include "source/source.h"

namespace leat {
namespace {

using testing::expected_signature;
using testing::given_signature;
using ::testing::HasSubstr;
using testing::header;
using testing::kSize;
using testing::lawful;
using testing::LyingServer;
using testing::MotoServer;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kKeyInBase64[] = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
constexpr char kItsMd5[] = "hRasmdxgYDKV3nvbahU1MA==";

class S3Options : public testing::AwsTest {
 protected:
  S3Options() { set_keys(); }
  std::string key_file(const std::string& content) {
    std::ofstream(folder_ / "customer_key") << content;
    return folder_ / "customer_key";
  }
  // One HEAD, one listing and one read, with sufficient responses.
  void ask_everything() {
    server_.then_send_and_keep(
        "HTTP/1.1 200 OK\r\nContent-Length: 16\r\nETag: \"v\"\r\n"
        "Last-Modified: Sat, 01 Jan 2022 00:00:00 GMT\r\n\r\n");
    const std::string page =
        "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
    server_.then_send_and_keep(
        fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", page.size(), page));
    server_.then_send_and_keep(lawful(0, kSize));
    auto& executor = reader_.executor;
    auto found = executor.block_on(reader_.source().stat(Context::background(), {"key", {}}));
    EXPECT_TRUE(found) << found.error().to_string();
    auto listed = executor.block_on(reader_.source().list(Context::background(), {}));
    EXPECT_TRUE(listed) << listed.error().to_string();
    EXPECT_TRUE(reader_.reads(0, kSize));
    ASSERT_EQ(server_.requests().size(), 3u);
  }
};

TEST_F(S3Options, ACustomersKeyIsSentWithHeadsAndReads) {
  for (const std::string& held :
       {std::string("0123456789abcdef0123456789abcdef"), std::string(kKeyInBase64) + "\n"}) {
    LyingServer server;
    testing::StoreReader reader(server.endpoint());
    reader.config.options.erase("anonymous");
    reader.config.options["sse_customer_key_file"] = key_file(held);
    server.then_send_and_keep(
        "HTTP/1.1 200 OK\r\nContent-Length: 16\r\nETag: \"v\"\r\n"
        "Last-Modified: Sat, 01 Jan 2022 00:00:00 GMT\r\n\r\n");
    server.then_send_and_keep(lawful(0, kSize));
    auto found = reader.executor.block_on(reader.source().stat(Context::background(), {"key", {}}));
    EXPECT_TRUE(found) << found.error().to_string();
    EXPECT_TRUE(reader.reads(0, kSize));
    for (const std::string& request : server.requests()) {
      const std::string prefix = "x-amz-server-side-encryption-customer-";
      EXPECT_EQ(header(request, prefix + "algorithm"), "AES256");
      EXPECT_EQ(header(request, prefix + "key"), kKeyInBase64);
      EXPECT_EQ(header(request, prefix + "key-md5"), kItsMd5);
    }
    const std::string read = server.requests().back();
    EXPECT_EQ(given_signature(read), expected_signature(read, "s3cretOfTheEnvironment"));
    EXPECT_THAT(read, HasSubstr("x-amz-server-side-encryption-customer-key;"));
  }
}

TEST_F(S3Options, ACustomersKeyStandsInNoMessage) {
  reader_.config.options["sse_customer_key_file"] = key_file(kKeyInBase64);
  const std::string told = fmt::format("bad header customer-key {}", kKeyInBase64);
  server_.then_send(
      fmt::format("HTTP/1.1 400 Bad Request\r\nContent-Length: {}\r\n\r\n{}", told.size(), told));
  EXPECT_THAT(reader_.failure(0, kSize).to_string(), Not(HasSubstr(kKeyInBase64)));
  reader_.config.options["sse_customer_key_file"] = key_file("HUSH");
  auto opened = OpendalSource::open(reader_.config);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().to_string(), HasSubstr("holds neither 32 bytes nor"));
  EXPECT_THAT(opened.error().to_string(), Not(HasSubstr("HUSH")));
}

TEST_F(S3Options, WhoAsksPays) {
  reader_.config.options["requester_pays"] = "true";
  ask_everything();
  for (const std::string& request : server_.requests()) {
    EXPECT_EQ(header(request, "x-amz-request-payer"), "requester");
    EXPECT_THAT(request, HasSubstr("x-amz-request-payer"));
    EXPECT_EQ(given_signature(request), expected_signature(request, "s3cretOfTheEnvironment"))
        << request;
  }
}

TEST_F(S3Options, NothingOfThemIsSentUnasked) {
  ask_everything();
  for (const std::string& request : server_.requests()) {
    EXPECT_THAT(request, Not(HasSubstr("x-amz-request-payer")));
    EXPECT_THAT(request, Not(HasSubstr("x-amz-server-side-encryption")));
  }
}

TEST_F(S3Options, WritesAreEncryptedAsAsked) {
  auto moto = MotoServer::start();
  ASSERT_TRUE(moto) << MotoServer::kHowToGetIt;
  reader_.config.endpoint = moto->endpoint();
  for (const char* sse : {"AES256", "aws:kms", "aws:kms:dsse"}) {
    OpendalConfig config = reader_.config;
    config.options["sse"] = sse;
    auto source = OpendalSource::open(config).value();
    auto put = reader_.executor.block_on(
        source->write({}, {"key"}, std::as_bytes(std::span("content", 7))));
    ASSERT_TRUE(put) << put.error().to_string();
    std::string head = moto->ask("key", {"-I"});
    std::ranges::transform(head, head.begin(), [](unsigned char c) { return std::tolower(c); });
    EXPECT_EQ(header(head, "x-amz-server-side-encryption"),
              sse == std::string_view("AES256") ? "aes256" : std::string_view(sse));
  }
}

TEST_F(S3Options, WritesNameTheirKey) {
  reader_.config.options["sse"] = "aws:kms";
  reader_.config.options["sse_kms_key"] = "arn:aws:kms:us-east-1:123456789012:key/its-key";
  server_.then_send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: \"v\"\r\n\r\n");
  auto source = OpendalSource::open(reader_.config).value();
  auto put =
      reader_.executor.block_on(source->write({}, {"key"}, std::as_bytes(std::span("content", 7))));
  EXPECT_TRUE(put) << put.error().to_string();
  const std::string request = server_.requests().at(0);
  EXPECT_EQ(header(request, "x-amz-server-side-encryption"), "aws:kms");
  EXPECT_EQ(header(request, "x-amz-server-side-encryption-aws-kms-key-id"),
            reader_.config.options["sse_kms_key"]);
}

// Run by the test below, with a proxy for every name.
TEST_F(S3Options, ChildThatReadsFromAVirtualHost) {
  const char* key = std::getenv("LEAT_TEST_VIRTUAL");
  if (key == nullptr) return;
  auto url = StoreUrl::parse("s3://bucket?endpoint=http://s3.invalid&addressing=virtual").value();
  SourcePtr source = open_source(url).value();
  std::string into(kSize, '?');
  auto done = reader_.executor.block_on(source->read(
      Context::background(), {key, {0, kSize}, {}, {}}, std::as_writable_bytes(std::span(into))));
  EXPECT_TRUE(done) << done.error().to_string();
}

TEST_F(S3Options, TheBucketIsPartOfAVirtualHost) {
  server_.then_send_and_keep(lawful(0, kSize));
  auto child = testing::run_again(
      "S3Options.ChildThatReadsFromAVirtualHost",
      {"LEAT_TEST_VIRTUAL=key", "http_proxy=" + server_.endpoint(), "NO_PROXY", "no_proxy"});
  EXPECT_EQ(child.status, 0) << child.output;
  const std::string request = server_.requests().at(0);
  EXPECT_THAT(request, StartsWith("GET http://bucket.s3.invalid/key HTTP/1.1\r\n"));
  EXPECT_EQ(header(request, "host"), "bucket.s3.invalid");
}

TEST_F(S3Options, ContradictionsAreRefused) {
  auto refused = [](const std::string& options) {
    auto opened = open_source(StoreUrl::parse("s3://bucket?" + options).value());
    return opened ? "none" : opened.error().to_string();
  };
  EXPECT_THAT(refused("sse=AES"), HasSubstr("is none of AES256, aws:kms, aws:kms:dsse"));
  EXPECT_THAT(refused("sse_kms_key=k"), HasSubstr("has no effect without sse=aws:kms"));
  EXPECT_THAT(refused("sse=AES256&sse_customer_key_file=/f"), HasSubstr("cannot be given with"));
  EXPECT_THAT(refused("external_id=x"), HasSubstr("has no effect without option role"));
  EXPECT_THAT(refused("role=arn&anonymous=true"), HasSubstr("cannot be given with"));
  EXPECT_THAT(refused("requester_pays=yes"), HasSubstr("must be 'true' or 'false'"));
  EXPECT_THAT(refused("sse_customer_key=HUSH"), Not(HasSubstr("HUSH")));
}

TEST_F(S3Options, WhoAsksInAnotherWayAsksAnotherStore) {
  auto id = [](const std::string& options) {
    auto url = StoreUrl::parse("s3://bucket?endpoint=http://host" + options).value();
    return open_source(url).value()->id();
  };
  const std::string role = "&role=arn:aws:iam::123456789012:role/";
  std::vector<StoreId> ids = {id(""),
                              id("&profile=p"),
                              id(role + "a"),
                              id(role + "b"),
                              id(role + "a&profile=p"),
                              id(role + "a&external_id=7"),
                              id("&requester_pays=true"),
                              id("&sse=AES256"),
                              id("&sse_customer_key_file=" + key_file(kKeyInBase64))};
  for (size_t i = 0; i < ids.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(ids[i], ids[j]) << i << " " << j;
  }
}

}  // namespace
}  // namespace leat
