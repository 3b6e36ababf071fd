// SPDX-License-Identifier: Apache-2.0
// Tests the shim's GETs on plain connections: reused and dead connections, errors, silence, faults
// at random positions, and callers that give up.
#include <gmock/gmock.h>
#include <poll.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>

#include "source/lying_server_test.h"
#include "source/shim/leat_store.h"
#include "source/store_reader_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using testing::content;
using ::testing::HasSubstr;
using testing::lawful;
using testing::LyingServer;
using testing::partial_head;
using testing::StoreReader;

using Exchange = LyingServer::Exchange;

constexpr uint64_t kSize = 16;
constexpr uint64_t kLarge = 100'000;  // does not arrive together with the head

class TransportTest : public ::testing::Test {
 protected:
  // Two reads of kLarge at different offsets; the second must be right whatever happened before.
  void expect_second_read() { EXPECT_TRUE(reader_.reads(777, kLarge)); }

  LyingServer server_;
  StoreReader reader_{server_.endpoint()};
};

// Reused connections; only Leat's own transport promises how often it connects.
class ConnectionTest : public TransportTest {};

TEST_F(ConnectionTest, CarriesTheNextRead) {
  server_.then_send_and_keep(lawful(0, kSize));
  server_.then_send_and_keep(lawful(5, kLarge));
  server_.then_send_and_keep(lawful(7, kSize));
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_TRUE(reader_.reads(5, kLarge));
  EXPECT_TRUE(reader_.reads(7, kSize));
  EXPECT_EQ(server_.connections(), 1u);
  EXPECT_EQ(server_.requests().size(), 3u);
}

TEST_F(ConnectionTest, IsReusedAfterADenialAndChunks) {
  server_.then_send_and_keep("HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno!");
  server_.then_send_and_keep(partial_head(0, 4) +
                             "Transfer-Encoding: chunked\r\n\r\n4\r\n!@_%\r\n0\r\n\r\n");
  server_.then_send_and_keep(lawful(7, kSize));
  EXPECT_EQ(reader_.failure(0, kSize).code(), StatusCode::kNotFound);
  EXPECT_TRUE(reader_.reads(0, 4));
  EXPECT_TRUE(reader_.reads(7, kSize));
  EXPECT_EQ(server_.connections(), 1u);
}

TEST_F(ConnectionTest, IsNotReusedWhenTheServerSaysSo) {
  for (const char* line : {"Connection: close\r\n", "Connection: foo, Close\r\n"}) {
    std::string answer = lawful(0, kSize);
    answer.insert(answer.find("\r\n") + 2, line);
    server_.then_send_and_keep(answer);
  }
  std::string old = lawful(0, kSize);
  old.replace(0, 8, "HTTP/1.0");
  server_.then_send_and_keep(old);
  server_.then_send_and_keep(lawful(0, kSize));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_EQ(server_.connections(), 4u);
}

TEST_F(ConnectionTest, ClosedWhileIdleCostsNoAttempt) {
  server_.then_send(lawful(0, kLarge));  // and closes, against the announced keep-alive
  server_.then_send_and_keep(lawful(777, kLarge));
  EXPECT_TRUE(reader_.reads(0, kLarge));
  server_.await_closed(1);
  expect_second_read();
  EXPECT_EQ(server_.connections(), 2u);
}

TEST_F(ConnectionTest, ResetWhileIdleCostsNoAttempt) {
  server_.then([](const Exchange& exchange) {
    exchange.send(lawful(0, kLarge));
    exchange.keep();
    // The client has the whole response before the connection is closed.
    pollfd unsent{.fd = exchange.fd, .events = 0, .revents = 0};
    (void)poll(&unsent, 1, 0);
  });
  server_.then([](const Exchange& exchange) { exchange.reset(); });
  server_.then_send_and_keep(lawful(777, kLarge));
  EXPECT_TRUE(reader_.reads(0, kLarge));
  expect_second_read();
  EXPECT_EQ(server_.requests().size(), 3u);
  EXPECT_EQ(server_.connections(), 2u);
}

