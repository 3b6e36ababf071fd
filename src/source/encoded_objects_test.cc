// SPDX-License-Identifier: Apache-2.0
// Tests objects with a Content-Encoding, and servers that pack or unpack objects. A read returns
// the stored bytes, or an error with the reason.
#include <gmock/gmock.h>

#include <string>

#include "source/fake_gcs_test.h"
#include "source/moto_test.h"
#include "source/nginx_test.h"
#include "source/store_reader_test.h"

namespace leat {
namespace {

using ::testing::AllOf;
using testing::content;
using ::testing::HasSubstr;
using testing::LyingServer;
using ::testing::Not;
using testing::run_again;
using testing::StoreReader;

constexpr uint64_t kSize = 16;

// A part of `total` bytes, with additional header lines.
std::string part(std::string_view total, std::string_view lines = "") {
  return fmt::format(
      "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-15/{}\r\n{}Content-Length: 16\r\n"
      "Connection: close\r\n\r\n{}",
      total, lines, content(0, kSize));
}

class EncodedObjects : public ::testing::Test {
 protected:
  EncodedObjects() { reader_.object_size = kSize; }
  LyingServer server_;
  StoreReader reader_{server_.endpoint()};
};

TEST_F(EncodedObjects, PartOfAnotherSizeIsRefused) {
  server_.then_send(part("1000", "Content-Encoding: gzip\r\n"));
  Status status = reader_.failure(0, kSize);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.to_string(), AllOf(HasSubstr("a part of 1000 bytes (Content-Encoding: gzip)"),
                                        HasSubstr("the object has 16 bytes")));
}

TEST_F(EncodedObjects, ShorterUnpackedObjectIsRefused) {
  server_.then_send(
      "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-7/8\r\nContent-Encoding: br\r\n"
      "Content-Length: 8\r\nConnection: close\r\n\r\n01234567");
  Status status = reader_.failure(0, kSize);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.to_string(), HasSubstr("a part of 8 bytes (Content-Encoding: br)"));
}

TEST_F(EncodedObjects, WholeObjectOfAnotherSizeIsRefused) {
  reader_.object_size = 400;
  server_.then_send("HTTP/1.1 200 OK\r\nContent-Length: 16\r\nConnection: close\r\n\r\n" +
                    content(0, kSize));
  Status status = reader_.failure(0, kSize);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.to_string(),
              AllOf(HasSubstr("16 bytes, but"), HasSubstr("the object has 400")));
}

TEST_F(EncodedObjects, StoredEncodingIsReadAsStored) {
  server_.then_send(part("16", "Content-Encoding: gzip\r\n"));
  server_.then_send(part("*"));
  server_.then_send(part("1000"));
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_TRUE(reader_.reads(0, kSize));
  reader_.object_size = 0;
  EXPECT_TRUE(reader_.reads(0, kSize));
}

TEST_F(EncodedObjects, StoreIsAskedForBytesAsStored) {
  server_.then_send(part("16"));
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_THAT(server_.requests().at(0), HasSubstr("accept-encoding: identity\r\n"));
}

TEST_F(EncodedObjects, HeadWithoutSizeIsRefused) {
  server_.then_send("HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nConnection: close\r\n\r\n");
  auto found = reader_.executor.block_on(reader_.source().stat({}, {.key = "key"}));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), StatusCode::kUnsupported) << found.error().to_string();
  EXPECT_THAT(found.error().to_string(), HasSubstr("names no size"));
  EXPECT_THAT(server_.requests().at(0), HasSubstr("accept-encoding: identity\r\n"));
}

TEST(EncodedObjectsOfStock, AreCheckedLikewise) {
  if (std::getenv("LEAT_TRANSPORT") != nullptr) return;
  auto child = run_again("EncodedObjects.*", {"LEAT_TRANSPORT=stock"});
  EXPECT_EQ(child.status, 0) << child.output;
}

