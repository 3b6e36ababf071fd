// SPDX-License-Identifier: Apache-2.0
// Tests the shim against a store that lies, fails or stalls, and a caller that gives up.
#include "source/stores/opendal_source.h"
#include "source/retry/retrying_source.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "runtime/executor.h"
#include "source/anonymous_bucket_test.h"
#include "source/lying_server_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::LyingServer;
using ::testing::Not;

constexpr char kContent[] = "0123456789abcdef";
constexpr uint64_t kSize = 16;

// A correct response to a read of the whole object, but with this `body`.
std::string partial(std::string_view body, size_t length = kSize) {
  return fmt::format(
      "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-15/16\r\nETag: \"v1\"\r\n"
      "Content-Length: {}\r\nConnection: close\r\n\r\n{}",
      length, body);
}

std::string failure(std::string_view status, std::string_view code, std::string_view message) {
  std::string body = fmt::format(
      "<?xml version=\"1.0\"?><Error><Code>{}</Code><Message>{}</Message>"
      "<AWSAccessKeyId>AKIDSECRET</AWSAccessKeyId><RequestId>r1</RequestId></Error>",
      code, message);
  return fmt::format(
      "HTTP/1.1 {}\r\nx-amz-request-id: REQ77\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
      status, body.size(), body);
}

class OpendalSourceTest : public ::testing::Test {
 protected:
  std::shared_ptr<OpendalSource> open() {
    return OpendalSource::open(testing::anonymous_bucket(server_.endpoint())).value();
  }
  // Silence limits so long that no attempt times out.
  std::shared_ptr<RetryingSource> open_retrying(unsigned attempts, Clock::duration delay = 1ms) {
    RetryOptions options;
    options.attempts_max = attempts;
    options.backoff_min = options.backoff_max = delay;
    options.attempt_timeout_min = options.list_timeout_min = options.attempt_timeout_max = 1h;
    return RetryingSource::make(open(), std::move(options));
  }
  Result<std::string> read(Source& source, Version version = {}, Context context = {}) {
    std::string into(kSize, '?');
    ReadRequest request{"d/key", {0, kSize}, std::move(version), timeouts_};
    auto done = executor_.block_on(
        source.read(context, std::move(request), std::as_writable_bytes(std::span(into))));
    if (!done) return Error(done.error());
    return into;
  }
  // The failure of one attempt at a read.
  Status failed_read(Version version = {}, std::chrono::milliseconds patience = 1h) {
    timeouts_.first_byte_timeout = timeouts_.idle_timeout = patience;
    auto source = open();
    auto content = read(*source, std::move(version));
    EXPECT_FALSE(content);
    return content ? Status(StatusCode::kInternal, "no failure") : content.error();
  }

  LyingServer server_;
  Executor executor_;
  AttemptTimeouts timeouts_{.first_byte_timeout = 1h, .idle_timeout = 1h};
};

TEST_F(OpendalSourceTest, OneConditionalRangedRequestForOneRead) {
  server_.then_send(partial(kContent));
  EXPECT_EQ(read(*open(), Version::etag("\"v1\"")), kContent);
  ASSERT_EQ(server_.requests().size(), 1u);
  EXPECT_THAT(server_.requests()[0], HasSubstr("GET /bucket/d/key HTTP/1.1"));
  EXPECT_THAT(server_.requests()[0], HasSubstr("range: bytes=0-15"));
  EXPECT_THAT(server_.requests()[0], HasSubstr("if-match: \"v1\""));
}

TEST_F(OpendalSourceTest, ABodyThatIsTooShortIsNoSuccess) {
  server_.then_send(partial("01234567", 8));
  EXPECT_EQ(failed_read().code(), StatusCode::kUnavailable);
}

TEST_F(OpendalSourceTest, ABodyThatIsTooLongIsNoSuccess) {
  server_.then_send(partial("0123456789abcdefXXXX", 20));
  EXPECT_EQ(failed_read().code(), StatusCode::kUnavailable);
}

TEST_F(OpendalSourceTest, AConnectionCutInTheBodyIsNoSuccess) {
  server_.then_send(partial("01234567"));
  EXPECT_EQ(failed_read().code(), StatusCode::kUnavailable);
}

TEST_F(OpendalSourceTest, TheWholeObjectInsteadOfTheRangeIsRefused) {
  server_.then_send(
      "HTTP/1.1 200 OK\r\nContent-Length: 20\r\nConnection: close\r\n\r\n0123456789abcdefXXXX");
  Status status = failed_read();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.to_string(), HasSubstr("ignored the range"));
}

