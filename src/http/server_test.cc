// SPDX-License-Identifier: Apache-2.0
#include "http/server/server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/id128.h"
#include "http/client.h"
#include "http/raw_sockets_test.h"
#include "runtime/shared_promise.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using Event = std::shared_ptr<SharedPromise<bool>>;

Task<HttpResponse> echo(Context, HttpRequest request) {
  co_return HttpResponse::text(200, request.method + " " + request.query["q"] + " " + request.body);
}

Task<HttpResponse> wait_for(Event inside, Event release, Context context, HttpRequest) {
  inside->set(true);
  Result<bool> released = co_await release->wait(context, "a test");
  if (released) co_return HttpResponse::text(200, "released");
  co_return HttpResponse::text(200, std::string(to_string(released.error().code())));
}

// Sends `pieces` of 1 MiB, each filled with its number, then succeeds or fails.
struct Producer {
  int pieces;
  bool fails = false;
  std::shared_ptr<std::atomic<int>> sent = std::make_shared<std::atomic<int>>(0);
  Event ended = SharedPromise<bool>::make();
};

Task<Result<>> produce(Producer producer, std::shared_ptr<BodyWriter> writer) {
  for (int i = 0; i < producer.pieces; ++i) {
    Buffer buffer(kMiB);
    std::ranges::fill(buffer.span(), static_cast<std::byte>(i));
    Result<> written = co_await writer->write(Bytes(std::move(buffer)));
    if (!written) {
      producer.ended->set(false);
      co_return written;
    }
    producer.sent->fetch_add(1);
  }
  producer.ended->set(true);
  if (producer.fails) co_return error(StatusCode::kCorrupt, "the store is on fire: 100%");
  co_return Result<>();
}

Task<HttpResponse> stream(Producer producer, Context, HttpRequest) {
  HttpResponse response;
  response.stream = [producer](std::shared_ptr<BodyWriter> writer) {
    return produce(producer, std::move(writer));
  };
  co_return response;
}

struct Totals {
  uint64_t bytes = 0;
  bool right = true;
};

Task<Result<>> check_piece(Totals* totals, Bytes piece) {
  for (const Slice& slice : piece.slices()) {
    for (std::byte b : slice.span()) {
      totals->right &= b == static_cast<std::byte>(totals->bytes++ / kMiB);
    }
  }
  co_return Result<>();
}

Task<Result<>> refuse_piece(Bytes) {
  co_return error(StatusCode::kNoSpace, "no room for it");
}

class HttpServerTest : public testing::Test {
 protected:
  void start(HttpServerOptions options = {}) {
    HttpRouter router;
    router.add("GET", "/echo", &echo);
    router.add("POST", "/echo", &echo);
    router.add("GET", "/hang", [this](Context context, HttpRequest request) {
      return wait_for(hanging_, release_, std::move(context), std::move(request));
    });
    router.add("GET", "/stream", [this](Context context, HttpRequest request) {
      return stream(producer_, std::move(context), std::move(request));
    });
    auto started = HttpServer::start(*HttpEndpoint::parse("127.0.0.1:0"), std::move(router),
                                     options, executor_);
    ASSERT_TRUE(started) << started.error().to_string();
    server_ = std::move(*started);
  }
  void TearDown() override {
    if (server_) executor_.block_on(server_->stop());
  }

  uint16_t port() const { return server_->endpoint().port; }
  Result<HttpResponse> get(std::string path, Context context = {}) {
    HttpRequest request;
    request.path = std::move(path);
    return executor_.block_on(HttpClient(server_->endpoint()).request(context, std::move(request)));
  }