TEST_F(ConnectionTest, ClosedWithoutResponseIsRetriedOnANewOne) {
  server_.then_send_and_keep(lawful(0, kLarge));
  server_.then([](const Exchange&) {});
  server_.then_send_and_keep(lawful(777, kLarge));
  EXPECT_TRUE(reader_.reads(0, kLarge));
  expect_second_read();
  EXPECT_EQ(server_.requests().size(), 3u);
  EXPECT_EQ(server_.connections(), 2u);
}

// As if a device on the path had dropped all of them.
TEST_F(ConnectionTest, AfterADeadOneIdleOnesAreNotTried) {
  std::atomic<int> served = 0;
  server_.then([&](const Exchange& exchange) {
    if (served++ < 2) {
      server_.await_requests(2);  // so that there are two connections
    } else if (exchange.connection < 2) {
      return exchange.stall();
    }
    testing::serve(exchange);
  });
  std::string other(kSize, '?');
  auto task = reader_.source().read(Context::background(), {"key", {3, kSize}, {}},
                                    std::as_writable_bytes(std::span(other)));
  auto done =
      boost::asio::co_spawn(reader_.executor.any(), std::move(task), boost::asio::use_future);
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_TRUE(done.get());
  ASSERT_EQ(server_.connections(), 2u);
  reader_.timeouts.first_byte_timeout = 50ms;
  EXPECT_EQ(reader_.failure(7, kSize).code(), StatusCode::kUnavailable);
  reader_.timeouts.first_byte_timeout = 1h;  // only the dead one times out
  EXPECT_TRUE(reader_.reads(7, kSize));
  EXPECT_EQ(server_.connections(), 3u);
}

TEST_F(ConnectionTest, AFreshOneThatIsClosedIsAFailedAttempt) {
  server_.then([](const Exchange&) {});
  EXPECT_EQ(reader_.failure(0, kSize).code(), StatusCode::kUnavailable);
  EXPECT_EQ(server_.requests().size(), 1u);
}

TEST_F(ConnectionTest, AnAnswerThatHasBegunIsNotAskedAgain) {
  for (const char* begun : {"H", "HTTP/1.1 206 Partial Content\r\n", "HTTP/1.1 100 Go on\r\n\r\n",
                            "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTT"}) {
    LyingServer server;
    StoreReader reader(server.endpoint());
    server.then_send_and_keep(lawful(0, kSize));
    server.then_send(begun);
    EXPECT_TRUE(reader.reads(0, kSize));
    EXPECT_EQ(reader.failure(0, kSize).code(), StatusCode::kUnavailable) << begun;
    EXPECT_EQ(server.requests().size(), 2u) << begun;
  }
}