TEST_F(OpendalSourceTest, AnotherRangeThanAskedIsRefused) {
  std::string answer = partial(kContent);
  answer.replace(answer.find("0-15/16"), 7, "4-19/99");
  server_.then_send(answer);
  EXPECT_EQ(failed_read().code(), StatusCode::kUnavailable);
}

TEST_F(OpendalSourceTest, AShrunkObjectIsOutOfRange) {
  std::string answer = partial("01234567", 8);
  answer.replace(answer.find("0-15/16"), 7, "0-7/8");
  server_.then_send(answer);
  EXPECT_EQ(failed_read().code(), StatusCode::kOutOfRange);
}

TEST_F(OpendalSourceTest, SilenceEndsAnAttempt) {
  // The connection is established, so its set-up is not the slow part.
  std::string kept = partial(kContent);
  server_.then_send_and_keep(kept.replace(kept.find("close"), 5, "keep-alive"));
  server_.then([](const LyingServer::Exchange& exchange) { exchange.stall(); });
  EXPECT_EQ(read(*open()), kContent);
  Status status = failed_read({}, 50ms);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.to_string(), HasSubstr("no bytes from the store for 50 ms"));
}

TEST_F(OpendalSourceTest, SilenceInTheBodyEndsAnAttempt) {
  server_.then([](const LyingServer::Exchange& exchange) {
    exchange.send(partial("0123"));
    exchange.stall();
  });
  EXPECT_EQ(failed_read({}, 50ms).code(), StatusCode::kUnavailable);
}

TEST_F(OpendalSourceTest, TemporaryFailuresAreRetried) {
  server_.then_send(failure("503 Service Unavailable", "ServiceUnavailable", "later"));
  server_.then([](const LyingServer::Exchange& exchange) { exchange.reset(); });
  server_.then_send(partial("XXXXXXXX"));
  server_.then_send(partial(kContent));
  EXPECT_EQ(read(*open_retrying(4)), kContent);
  EXPECT_EQ(server_.requests().size(), 4u);
}

TEST_F(OpendalSourceTest, EnoughIsEnough) {
  server_.then_send(failure("503 Service Unavailable", "ServiceUnavailable", "later"));
  auto source = open_retrying(3);
  auto content = read(*source);
  ASSERT_FALSE(content);
  EXPECT_EQ(content.error().code(), StatusCode::kUnavailable);
  EXPECT_EQ(server_.requests().size(), 3u);
  EXPECT_THAT(
      content.error().to_string(),
      HasSubstr("cannot read 16 bytes at 0 of s3://bucket/d/key: the store answered 503 "
                "ServiceUnavailable: later (request id REQ77); check that http://127.0.0.1"));
  EXPECT_THAT(content.error().to_string(), HasSubstr("(3 attempts)"));
}

TEST_F(OpendalSourceTest, FailuresForGoodAreNotTriedAgain) {
  server_.then_send(failure("403 Forbidden", "AccessDenied", "Access Denied"));
  auto source = open_retrying(4);
  auto content = read(*source);
  ASSERT_FALSE(content);
  EXPECT_EQ(content.error().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(server_.requests().size(), 1u);
  std::string text = content.error().to_string();
  EXPECT_THAT(text, HasSubstr("403 AccessDenied: Access Denied (request id REQ77)"));
  EXPECT_THAT(text, HasSubstr("check the credentials"));
  EXPECT_THAT(text, Not(HasSubstr("AKIDSECRET")));
}

TEST_F(OpendalSourceTest, AnswersAreToldApart) {
  struct Case {
    const char* status;
    const char* code;
    StatusCode expected;
  };
  for (const Case& one : {
           Case{"412 Precondition Failed", "PreconditionFailed", StatusCode::kVersionChanged},
           Case{"404 Not Found", "NoSuchKey", StatusCode::kNotFound},
           Case{"404 Not Found", "NoSuchBucket", StatusCode::kNotFound},
           Case{"416 Range Not Satisfiable", "InvalidRange", StatusCode::kOutOfRange},
           Case{"503 Slow Down", "SlowDown", StatusCode::kThrottled},
           Case{"429 Too Many Requests", "TooManyRequests", StatusCode::kThrottled},
           Case{"500 Internal Server Error", "InternalError", StatusCode::kUnavailable},
           Case{"400 Bad Request", "ExpiredToken", StatusCode::kPermissionDenied},
           Case{"400 Bad Request", "InvalidRequest", StatusCode::kInternal},
       }) {
    LyingServer server;
    server.then_send(failure(one.status, one.code, "because"));
    auto source = OpendalSource::open(testing::anonymous_bucket(server.endpoint())).value();
    auto content = read(*source, Version::etag("\"v1\""));
    ASSERT_FALSE(content) << one.code;
    EXPECT_EQ(content.error().code(), one.expected) << content.error().to_string();
    EXPECT_THAT(content.error().to_string(), HasSubstr(one.code));
  }
}

TEST_F(OpendalSourceTest, EchoedRequestIsNotInTheError) {
  server_.then_send(
      "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 47\r\nConnection: close\r\n\r\n"
      "you sent Authorization: AWS4-HMAC-SHA256 SECRET");
  Status status = failed_read();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.to_string(), HasSubstr("502"));
  EXPECT_THAT(status.to_string(), Not(HasSubstr("SECRET")));
}