  Executor executor_;
  Event hanging_ = SharedPromise<bool>::make(), release_ = SharedPromise<bool>::make();
  Producer producer_{.pieces = 3};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, HeadIsAnsweredAsGetWithoutABody) {
  start();
  RawClient client(port());
  // The second answer begins where the first one's head ends.
  std::string answer = client.request(
      "HEAD /echo?q=long HTTP/1.1\r\nHost: h\r\n\r\n"
      "HEAD /stream HTTP/1.1\r\nHost: h\r\n\r\n"
      "HEAD /nothing HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(answer.find("\r\n\r\nHTTP/1.1 200 OK\r\n"), answer.find("\r\n\r\n")) << answer;
  EXPECT_NE(answer.find("Content-Length: 10\r\n"), std::string::npos) << answer;
  EXPECT_NE(answer.find("HTTP/1.1 404"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
  EXPECT_EQ(answer.find("HEAD long"), std::string::npos) << answer;
  EXPECT_EQ(*producer_.sent, 0);
}

TEST_F(HttpServerTest, NotModifiedHasNoBodyAndNoLength) {
  HttpRouter router;
  router.add("GET", "/same", [](Context, HttpRequest) -> Task<HttpResponse> {
    co_return HttpResponse{.status = 304, .body = "never sent"};
  });
  server_ =
      *HttpServer::start(*HttpEndpoint::parse("127.0.0.1:0"), std::move(router), {}, executor_);
  std::string answer = RawClient(port()).request(
      "GET /same HTTP/1.1\r\nHost: h\r\n\r\n"
      "GET /same HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(answer.find("\r\n\r\nHTTP/1.1 304"), answer.find("\r\n\r\n")) << answer;
  EXPECT_EQ(answer.find("Content-Length"), std::string::npos) << answer;
  EXPECT_EQ(answer.find("never sent"), std::string::npos) << answer;
}

TEST_F(HttpServerTest, ARouterMayAnswerTheRestItself) {
  HttpRouter router;
  router.add("GET", "/echo", &echo);
  router.set_fallback([](Context, HttpRequest request) -> Task<HttpResponse> {
    co_return HttpResponse::text(418, request.method + " " + request.path);
  });
  auto ask = [&](const char* method, const char* path) {
    return executor_.block_on(
        router.handle(Context::background(), {.method = method, .path = path}));
  };
  EXPECT_EQ(ask("GET", "/echo").status, 200);
  EXPECT_EQ(ask("POST", "/echo").body, "POST /echo");
  EXPECT_EQ(ask("GET", "/x").body, "GET /x");
}

TEST_F(HttpServerTest, AnswersRequestsAndKeepsTheConnection) {
  start();
  HttpRequest request;
  request.method = "POST";
  request.path = "/echo";
  request.query["q"] = "a b&c";
  request.body = std::string(100'000, 'x');
  auto response = executor_.block_on(HttpClient(server_->endpoint()).request({}, request));
  ASSERT_TRUE(response) << response.error().to_string();
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->body, "POST a b&c " + request.body);

  std::string twice = RawClient(port()).request(
      "GET /echo?q=1 HTTP/1.1\r\nHost: x\r\n\r\n"
      "GET /echo?q=2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(twice.contains("GET 1 "));
  EXPECT_TRUE(twice.contains("GET 2 "));
}

TEST_F(HttpServerTest, RefusesWhatIsTooLarge) {
  start();
  std::string big(40'000, 'h');
  EXPECT_TRUE(RawClient(port())
                  .request("GET /echo HTTP/1.1\r\nHost: x\r\nX-Big: " + big + "\r\n\r\n")
                  .starts_with("HTTP/1.1 431 "));
  RawClient client(port());
  client.send_text("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n");
  client.send_text(std::string(3'000'000, 'b'));
  EXPECT_TRUE(client.receive_all().starts_with("HTTP/1.1 413 "));
  // The length is not announced.
  RawClient chunked(port());
  chunked.send_text("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 20; ++i) chunked.send_text("10000\r\n" + std::string(0x10000, 'c') + "\r\n");
  EXPECT_TRUE(chunked.receive_all().starts_with("HTTP/1.1 413 "));
}

TEST_F(HttpServerTest, SurvivesGarbage) {
  start();
  unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  EXPECT_TRUE(RawClient(port()).request("\x16\x03\x01 hello\r\n\r\n").starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(RawClient(port())
                  .request("GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n")
                  .starts_with("HTTP/1.1 400 "));
  for (int round = 0; round < 50; ++round) {
    RawClient client(port());
    std::string noise = "GET /echo HTTP/1.1\r\n";
    for (size_t i = random() % 200; i > 0; --i) noise += static_cast<char>(random());
    for (int i = 0; i < 5; ++i) noise[random() % noise.size()] = static_cast<char>(random());
    client.send_text(noise);
    client.end_sending();
    client.receive_all();
  }
  EXPECT_EQ(get("/echo")->status, 200);
}

TEST_F(HttpServerTest, HalfClosedClientGetsItsResponse) {
  start();
  RawClient whole(port());
  whole.send_text("GET /echo?q=half HTTP/1.1\r\nHost: x\r\n\r\n");
  whole.end_sending();
  EXPECT_TRUE(whole.receive_all().contains("GET half "));
  RawClient part(port());
  part.send_text("GET /echo HTT");
  part.end_sending();
  EXPECT_EQ(part.receive_all(), "");
}

TEST_F(HttpServerTest, CutsOffClientsThatSayNothingOrTrickle) {
  start({.idle_timeout = 50ms});
  EXPECT_EQ(RawClient(port()).receive_all(), "");
  RawClient trickle(port());
  trickle.send_text("GET /echo HTTP/1.1\r\n");
  // Each byte arrives within the timeout; the whole header does not.
  for (int i = 0; i < 1000 && trickle.send_text("X: y\r\n"); ++i) poll(nullptr, 0, 10);
  EXPECT_FALSE(trickle.receive_all().contains("200"));
  RawClient body(port());
  body.send_text("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_FALSE(body.receive_all().contains("200"));
}

TEST_F(HttpServerTest, StreamsMoreThanItHolds) {
  producer_.pieces = 64;
  start();
  HttpRequest request;
  request.path = "/stream";
  Totals totals;
  auto response = executor_.block_on(
      HttpClient(server_->endpoint()).request_streamed({}, request, [&](Bytes piece) {
        return check_piece(&totals, std::move(piece));
      }));
  ASSERT_TRUE(response) << response.error().to_string();
  EXPECT_EQ(totals.bytes, 64 * kMiB);
  EXPECT_TRUE(totals.right);
  // An HTTP/1.0 client gets the same body without chunks.
  producer_.pieces = 2;
  producer_.ended = SharedPromise<bool>::make();
  std::string old = RawClient(port()).request("GET /stream HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.size() - old.find("\r\n\r\n") - 4, 2 * kMiB);
}

TEST_F(HttpServerTest, AProducerThatFailsIsSeenWithItsReason) {
  producer_.fails = true;
  start();
  auto response = get("/stream");
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), StatusCode::kUnavailable);
  EXPECT_EQ(response.error().message(), "the store is on fire: 100%");
}

TEST_F(HttpServerTest, AClientGoneInMidStreamEndsTheProducer) {
  producer_.pieces = 100'000;
  start();
  HttpRequest request;
  request.path = "/stream";
  auto response = executor_.block_on(
      HttpClient(server_->endpoint()).request_streamed({}, request, &refuse_piece));
  EXPECT_EQ(response.error().code(), StatusCode::kNoSpace);
  auto ended = executor_.block_on(producer_.ended->wait(Context::background(), "the producer"));
  EXPECT_EQ(ended, false);
  EXPECT_LT(*producer_.sent, 100);
}

TEST_F(HttpServerTest, AClientThatTakesNothingIsCutOff) {
  producer_.pieces = 100'000;
  start({.write_timeout = 50ms});
  RawClient client(port());
  client.send_text("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(executor_.block_on(producer_.ended->wait(Context::background(), "the producer")),
            false);
}

TEST_F(HttpServerTest, StopCancelsHandlersAndSendsResponses) {
  start({.stop_timeout = 10min});
  RawClient idle(port());
  RawClient client(port());
  client.send_text("GET /hang HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(executor_.block_on(hanging_->wait(Context::background(), "the handler")));
  executor_.block_on(server_->stop());
  EXPECT_TRUE(client.receive_all().ends_with("cancelled"));
  EXPECT_EQ(idle.receive_all(), "");
  auto late = get("/echo");
  EXPECT_EQ(late.error().code(), StatusCode::kUnavailable);
  server_.reset();
}

TEST_F(HttpServerTest, TheClientKeepsItsDeadlineAndCancellation) {
  start();
  auto late = get("/hang", Context::background().with_timeout(20ms));
  EXPECT_EQ(late.error().code(), StatusCode::kTimedOut);
  std::stop_source stop;
  stop.request_stop();
  auto cancelled = get("/echo", Context::background().with_cancel(stop.get_token()));
  EXPECT_EQ(cancelled.error().code(), StatusCode::kCancelled);
}

TEST_F(HttpServerTest, ConnectionsPastTheLimitWaitTheirTurn) {
  start({.connections_max = 1});
  auto first = std::make_unique<RawClient>(port());
  first->send_text("GET /echo?q=1 HTTP/1.1\r\nHost: x\r\n\r\n");
  RawClient second(port());
  second.send_text("GET /echo?q=2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  first.reset();
  EXPECT_TRUE(second.receive_all().contains("GET 2 "));
}

TEST_F(HttpServerTest, ConnectionsOverTheLimitGet503) {
  start({.connections_max = 1, .overload_rejects_max = 1});
  RawClient first(port());  // is served all the time, so it never counts as idle
  first.send_text("GET /hang HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  ASSERT_TRUE(executor_.block_on(hanging_->wait({}, "the handler")));
  for (int i = 0; i < 3; ++i) {
    auto refused = get("/echo");
    ASSERT_TRUE(refused) << refused.error().to_string();
    EXPECT_EQ(refused->status, 503);
    EXPECT_TRUE(refused->body.contains("unavailable")) << refused->body;
  }
  RawClient silent(port());  // takes the only slot for rejected clients
  EXPECT_EQ(get("/echo")->status, 503);
  release_->set(true);
  const auto end = Clock::now() + 30s;
  int status = 503;
  while (status == 503 && Clock::now() < end) status = get("/echo")->status;
  EXPECT_EQ(status, 200);
}

// An idle connection must not block a new client; a connection with a response in flight stays.
TEST_F(HttpServerTest, WhoAsksNothingGivesPlaceToWhoeverComes) {
  start({.connections_max = 64, .connections_per_address_max = 128, .overload_rejects_max = 1});
  RawClient answered(port());
  answered.send_text("GET /hang HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(executor_.block_on(hanging_->wait({}, "the handler")));
  std::vector<std::unique_ptr<HttpClient>> kept;
  const auto come = [&] {
    kept.push_back(
        std::make_unique<HttpClient>(server_->endpoint(), HttpClientOptions{.connections_max = 1}));
    return executor_.block_on(kept.back()->request({}, {.path = "/echo"}))->status;
  };
  for (int i = 0; i < 63; ++i) ASSERT_EQ(come(), 200) << i;
  poll(nullptr, 0, 150);
  (void)come();  // the first one above the limit may arrive before any eviction
  for (int i = 0; i < 30; ++i) EXPECT_EQ(come(), 200) << i;
  // A client with a closed connection opens another one.
  EXPECT_EQ(executor_.block_on(kept.front()->request({}, {.path = "/echo"}))->status, 200);
  pollfd open{.fd = answered.fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&open, 1, 0), 0);
}

TEST(HttpUnixSocket, AClientThatIsSlowButSteadyGetsEverything) {
  Executor executor;
  std::string path = testing::TempDir() + "/leat_slow_" + Id128::random().to_hex();
  HttpRouter router;
  router.add("GET", "/all", [](Context, HttpRequest) -> Task<HttpResponse> {
    HttpResponse response;
    // The whole response takes longer than any part of it may.
    response.stream = [](std::shared_ptr<BodyWriter> writer) {
      return writer->write(Bytes(Buffer(16 * kMiB)));
    };
    co_return response;
  });
  constexpr auto kPatience = 500ms;
  auto server = HttpServer::start(HttpEndpoint::unix_socket(path), std::move(router),
                                  {.write_timeout = kPatience}, executor);
  ASSERT_TRUE(server) << server.error().to_string();
  RawClient::Received heard;
  // If the reader was not scheduled for long, the measurement is void.
  for (int tries = 0; tries < 10; ++tries) {
    RawClient client(path);
    client.send_text("GET /all HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    heard = client.receive_slowly();
    if (heard.text.size() > 16 * kMiB || heard.longest_pause < kPatience / 2) break;
  }
  EXPECT_GT(heard.text.size(), 16 * kMiB);
  executor.block_on((*server)->stop());
}

TEST(HttpUnixSocket, IsPrivateAndReplacesOnlyAStaleOne) {
  Executor executor;
  auto folder =
      std::filesystem::path(testing::TempDir()) / ("leat_http_" + Id128::random().to_hex());
  std::filesystem::create_directories(folder);
  std::string path = folder / "control.sock";
  // The socket file of a killed server.
  int dead = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(dead, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  close(dead);

  auto endpoint = HttpEndpoint::unix_socket(path);
  HttpRouter router;
  router.add("GET", "/echo", &echo);
  auto server = HttpServer::start(endpoint, router, {}, executor);
  ASSERT_TRUE(server) << server.error().to_string();
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
  EXPECT_EQ(HttpServer::start(endpoint, router, {}, executor).error().code(), StatusCode::kBusy);
  HttpRequest request;
  request.path = "/echo";
  EXPECT_EQ(executor.block_on(HttpClient(endpoint).request({}, request))->status, 200);
  executor.block_on((*server)->stop());
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(executor.block_on(HttpClient(endpoint).request({}, request)).error().code(),
            StatusCode::kUnavailable);
  std::ofstream(path) << "precious";
  EXPECT_EQ(HttpServer::start(endpoint, router, {}, executor).error().code(), StatusCode::kExists);
  auto too_long = HttpEndpoint::unix_socket("/" + std::string(200, 'x'));
  EXPECT_EQ(HttpServer::start(too_long, router, {}, executor).error().code(),
            StatusCode::kInvalidArgument);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace leat