// "packed, " 200 times, by gzip.
const std::string& packed() {
  static const std::string bytes = [] {
    testing::ProgramResult result = testing::run_program(
        {"sh", "-c", "for i in $(seq 200); do printf 'packed, '; done | gzip -n"});
    EXPECT_EQ(result.status, 0);
    return result.output;
  }();
  return bytes;
}
constexpr uint64_t kUnpackedSize = 1600;

// Reads of a real server, as a mount makes them: size and version from a stat.
class EncodingServers : public ::testing::Test {
 protected:
  Result<std::string> read(OpendalConfig config, const std::string& key) {
    LEAT_TRY(auto source, OpendalSource::open(std::move(config)));
    LEAT_TRY(SourceObject object, executor_.block_on(source->stat({}, {.key = key})));
    std::string into(object.size, '?');
    ReadRequest request{.key = key,
                        .range = {0, object.size},
                        .if_version = object.version,
                        .object_size = object.size};
    auto task = source->read({}, request, std::as_writable_bytes(std::span(into)));
    LEAT_CHECK_OK(executor_.block_on(std::move(task)));
    return into;
  }
  static OpendalConfig web(const std::string& endpoint) {
    OpendalConfig config;
    config.scheme = "http";
    config.endpoint = endpoint;
    return config;
  }
  Executor executor_;
};

TEST_F(EncodingServers, NginxServesTheFileThatIsNotPacked) {
  auto server = testing::NginxServer::start();
  ASSERT_TRUE(server) << testing::NginxServer::kHowToGetIt;
  server->put("a.txt", "as it is");
  server->put("a.txt.gz", packed());
  EXPECT_EQ(read(web(server->packing_endpoint()), "a.txt"), "as it is");
  EXPECT_EQ(read(web(server->packing_endpoint()), "a.txt.gz"), packed());
}

TEST_F(EncodingServers, NginxThatUnpacksIsRefusedWithTheReason) {
  auto server = testing::NginxServer::start();
  ASSERT_TRUE(server) << testing::NginxServer::kHowToGetIt;
  server->put("b.txt.gz", packed());
  auto got = read(web(server->unpacking_endpoint()), "b.txt");
  ASSERT_FALSE(got) << got->size();
  EXPECT_EQ(got.error().code(), StatusCode::kUnsupported) << got.error().to_string();
  EXPECT_THAT(got.error().to_string(), HasSubstr("no size"));
}

TEST_F(EncodingServers, S3ReturnsAnEncodedObjectAsStored) {
  auto server = testing::MotoServer::start();
  ASSERT_TRUE(server) << testing::MotoServer::kHowToGetIt;
  server->put("k.txt", packed(), {"-H", "Content-Encoding: gzip"});
  setenv("AWS_ACCESS_KEY_ID", testing::MotoServer::kAccessKey, 1);
  setenv("AWS_SECRET_ACCESS_KEY", testing::MotoServer::kSecretKey, 1);
  OpendalConfig config = testing::anonymous_bucket(server->endpoint());
  config.options.erase("anonymous");
  auto got = read(config, "k.txt");
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(*got, packed());
}

TEST_F(EncodingServers, GcsReturnsAnEncodedObjectAsStored) {
  auto server = testing::FakeGcsServer::start();
  ASSERT_TRUE(server) << testing::FakeGcsServer::kHowToGetIt;
  server->put("k.txt", packed(), "&contentEncoding=gzip");
  // A client that does not accept gzip gets this.
  EXPECT_EQ(testing::curl({server->media_url("k.txt")}).size(), kUnpackedSize);
  OpendalConfig config;
  config.scheme = "gs";
  config.bucket = testing::FakeGcsServer::kBucket;
  config.endpoint = server->endpoint();
  config.options["anonymous"] = "true";
  EXPECT_EQ(read(config, "k.txt"), packed());
}

}  // namespace
}  // namespace leat