TEST_F(OpendalSourceTest, NobodyListening) {
  auto unreachable = OpendalSource::open(testing::anonymous_bucket("http://127.0.0.1:1")).value();
  auto content = read(*unreachable);
  ASSERT_FALSE(content);
  EXPECT_EQ(content.error().code(), StatusCode::kUnavailable);
  EXPECT_THAT(content.error().to_string(),
              HasSubstr("check that http://127.0.0.1:1 can be reached"));
  EXPECT_THAT(content.error().to_string(), HasSubstr("refused"));
}

// --- listings ---

std::string listing(std::string_view inside, bool truncated = false) {
  std::string body = fmt::format(
      "<?xml version=\"1.0\" "
      "encoding=\"UTF-8\"?><ListBucketResult><Name>bucket</Name><Prefix></Prefix>"
      "<IsTruncated>{}</IsTruncated>{}{}</ListBucketResult>",
      truncated, truncated ? "<NextContinuationToken>t</NextContinuationToken>" : "", inside);
  return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                     body.size(), body);
}

std::string item(std::string_view key) {
  return fmt::format(
      "<Contents><Key>{}</Key><LastModified>2026-01-02T03:04:05.678Z</LastModified>"
      "<ETag>&quot;e&quot;</ETag><Size>7</Size></Contents>",
      key);
}

std::string folded(std::string_view prefix) {
  return fmt::format("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", prefix);
}

std::vector<std::string> keys_of(const Result<ListPage>& page) {
  std::vector<std::string> keys;
  EXPECT_TRUE(page) << (page ? "" : page.error().to_string());
  if (page) {
    for (const SourceObject& object : page->objects) keys.push_back(object.key);
  }
  return keys;
}

TEST_F(OpendalSourceTest, APageIsOneRequestAndOneAnswer) {
  server_.then_send(listing(item("d/b") + item("d/c") + folded("d/a/") + folded("d/d/"), true));
  server_.then_send(listing(item("d/e")));
  auto source = open();
  auto page = executor_.block_on(source->list(Context::background(), {"d/", false, ""}));
  EXPECT_EQ(keys_of(page), (std::vector<std::string>{"d/a/", "d/b", "d/c", "d/d/"}));
  EXPECT_EQ(page->next_token, "d/d/");
  EXPECT_EQ(server_.requests().size(), 1u);
  EXPECT_EQ(page->objects[1].size, 7u);
  EXPECT_EQ(page->objects[1].version, Version::etag("\"e\""));
  EXPECT_EQ(page->objects[1].mtime, WallTime(std::chrono::seconds(1767323045)));

  auto last =
      executor_.block_on(source->list(Context::background(), {"d/", false, page->next_token}));
  EXPECT_EQ(keys_of(last), std::vector<std::string>{"d/e"});
  EXPECT_EQ(last->next_token, "");
  EXPECT_THAT(server_.requests()[1], HasSubstr("start-after=d/d/"));
}

TEST_F(OpendalSourceTest, RepeatedPrefixIsReturnedOnce) {
  server_.then_send(listing(folded("a/") + item("b")));
  auto source = open();
  auto page = executor_.block_on(source->list(Context::background(), {"", false, "a/"}));
  EXPECT_EQ(keys_of(page), std::vector<std::string>{"b"});
}