TEST_F(ConnectionTest, CutInTheBodyWhenReused) {
  server_.then_send_and_keep(lawful(0, kSize));
  server_.then_send(lawful(0, kLarge).substr(0, 50'000));
  server_.then_send(lawful(777, kLarge));
  EXPECT_TRUE(reader_.reads(0, kSize));
  Status status = reader_.failure(0, kLarge);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.to_string(), HasSubstr("of 100000 bytes"));
  expect_second_read();
  EXPECT_EQ(server_.requests().size(), 3u);
}

// An unsolicited second response with a matching head.
TEST_F(ConnectionTest, StrayBytesAreNotTheNextAnswer) {
  std::string stray = partial_head(777, kLarge) + "Content-Length: 100000\r\n\r\n";
  stray.append(kLarge, 'X');
  for (uint64_t size : {kSize, kLarge}) {
    LyingServer server;
    StoreReader reader(server.endpoint());
    server.then_send_and_keep(lawful(0, size) + stray);
    server.then_send_and_keep(lawful(777, kLarge));
    EXPECT_TRUE(reader.reads(0, size));
    EXPECT_TRUE(reader.reads(777, kLarge)) << size;
    EXPECT_EQ(server.connections(), 2u);
  }
}

TEST_F(ConnectionTest, LateStrayBytesAreNotTheNextResponse) {
  LyingServer other;
  other.then_send_and_keep(lawful(0, kSize));
  StoreReader elsewhere(other.endpoint());
  std::promise<void> read;
  std::promise<void> sent;
  server_.then([&](const Exchange& exchange) {
    exchange.send(lawful(0, kSize));
    read.get_future().wait();
    exchange.send(partial_head(7, kSize) + "Content-Length: 16\r\n\r\nXXXXXXXXXXXXXXXX");
    sent.set_value();
    exchange.stall();
  });
  server_.then_send_and_keep(lawful(7, kSize));
  EXPECT_TRUE(reader_.reads(0, kSize));
  read.set_value();
  sent.get_future().wait();
  // The shim receives earlier events before this response.
  EXPECT_TRUE(elsewhere.reads(0, kSize));
  EXPECT_TRUE(reader_.reads(7, kSize));
}

// --- answers that are lawful ---

TEST_F(TransportTest, InterimAnswersArePassedOver) {
  server_.then_send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" +
                    lawful(0, kLarge));
  EXPECT_TRUE(reader_.reads(0, kLarge));
}

TEST_F(TransportTest, ABodyMayEndWithTheConnection) {
  server_.then_send(partial_head(0, kLarge) + "\r\n" + content(0, kLarge));
  EXPECT_TRUE(reader_.reads(0, kLarge));
}

