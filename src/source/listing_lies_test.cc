// SPDX-License-Identifier: Apache-2.0
// Tests invalid listings: a page of a proxy, a truncated one, a response to another request. Each
// would hide or invent objects, so each is an error.
#include <gmock/gmock.h>

#include <mutex>
#include <string>

#include "source/store_answer_test.h"
#include "source/store_fault_test.h"
#include "source/store_reader_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::LyingServer;
using testing::S3Request;
using testing::StoreAnswer;
using testing::StoredObjects;
using testing::StoreReader;

class ListingLies : public ::testing::Test {
 protected:
  ListingLies() {
    for (const char* key : {"d/1", "d/2 &", "d/e/3"}) objects_.put(key, key);
    server_.then([this](const LyingServer::Exchange& exchange) {
      exchange.send(answer());
      exchange.keep();
    });
  }

  // The store's correct response to a listing of `prefix`.
  std::string lawful(const std::string& prefix) const {
    S3Request request;
    request.method = "GET";
    request.bucket = "bucket";
    request.query = {{"prefix", prefix}, {"delimiter", "/"}};
    return StoreAnswer::lawful(request, objects_, 1000).body;
  }
  Result<ListPage> list(const std::string& body, std::string type = "application/xml") {
    tell(fmt::format("HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n{}", type,
                     body.size(), body));
    return reader_.executor.block_on(
        reader_.source().list(Context::background(), {.prefix = "d/", .token = ""}));
  }

  void tell(std::string answer) {
    std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  // A copy: the client may end, and the next response may arrive, before the server has returned.
  std::string answer() {
    std::lock_guard lock(mutex_);
    return answer_;
  }

  StoredObjects objects_;
  std::mutex mutex_;
  std::string answer_;
  LyingServer server_;
  StoreReader reader_{server_.endpoint()};
};

TEST_F(ListingLies, TheTruthIsBelieved) {
  auto page = list(lawful("d/"));
  ASSERT_TRUE(page) << page.error().to_string();
  EXPECT_EQ(page->objects.size(), 3u);
  EXPECT_TRUE(list("\xEF\xBB\xBF" + lawful("d/") + "\r\n"));
  EXPECT_TRUE(list("<!-- by a proxy -->\n<ListBucketResult/>"));
}

TEST_F(ListingLies, AnotherDocumentIsNoEmptyListing) {
  for (const char* body :
       {"", " ", "busy", "<html><body><p>Come back later.</p></body></html>",
        "<!DOCTYPE html><html><head><title>Busy</title></head></html>", "<Error></Error>",
        "<?xml version=\"1.0\"?><Error><Code>InternalError</Code></Error>", "<x/>",
        "<ListBucketResults></ListBucketResults>", "{\"message\": \"not here\"}", "[]", "null"}) {
    for (const char* type : {"application/xml", "text/html", "application/json"}) {
      auto page = list(body, type);
      ASSERT_FALSE(page) << body;
      EXPECT_EQ(page.error().code(), StatusCode::kUnavailable) << page.error().to_string();
      EXPECT_THAT(page.error().to_string(), HasSubstr("cannot list s3://bucket/d/: "));
    }
  }
}

TEST_F(ListingLies, AListingThatWasCutIsNone) {
  const std::string whole = lawful("d/");
  for (size_t size = 0; size < whole.size(); ++size) {
    auto page = list(whole.substr(0, size));
    ASSERT_FALSE(page) << whole.substr(0, size);
    EXPECT_EQ(page.error().code(), StatusCode::kUnavailable) << page.error().to_string();
  }
}

TEST_F(ListingLies, TheListingOfAnotherPrefixIsNotOurs) {
  objects_.put("a", "a");
  auto page = list(lawful(""));
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code(), StatusCode::kUnavailable);
  EXPECT_THAT(page.error().to_string(), HasSubstr("another listing, in which is 'a'"));
}

TEST_F(ListingLies, PageHasTheIdleTimeoutOfARead) {
  server_.then([this](const LyingServer::Exchange& exchange) {
    const std::string whole = answer();
    exchange.send(whole.substr(0, whole.size() - 100));
    exchange.stall();
  });
  ASSERT_TRUE(list(lawful("d/")));  // by the previous script
  ListRequest request{.prefix = "d/", .token = "", .timeouts = {.idle_timeout = 200ms}};
  auto page = reader_.executor.block_on(reader_.source().list(Context::background(), request));
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code(), StatusCode::kUnavailable);
  EXPECT_THAT(page.error().to_string(), HasSubstr("no bytes from the store for 200 ms"));
  EXPECT_GT(server_.requests().size(), 1u);
}

TEST_F(ListingLies, APageThatDoesNotEndIsLeft) {
  server_.then([](const LyingServer::Exchange& exchange) {
    exchange.send("HTTP/1.1 200 OK\r\n\r\n<ListBucketResult>");
    const std::string filler(1 << 20, ' ');
    while (exchange.send(filler)) {
    }
  });
  ASSERT_TRUE(list(lawful("d/")));  // by the previous script
  auto page = list("");
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code(), StatusCode::kUnavailable);
  EXPECT_THAT(page.error().to_string(), HasSubstr("longer than 33554432 bytes"));
}

}  // namespace
}  // namespace leat