TEST_F(OpendalSourceTest, UnaddressableKeysAreSkippedAndCounted) {
  // If they were trimmed or stripped, the first four would name other objects.
  server_.then_send(listing(item("/slash") + item(" space") + item("space ") + folded("/") +
                            item("a//b") + item("./c") + item("d/../e") + item("good") +
                            item("d/") + item("in side")));
  auto source = open();
  for (bool recursive : {false, true}) {
    uint64_t before = source_metrics::skipped_keys.value();
    auto page = executor_.block_on(source->list(Context::background(), {"", recursive, ""}));
    EXPECT_EQ(keys_of(page), (std::vector<std::string>{"d/", "good", "in side"}));
    EXPECT_EQ(source_metrics::skipped_keys.value() - before, 7u);
    EXPECT_EQ(page->skipped, 7u);
    EXPECT_EQ(page->skipped_example, "/");
  }
  for (const char* key : {"/slash", " space", "a//b", "./c", "d/../e", "\xff"}) {
    auto object = executor_.block_on(source->stat(Context::background(), {key}));
    ASSERT_FALSE(object);
    EXPECT_EQ(object.error().code(), StatusCode::kUnsupported) << key;
  }
  EXPECT_EQ(server_.requests().size(), 2u);
}

TEST_F(OpendalSourceTest, AListingThatIsCutOffIsTriedAgain) {
  server_.then_send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<ListBucketResult><Contents>");
  server_.then_send(listing(item("whole")));
  auto page =
      executor_.block_on(open_retrying(2)->list(Context::background(), {"", false, "", timeouts_}));
  EXPECT_EQ(keys_of(page), std::vector<std::string>{"whole"});
}

TEST_F(OpendalSourceTest, AListingThatDoesNotGoOnIsAnError) {
  server_.then_send(listing(item("a"), true));
  auto page = executor_.block_on(open()->list(Context::background(), {"", false, "b"}));
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code(), StatusCode::kInternal);
}

// --- giving up ---

// A read into memory that is freed as soon as the task has ended: the sanitizer catches any later
// write.
Task<Result<>> read_and_free(SourcePtr source, Context context) {
  auto into = std::make_unique<std::byte[]>(kSize);
  Result<> done =
      co_await source->read(context, {"d/key", {0, kSize}, {}}, std::span(into.get(), kSize));
  into.reset();
  co_return done;
}

class GivingUp : public OpendalSourceTest {
 protected:
  // Starts a read, waits, cancels, and expects the task to end by the cancellation.
  void cancel_after(const std::function<void()>& wait, SourcePtr source) {
    std::stop_source stop;
    Context context = Context::background().with_cancel(stop.get_token());
    auto task = read_and_free(std::move(source), context);
    auto done = boost::asio::co_spawn(executor_.any(), std::move(task), boost::asio::use_future);
    wait();
    stop.request_stop();
    Result<> ended = done.get();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code(), StatusCode::kCancelled) << ended.error().to_string();
  }
};

TEST_F(GivingUp, BeforeTheAnswerBegins) {
  server_.then([](const LyingServer::Exchange& exchange) {
    exchange.stall();
    exchange.send(partial(kContent));
  });
  cancel_after([this] { server_.await_requests(1); }, open());
}

TEST_F(GivingUp, InTheMiddleOfTheBody) {
  server_.then([](const LyingServer::Exchange& exchange) {
    exchange.send(partial("01234567"));
    exchange.stall();
    exchange.send("89abcdef");
  });
  cancel_after([this] { server_.await_requests(1); }, open());
}

TEST_F(GivingUp, BetweenAttempts) {
  server_.then_send(failure("503 Service Unavailable", "ServiceUnavailable", "later"));
  const uint64_t retries = source_metrics::retries.value();
  auto wait = [retries] {
    while (source_metrics::retries.value() == retries) std::this_thread::yield();
  };
  cancel_after(wait, open_retrying(2, 1h));
}

TEST_F(GivingUp, AfterTheEnd) {
  server_.then_send(partial(kContent));
  std::stop_source stop;
  Context context = Context::background().with_cancel(stop.get_token());
  EXPECT_TRUE(executor_.block_on(read_and_free(open(), context)));
  stop.request_stop();
}

TEST_F(GivingUp, TheDeadlineIsTheCallersNotTheAttempts) {
  server_.then([](const LyingServer::Exchange& exchange) { exchange.stall(); });
  auto ended =
      executor_.block_on(read_and_free(open_retrying(4), Context::background().with_timeout(20ms)));
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code(), StatusCode::kTimedOut);
}

TEST_F(GivingUp, AtTheSameMomentAsTheAnswer) {
  server_.then_send(partial(kContent));
  auto source = open();
  for (int round = 0; round < 100; ++round) {
    std::stop_source stop;
    Context context = Context::background().with_cancel(stop.get_token());
    auto done = boost::asio::co_spawn(executor_.any(), read_and_free(source, context),
                                      boost::asio::use_future);
    std::thread canceller([&stop] { stop.request_stop(); });
    Result<> ended = done.get();
    canceller.join();
    if (!ended) EXPECT_EQ(ended.error().code(), StatusCode::kCancelled);
  }
}

}  // namespace
}  // namespace leat