TEST_F(TransportTest, ChunksWithExtensionsAndTrailers) {
  std::string body;
  uint64_t at = 0;
  for (uint64_t size : {1, 2, 4095, 4096, 4097, 50'000, 1}) {
    body += fmt::format("{:x};name=value\r\n{}\r\n", size, content(at, size));
    at += size;
  }
  body += "0\r\nX-Checksum: abc\r\nX-More: def\r\n\r\n";
  server_.then_send(partial_head(0, at) + "Transfer-Encoding: chunked\r\n\r\n" + body);
  EXPECT_TRUE(reader_.reads(0, at));
}

TEST_F(TransportTest, WholeObjectIsAcceptedForAFullRange) {
  server_.then_send("HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n" + content(0, kSize));
  EXPECT_TRUE(reader_.reads(0, kSize));
}

TEST_F(TransportTest, ADribbleIsNoSilence) {
  reader_.timeouts.idle_timeout = 1min;
  server_.then([](const Exchange& exchange) { exchange.dribble(lawful(0, 100), 200us); });
  EXPECT_TRUE(reader_.reads(0, 100));
}

TEST_F(TransportTest, TheReportSaysWhenTheAnswerBegan) {
  server_.then([](const Exchange& exchange) {
    std::this_thread::sleep_for(30ms);  // the measured time
    exchange.send(lawful(0, kSize));
  });
  auto start = Clock::now();
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_GE(reader_.report.first_byte, 30ms);
  EXPECT_LE(reader_.report.first_byte, Clock::now() - start);
}

TEST_F(TransportTest, ARedirectIsFollowed) {
  LyingServer other;
  other.then_send(lawful(0, kLarge));
  server_.then_send(fmt::format(
      "HTTP/1.1 307 Temporary Redirect\r\nLocation: {}/elsewhere/key\r\nContent-Length: 0\r\n\r\n",
      other.endpoint()));
  EXPECT_TRUE(reader_.reads(0, kLarge));
  ASSERT_EQ(other.requests().size(), 1u);
  EXPECT_THAT(other.requests()[0], HasSubstr("GET /elsewhere/key "));
  EXPECT_THAT(other.requests()[0], HasSubstr("range: bytes=0-99999"));
}

TEST_F(TransportTest, ANameWithAnAddressThatRefuses) {
  // If localhost is also ::1, nothing listens there.
  server_.then_send(lawful(0, kSize));
  StoreReader reader(server_.endpoint("localhost"));
  EXPECT_TRUE(reader.reads(0, kSize));
}

TEST_F(TransportTest, TwoHundredReadsAtOnce) {
  server_.then_send_and_keep(lawful(3, 5000));
  std::vector<std::string> buffers(200, std::string(5000, '?'));
  std::vector<std::future<Result<>>> reads;
  for (std::string& into : buffers) {
    auto task =
        reader_.source().read(Context::background().with_timeout(20s), {"key", {3, 5000}, {}, {}},
                              std::as_writable_bytes(std::span(into)));
    reads.push_back(
        boost::asio::co_spawn(reader_.executor.any(), std::move(task), boost::asio::use_future));
  }
  for (size_t i = 0; i < reads.size(); ++i) {
    Result<> done = reads[i].get();
    EXPECT_TRUE(done) << done.error().to_string();
    EXPECT_TRUE(buffers[i] == content(3, 5000));
  }
}

// --- refusals ---

constexpr char kSlowDown[] =
    "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>Reduce</Message></Error>";

TEST_F(TransportTest, ARefusalInChunksIsUnderstood) {
  server_.then_send(
      fmt::format("HTTP/1.1 503 Slow Down\r\nTransfer-Encoding: chunked\r\nRetry-After: 7\r\n\r\n"
                  "5\r\n{}\r\n{:X}\r\n{}\r\n0\r\n\r\n",
                  std::string_view(kSlowDown, 5), sizeof kSlowDown - 6, kSlowDown + 5));
  Status status = reader_.failure(0, kSize);
  EXPECT_EQ(status.code(), StatusCode::kThrottled);
  EXPECT_THAT(status.to_string(), HasSubstr("503 SlowDown: Reduce"));
  EXPECT_EQ(reader_.report.retry_after, 7s);
  EXPECT_GT(reader_.report.first_byte, 0s);
}

TEST_F(TransportTest, AnAbsurdRetryAfterIsBounded) {
  for (const char* value : {"9999999999999999", "18446744073709551615", "99999999999999999999",
                            "-1", "Fri, 31 Dec 2027 23:59:59 GMT", ""}) {
    LyingServer server;
    StoreReader reader(server.endpoint());
    server.then_send(
        fmt::format("HTTP/1.1 503 Busy\r\nRetry-After: {}\r\nContent-Length: 0\r\n\r\n", value));
    EXPECT_EQ(reader.failure(0, kSize).code(), StatusCode::kUnavailable);
    EXPECT_LE(reader.report.retry_after, 24h) << value;
    EXPECT_GE(reader.report.retry_after, 0s) << value;
  }
}

TEST_F(TransportTest, ARefusalWhoseTextIsCutIsStillARefusal) {
  for (const char* framing : {"Content-Length: 5000", "Transfer-Encoding: chunked", "X: y"}) {
    LyingServer server;
    StoreReader reader(server.endpoint());
    server.then_send(fmt::format("HTTP/1.1 404 Not Found\r\n{}\r\n\r\n5\r\n<Err", framing));
    Status status = reader.failure(0, kSize);
    EXPECT_EQ(status.code(), StatusCode::kNotFound) << framing << ": " << status.to_string();
  }
}

TEST_F(TransportTest, AnEndlessRefusalEnds) {
  for (const char* framing : {"Content-Length: 1000000000000", "X: y"}) {
    LyingServer server;
    StoreReader reader(server.endpoint());
    server.then([framing](const Exchange& exchange) {
      exchange.send(fmt::format("HTTP/1.1 404 Not Found\r\n{}\r\n\r\n", framing));
      const std::string text(10'000, 'x');
      while (exchange.send(text)) {
      }
    });
    EXPECT_EQ(reader.failure(0, kSize).code(), StatusCode::kNotFound);
    server.await_closed(1);
  }
}

TEST_F(TransportTest, ARefusalThatDribblesForEverEnds) {
  reader_.timeouts.idle_timeout = 100ms;
  server_.then([](const Exchange& exchange) {
    exchange.send("HTTP/1.1 404 Not Found\r\nContent-Length: 60000\r\n\r\n");
    while (exchange.dribble("x", 10ms)) {
    }
  });
  EXPECT_EQ(reader_.failure(0, kSize).code(), StatusCode::kNotFound);
}

// --- silence ---

TEST_F(TransportTest, SilenceBeforeTheHead) {
  server_.then_send_and_keep(lawful(0, kSize));
  server_.then([](const Exchange& exchange) { exchange.stall(); });
  // The connection is established, so its set-up is not the slow part.
  EXPECT_TRUE(reader_.reads(0, kSize));
  reader_.timeouts.first_byte_timeout = 50ms;
  Status status = reader_.failure(0, kSize);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.to_string(), HasSubstr("no bytes from the store for 50 ms"));
  EXPECT_EQ(reader_.report.first_byte, 0s);
}

TEST_F(TransportTest, SilenceInTheHead) {
  reader_.timeouts.first_byte_timeout = 50ms;
  server_.then([](const Exchange& exchange) {
    exchange.send("HTTP/1.1 206 Partial");
    exchange.stall();
  });
  EXPECT_EQ(reader_.failure(0, kSize).code(), StatusCode::kUnavailable);
}

TEST_F(TransportTest, SilenceInTheBodyAndInItsFraming) {
  reader_.timeouts.idle_timeout = 30ms;
  for (const char* answer : {"Content-Length: 16\r\n\r\n0123", "\r\n0123456789abcdef",
                             "Transfer-Encoding: chunked\r\n\r\n1",
                             "Transfer-Encoding: chunked\r\n\r\n10\r\n0123456789abcdef",
                             "Transfer-Encoding: chunked\r\n\r\n10\r\n0123456789abcdef\r\n0\r\n"}) {
    LyingServer server;
    server.then([&](const Exchange& exchange) {
      exchange.send(partial_head(0, kSize) + answer);
      exchange.stall();
    });
    StoreReader reader(server.endpoint());
    reader.timeouts = reader_.timeouts;
    Status status = reader.failure(0, kSize);
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << answer;
    EXPECT_THAT(status.to_string(), HasSubstr("no bytes from the store for 30 ms"));
  }
}

// Its queue is full: new connections wait for ever.
class FullListener {
 public:
  FullListener() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    LEAT_CHECK(bind(listener_.fd(), any, size) == 0 && listen(listener_.fd(), 0) == 0);
    LEAT_CHECK(getsockname(listener_.fd(), any, &size) == 0);
    port_ = ntohs(address.sin_port);
    filler_ = File(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    LEAT_CHECK(connect(filler_.fd(), any, size) == 0);
  }
  std::string endpoint() const { return fmt::format("http://127.0.0.1:{}", port_); }
  // Waits for a connection attempt.
  void await_connecting() const {
    const std::string mark = fmt::format(" 0100007F:{:04X} 02 ", port_);
    while (true) {
      std::ifstream table("/proc/net/tcp");
      std::string text(std::istreambuf_iterator<char>(table), {});
      if (text.contains(mark)) return;
      std::this_thread::yield();
    }
  }

 private:
  File listener_;
  File filler_;
  uint16_t port_ = 0;
};

TEST_F(TransportTest, ConnectingCountsAsSilence) {
  FullListener full;
  StoreReader reader(full.endpoint());
  reader.timeouts.first_byte_timeout = 100ms;
  Status status = reader.failure(0, kSize);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.to_string(), HasSubstr("for 100 ms"));
}

