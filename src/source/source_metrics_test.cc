// SPDX-License-Identifier: Apache-2.0
// Tests that HTTP traffic is counted to the request and the byte on each path.
#include "source/source_metrics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "source/store_reader_test.h"

namespace leat {
namespace {

using testing::content;
using ::testing::HasSubstr;
using testing::lawful;
using testing::LyingServer;
using ::testing::Pair;
using testing::partial_head;
using testing::run_again;
using testing::StoreReader;
using ::testing::UnorderedElementsAre;

using Exchange = LyingServer::Exchange;
using Figures = std::map<std::string, double>;

constexpr uint64_t kLarge = 100'000;  // does not arrive together with the head
constexpr char kGet[] = R"(requests_totalmethod="GET")";
constexpr char kReceived[] = "received_bytes_total";
constexpr char kConnections[] = "connections_total";

Figures figures() {
  Figures found;
  for (const MetricSample& sample : metrics_samples()) {
    if (sample.name.starts_with("leat_source_http_")) {
      found[sample.name.substr(sizeof "leat_source_http_" - 1) + sample.labels] = sample.value;
    }
  }
  return found;
}

class HttpFigures : public ::testing::Test {
 protected:
  // Changes since the last call, without connections: clients may open one while another is about
  // to become free.
  Figures grown() {
    Figures now = figures(), more;
    for (const auto& [name, value] : now) {
      if (value != before_[name] && name != kConnections) more[name] = value - before_[name];
    }
    before_ = std::move(now);
    return more;
  }
  // Either side counts a connection when it learns of it.
  void expect_connections_as_accepted() {
    constexpr auto kPatience = std::chrono::seconds(10);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    auto noted = [this] { return figures()[kConnections] - at_first_[kConnections]; };
    while (noted() != static_cast<double>(server_.connections()) &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(noted(), static_cast<double>(server_.connections()));
  }
  template <class T>
  auto ask(Task<Result<T>> task) {
    return reader_.executor.block_on(std::move(task));
  }

  LyingServer server_;
  StoreReader reader_{server_.endpoint()};
  Figures at_first_ = figures();
  Figures before_ = at_first_;
};

TEST_F(HttpFigures, OfReads) {
  server_.then_send_and_keep(lawful(0, kLarge));
  server_.then_send_and_keep(lawful(5, 16));
  EXPECT_TRUE(reader_.reads(0, kLarge));
  EXPECT_TRUE(reader_.reads(5, 16));
  EXPECT_THAT(grown(), UnorderedElementsAre(Pair(kGet, 2), Pair(kReceived, kLarge + 16)));
  expect_connections_as_accepted();
}

TEST_F(HttpFigures, OfRefusalsAndOfWhatIsCutShort) {
  server_.then_send_and_keep("HTTP/1.1 503 Slow Down\r\nContent-Length: 9\r\n\r\nslow down");
  const std::string answer = lawful(0, kLarge);
  server_.then_send(answer.substr(0, answer.size() - 40'000));
  EXPECT_EQ(reader_.failure(0, kLarge).code(), StatusCode::kUnavailable);
  EXPECT_THAT(grown(), UnorderedElementsAre(Pair(kGet, 1), Pair(kReceived, 9)));
  EXPECT_EQ(reader_.failure(0, kLarge).code(), StatusCode::kUnavailable);
  EXPECT_THAT(grown(), UnorderedElementsAre(Pair(kGet, 1), Pair(kReceived, kLarge - 40'000)));
  expect_connections_as_accepted();
}

TEST_F(HttpFigures, OfChunksAreThoseOfTheirBytes) {
  server_.then_send(partial_head(0, 20) +
                    "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + "c\r\n" +
                    content(0, 12) + "\r\n8\r\n" + content(12, 8) + "\r\n0\r\n\r\n");
  server_.then_send(partial_head(0, 20) + "Connection: close\r\n\r\n" + content(0, 20));
  EXPECT_TRUE(reader_.reads(0, 20));
  EXPECT_TRUE(reader_.reads(0, 20));
  EXPECT_THAT(grown(), UnorderedElementsAre(Pair(kGet, 2), Pair(kReceived, 40)));
  expect_connections_as_accepted();
}

TEST_F(HttpFigures, OfOtherMethods) {
  server_.then_send_and_keep(
      "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nETag: \"1\"\r\n"
      "Last-Modified: Fri, 02 Jan 2026 03:04:05 GMT\r\n\r\n");
  const std::string page = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
  server_.then_send_and_keep(
      fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", page.size(), page));
  // Closed, so that the rest of the body is not parsed as the next request's head.
  server_.then_send(
      "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: \"1\"\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(ask(reader_.source().stat(Context::background(), {.key = "key"})));
  EXPECT_THAT(grown(), UnorderedElementsAre(Pair(R"(requests_totalmethod="HEAD")", 1)));
  EXPECT_TRUE(ask(reader_.source().list(Context::background(), {.prefix = "", .token = ""})));
  EXPECT_THAT(grown(), UnorderedElementsAre(Pair(kGet, 1), Pair(kReceived, page.size())));
  const std::string object = content(0, 1234);
  EXPECT_TRUE(ask(reader_.source().write(Context::background(), {.key = "key"},
                                         std::as_bytes(std::span(object)))));
  EXPECT_THAT(grown(), UnorderedElementsAre(Pair(R"(requests_totalmethod="PUT")", 1),
                                            Pair("sent_bytes_total", 1234)));
  expect_connections_as_accepted();
}

TEST_F(HttpFigures, OfRequestsWithoutResponseOrConnection) {
  server_.then([](const Exchange&) {});
  EXPECT_EQ(reader_.failure(0, 16).code(), StatusCode::kUnavailable);
  EXPECT_THAT(grown(), UnorderedElementsAre(Pair(kGet, 1)));
  expect_connections_as_accepted();
  server_.refuse();
  EXPECT_EQ(reader_.failure(0, 16).code(), StatusCode::kUnavailable);
  EXPECT_THAT(grown(), UnorderedElementsAre());
  expect_connections_as_accepted();
}

TEST(HttpFiguresOfTheStockClient, AreTheSame) {
  auto child = run_again("HttpFigures.*", {"LEAT_TRANSPORT=stock"});
  EXPECT_EQ(child.status, 0) << child.output;
  EXPECT_THAT(child.output, HasSubstr("5 tests"));
}

}  // namespace
}  // namespace leat