TEST_F(ConnectionTest, ToANameThatIsNobodys) {
  StoreReader reader("http://nobody.invalid:9");
  Status status = reader.failure(0, kSize);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.to_string(), HasSubstr("resolving nobody.invalid"));
}

// --- callers that give up ---

// The memory is freed as soon as the task has ended: the sanitizer catches later writes. Only its
// context ends the task.
Task<Result<>> read_and_free(Source& source, Context context) {
  auto into = std::make_unique<std::byte[]>(kLarge);
  auto room = std::span(into.get(), kLarge);
  ReadRequest request{"key", {0, kLarge}, {}, {.first_byte_timeout = 1h, .idle_timeout = 1h}};
  Result<> done = co_await source.read(context, request, room);
  into.reset();
  co_return done;
}

class CancelTest : public TransportTest {
 protected:
  void cancel(StoreReader& reader, std::function<void()> await) {
    std::stop_source stop;
    auto task = read_and_free(reader.source(), Context::background().with_cancel(stop.get_token()));
    auto done =
        boost::asio::co_spawn(reader.executor.any(), std::move(task), boost::asio::use_future);
    await();
    stop.request_stop();
    Result<> ended = done.get();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code(), StatusCode::kCancelled) << ended.error().to_string();
  }
};

TEST_F(CancelTest, WhileConnecting) {
  FullListener full;
  StoreReader reader(full.endpoint());
  cancel(reader, [&] { full.await_connecting(); });
}

TEST_F(CancelTest, BeforeTheHeadInItAndInTheBody) {
  const std::string answer = lawful(0, kLarge);
  for (size_t sent :
       {size_t{0}, size_t{20}, answer.find("\r\n\r\n") + 4, size_t{50'000}, answer.size() - 1}) {
    std::promise<void> stalled;
    LyingServer server;
    StoreReader reader(server.endpoint());
    server.then([&](const Exchange& exchange) {
      exchange.send(answer.substr(0, sent));
      stalled.set_value();
      exchange.stall();
      exchange.send(answer.substr(sent));
    });
    cancel(reader, [&] { stalled.get_future().wait(); });
  }
}

TEST_F(CancelTest, WhileTheBodyPours) {
  std::promise<void> pouring;
  server_.then([&](const Exchange& exchange) {
    exchange.send(lawful(0, kLarge).substr(0, 1000));
    pouring.set_value();
    if (exchange.dribble(std::string(50'000, 'x'), 100us)) exchange.stall();
  });
  cancel(reader_, [&] { pouring.get_future().wait(); });
  server_.await_closed(1);
}

// --- many at once, with faults at random places ---

// A valid response, cut or corrupted at random, on a connection that may be kept.
void serve_badly(const Exchange& exchange, uint64_t dice) {
  std::mt19937_64 random(dice);
  auto [offset, size] = testing::range_of(exchange.request);
  std::string answer = lawful(offset, size);
  switch (random() % 4) {
    case 0:
      answer = partial_head(offset, size) + "\r\n" + content(offset, size);
      break;
    case 1:
      answer = partial_head(offset, size) + "Transfer-Encoding: chunked\r\n\r\n";
      for (uint64_t at = 0; at < size;) {
        uint64_t some = std::min<uint64_t>(1 + random() % 10'000, size - at);
        answer += fmt::format("{:x}\r\n{}\r\n", some, content(offset + at, some));
        at += some;
      }
      answer += "0\r\n\r\n";
      break;
    default:
      break;
  }
  const bool until_close = !answer.contains("Content-Length") && !answer.contains("chunked");
  switch (random() % 8) {
    case 0:
      exchange.send(answer.substr(0, random() % answer.size()));
      return;
    case 1:
      exchange.send(answer.substr(0, random() % answer.size()));
      return exchange.reset();
    case 2:
      return;
    case 3:
      exchange.send(answer + answer);  // the second one is unsolicited
      break;
    default:
      for (size_t at = 0; at < answer.size();) {
        size_t some = 1 + random() % 20'000;
        exchange.send(std::string_view(answer).substr(at, some));
        at += some;
      }
  }
  if (!until_close) exchange.keep();
}

TEST(CutsTest, ManyReadsGetTheRightBytesOrAnError) {
  const char* given = std::getenv("LEAT_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device()();
  std::cout << "seed: LEAT_TEST_SEED=" << seed << std::endl;
  std::atomic<uint64_t> served = 0;
  LyingServer server;
  server.then(
      [&](const Exchange& exchange) { serve_badly(exchange, seed * 1'000'003 + served++); });
  StoreReader reader(server.endpoint());
  Source& source = reader.source();
  std::mt19937_64 random(seed);
  size_t right = 0;
  size_t failed = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::pair<uint64_t, std::string>> wanted;
    for (int i = 0; i < 25; ++i) {
      wanted.emplace_back(random() % 1'000'000, std::string(1 + random() % 60'000, '?'));
    }
    std::vector<std::future<Result<>>> reads;
    for (auto& [offset, into] : wanted) {
      auto task = source.read(Context::background().with_timeout(20s),
                              {"key", {offset, into.size()}, {}, {}},
                              std::as_writable_bytes(std::span(into)));
      reads.push_back(
          boost::asio::co_spawn(reader.executor.any(), std::move(task), boost::asio::use_future));
    }
    for (size_t i = 0; i < reads.size(); ++i) {
      Result<> done = reads[i].get();
      if (done) {
        ++right;
        EXPECT_TRUE(wanted[i].second == content(wanted[i].first, wanted[i].second.size()));
      } else {
        ++failed;
        EXPECT_EQ(done.error().code(), StatusCode::kUnavailable) << done.error().to_string();
      }
    }
  }
  EXPECT_GT(right, 100u);
  EXPECT_GT(failed, 20u);
}

// --- pieces of memory, which only the C ABI has ---

class PiecesTest : public ::testing::Test {
 protected:
  struct Done {
    std::promise<std::pair<leat_code, std::string>> promise;
    // A race detector does not see the synchronisation of the shim's threads.
    std::atomic<bool> published = false;
    std::atomic<size_t> told = 0;
    static void arrived(void* user, size_t bytes) {
      auto* done = static_cast<Done*>(user);
      (void)done->published.load(std::memory_order_acquire);
      EXPECT_GT(bytes, done->told.load());
      done->told = bytes;
    }
    static void set(void* user, const leat_outcome* outcome) {
      (void)static_cast<Done*>(user)->published.load(std::memory_order_acquire);
      static_cast<Done*>(user)->promise.set_value(
          {outcome->code, std::string(outcome->message.data, outcome->message.size)});
    }
  };

  PiecesTest() {
    auto text = [](std::string_view from) { return leat_text{from.data(), from.size()}; };
    const std::string endpoint = server_.endpoint();
    const leat_option options[] = {
        {text("scheme"), text("s3")},       {text("bucket"), text("bucket")},
        {text("endpoint"), text(endpoint)}, {text("region"), text("us-east-1")},
        {text("anonymous"), text("true")},
    };
    char reason[200] = "";
    store_ = leat_store_open(options, std::size(options), reason, sizeof reason);
    EXPECT_NE(store_, nullptr) << reason;
  }
  ~PiecesTest() override { leat_store_close(store_); }

  // Reads from byte 0 into pieces of these sizes, each allocated separately.
  leat_code read(const std::vector<size_t>& sizes) {
    pieces_.clear();
    std::vector<leat_memory> into;
    for (size_t size : sizes) {
      pieces_.push_back(std::make_unique<char[]>(size));
      into.push_back({pieces_.back().get(), size});
    }
    Done done;
    done.published.store(true, std::memory_order_release);
    leat_request* request = leat_store_read(store_, {"key", 3}, 0, into.data(), into.size(), {},
                                            {5000, 5000}, &Done::arrived, &Done::set, &done);
    into.assign(into.size(), leat_memory{nullptr, 0});  // the array was copied
    auto [code, message] = done.promise.get_future().get();
    leat_request_free(request);
    message_ = message;
    told_ = done.told;
    text_.clear();
    for (size_t i = 0; i < sizes.size(); ++i) text_.append(pieces_[i].get(), sizes[i]);
    return code;
  }

  LyingServer server_;
  leat_store* store_ = nullptr;
  std::vector<std::unique_ptr<char[]>> pieces_;
  std::string text_;
  std::string message_;
  size_t told_ = 0;  // arrived while the rest was in flight
};

// The stock client buffers the bytes itself, and reports none before it has all.
bool by_the_stock_client() {
  const char* transport = std::getenv("LEAT_TRANSPORT");
  return transport != nullptr && std::string_view(transport) == "stock";
}

TEST_F(PiecesTest, AreFilledInTheirOrder) {
  std::mutex mutex;
  std::string answer;
  server_.then([&](const Exchange& exchange) {
    const std::string now = [&] {  // another one as soon as this is sent
      std::lock_guard lock(mutex);
      return answer;
    }();
    exchange.send(now.substr(0, now.size() / 2));
    exchange.send(now.substr(now.size() / 2));
    if (now.contains("Content-Length") || now.contains("chunked")) exchange.keep();
  });
  for (const std::vector<size_t>& sizes : std::vector<std::vector<size_t>>{
           {1, 1}, {3, 0, 5, 1, 0}, {4096, 4096}, {100, 70'000, 1, 30'000}, {50'000, 50'000}}) {
    uint64_t total = 0;
    for (size_t size : sizes) total += size;
    std::string chunks;
    for (uint64_t at = 0; at < total; at += 1500) {
      uint64_t size = std::min<uint64_t>(1500, total - at);
      chunks += fmt::format("{:x}\r\n{}\r\n", size, content(at, size));
    }
    for (const std::string& next :
         {lawful(0, total), partial_head(0, total) + "\r\n" + content(0, total),
          partial_head(0, total) + "Transfer-Encoding: chunked\r\n\r\n" + chunks + "0\r\n\r\n"}) {
      {
        std::lock_guard lock(mutex);
        answer = next;
      }
      EXPECT_EQ(read(sizes), LEAT_OK) << message_;
      EXPECT_TRUE(text_ == content(0, total)) << ::testing::PrintToString(sizes);
      // A response that may turn out too long is not reported.
      const bool told = next.contains("Content-Length") && !by_the_stock_client();
      EXPECT_EQ(told_, told ? total : 0);
    }
  }
}

TEST_F(PiecesTest, ABodyOfAnotherLengthIsNoSuccess) {
  server_.then_send(partial_head(0, 10) + "\r\n" + content(0, 9));
  server_.then_send(partial_head(0, 10) + "\r\n" + content(0, 11));
  EXPECT_EQ(read({3, 7}), LEAT_UNAVAILABLE);
  EXPECT_EQ(read({3, 7}), LEAT_UNAVAILABLE);
}

TEST_F(PiecesTest, ArrivedBytesStayInPlace) {
  const std::string all = lawful(0, 100'000);
  server_.then_send(all.substr(0, all.size() - 10));
  EXPECT_EQ(read({50'000, 50'000}), LEAT_UNAVAILABLE);
  EXPECT_EQ(told_, by_the_stock_client() ? 0 : 100'000u - 10);
  EXPECT_TRUE(text_.substr(0, told_) == content(0, told_));
}

TEST_F(PiecesTest, NoneAtAllIsAnError) {
  server_.then_send(lawful(0, 1));
  EXPECT_NE(read({}), LEAT_OK);
  EXPECT_NE(read({0, 0}), LEAT_OK);
}

}  // namespace
}  // namespace leat
