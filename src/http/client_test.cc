// SPDX-License-Identifier: Apache-2.0
#include "http/client.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <future>
#include <mutex>
#include <set>
#include <sstream>

#include "http/raw_sockets_test.h"
#include "http/server/server.h"
#include "runtime/shared_promise.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using Event = std::shared_ptr<SharedPromise<bool>>;

HttpRequest get(std::string path = "/") {
  return {.path = std::move(path)};
}

HttpRequest post(std::string body) {
  return {.method = "POST", .body = std::move(body)};
}

// Records requests and their clients.
class Seen {
 public:
  void add(const HttpRequest& request) {
    std::lock_guard lock(mutex_);
    ++requests_;
    peers_.insert(request.peer);
    last_peer_ = request.peer;
  }
  // Port of the last client.
  uint16_t last_port() const {
    std::lock_guard lock(mutex_);
    return HttpEndpoint::parse(last_peer_)->port;
  }
  size_t connections() const {
    std::lock_guard lock(mutex_);
    return peers_.size();
  }
  size_t requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::string> peers_;
  std::string last_peer_;
  size_t requests_ = 0;
};

Task<HttpResponse> answer(Seen* seen, Context, HttpRequest request) {
  seen->add(request);
  co_return HttpResponse::text(200, request.target + request.body);
}

Task<HttpResponse> wait_for(Event inside, Event release, Context context, HttpRequest) {
  inside->set(true);
  auto released = co_await release->wait(context, "a test");
  co_return HttpResponse::text(200, released ? "released" : "ended");
}

class HttpClientTest : public testing::Test {
 protected:
  void SetUp() override {
    HttpRouter router;
    router.add("GET", "/hang", [this](Context context, HttpRequest request) {
      return wait_for(inside_, release_, std::move(context), std::move(request));
    });
    router.set_fallback([this](Context context, HttpRequest request) {
      return answer(&seen_, std::move(context), std::move(request));
    });
    server_ = *HttpServer::start(*HttpEndpoint::parse("127.0.0.1:0"), std::move(router),
                                 {.stop_timeout = 0s}, executor_);
  }
  void TearDown() override { executor_.block_on(server_->stop()); }

  HttpClient kept(unsigned connections) {
    return HttpClient(server_->endpoint(), {.connections_max = connections});
  }
  Result<HttpResponse> ask(const HttpClient& client, HttpRequest request, Context context = {}) {
    return executor_.block_on(client.request(context, std::move(request)));
  }

  Executor executor_;
  Seen seen_;
  Event inside_ = SharedPromise<bool>::make(), release_ = SharedPromise<bool>::make();
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpClientTest, EachRequestHasAConnectionByDefault) {
  HttpClient client(server_->endpoint());
  for (int i = 0; i < 3; ++i) ASSERT_EQ(ask(client, get())->status, 200);
  EXPECT_EQ(seen_.connections(), 3u);
}

TEST_F(HttpClientTest, IdleConnectionIsReused) {
  HttpClient client = kept(4);
  const HttpClient copy = client;
  for (int i = 0; i < 100; ++i) {
    auto response = ask(i % 2 == 0 ? client : copy, post(std::to_string(i)));
    ASSERT_TRUE(response) << response.error().to_string();
    EXPECT_EQ(response->body, "/" + std::to_string(i));
  }
  EXPECT_EQ(ask(client, {.method = "HEAD"})->body, "");
  EXPECT_EQ(ask(client, get("/last"))->body, "/last");
  EXPECT_EQ(seen_.connections(), 1u);
}

// Timer of a connection between two loopback ports: "02" if the kernel probes it, "00" if it does
// not (Documentation/networking/proc_net_tcp.rst).
std::string kernel_timer(uint16_t from, uint16_t to) {
  std::ifstream connections("/proc/net/tcp");
  for (std::string line; std::getline(connections, line);) {
    if (!line.contains(fmt::format("0100007F:{:04X} 0100007F:{:04X}", from, to))) continue;
    std::istringstream words(line);
    std::string word;
    for (int i = 0; i < 6; ++i) words >> word;
    return word.substr(0, 2);
  }
  return "no such connection";
}

TEST_F(HttpClientTest, TcpKeepaliveIsSetOnDemand) {
  for (const bool probed : {true, false}) {
    HttpClient client(server_->endpoint(), {.connections_max = 1, .tcp_keepalive = probed});
    ASSERT_TRUE(ask(client, get()));
    EXPECT_EQ(kernel_timer(seen_.last_port(), server_->endpoint().port), probed ? "02" : "00");
  }
}

TEST_F(HttpClientTest, GivenTargetIsSentUnchanged) {
  HttpRequest request{.path = "/not/this", .target = "/a%2Fb?x=%20&y"};
  EXPECT_EQ(ask(kept(1), request)->body, "/a%2Fb?x=%20&y");
  HttpRequest made{.path = "/a b", .query = {{"q", "1&2"}}};
  EXPECT_EQ(ask(kept(1), made)->body, "/a%20b?q=1%262");
}

Task<> ask_often(HttpClient client, int number, int times, std::atomic<int>* wrong,
                 std::atomic<int>* running, Event ended) {
  for (int i = 0; i < times; ++i) {
    const std::string body =
        std::string(static_cast<size_t>(i % 7) * 1000, 'x') + std::to_string(number * 100'000 + i);
    Result<HttpResponse> response = co_await client.request({}, post(body));
    if (!response || response->body != "/" + body) ++*wrong;
  }
  if (--*running == 0) ended->set(true);
}

TEST_F(HttpClientTest, ManyRequestsShareFewConnections) {
  constexpr int kAskers = 32, kTimes = 100;
  std::atomic<int> wrong = 0, running = kAskers;
  Event ended = SharedPromise<bool>::make();
  HttpClient client = kept(3);
  for (int i = 0; i < kAskers; ++i) {
    executor_.spawn(ask_often(client, i, kTimes, &wrong, &running, ended));
  }
  executor_.block_on(ended->wait({}, "the askers")).value();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(seen_.requests(), size_t{kAskers} * kTimes);
  EXPECT_LE(seen_.connections(), 3u);
}

TEST_F(HttpClientTest, WaitForAConnectionKeepsItsDeadline) {
  HttpClient client = kept(1);
  auto first = std::async([&] { return ask(client, get("/hang")); });
  executor_.block_on(inside_->wait({}, "the first")).value();
  auto late = ask(client, get(), Context::background().with_timeout(5ms));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), StatusCode::kTimedOut);
  auto second = std::async([&] { return ask(client, get("/second")); });
  release_->set(true);
  EXPECT_EQ(first.get()->body, "released");
  EXPECT_EQ(second.get()->body, "/second");
}

TEST_F(HttpClientTest, CancelledRequestClosesItsConnection) {
  HttpClient client = kept(1);
  EXPECT_EQ(ask(client, get("/before"))->body, "/before");
  std::stop_source stop;
  auto hanging = std::async([&] {
    return ask(client, get("/hang"), Context::background().with_cancel(stop.get_token()));
  });
  executor_.block_on(inside_->wait({}, "the first")).value();
  stop.request_stop();
  EXPECT_EQ(hanging.get().error().code(), StatusCode::kCancelled);
  release_->set(true);
  EXPECT_EQ(ask(client, get("/after"))->body, "/after");
  EXPECT_EQ(seen_.connections(), 2u);
}

TEST_F(HttpClientTest, MayOutliveItsExecutor) {
  HttpClient client = kept(2);
  {
    Executor other;
    EXPECT_EQ(other.block_on(client.request({}, get("/1")))->body, "/1");
  }
  EXPECT_EQ(ask(client, get("/2"))->body, "/2");
}

// Sets `ended` when the server has closed the first connection. That happens after its first
// response, or when a second request has arrived.
void close_after_one(RawServer& server, bool read_another, std::promise<void>* ended) {
  {
    RawConnection first = server.accept();
    first.read_head();
    first.answer("one");
    if (read_another) first.read_head();
  }
  ended->set_value();
  RawConnection second = server.accept();
  if (second.read_head().empty()) return;
  second.answer("two");
  second.await_end();
}

struct StaleCase {
  HttpRequest request;
  bool read_another;
};

Result<HttpResponse> ask_twice(StaleCase stale) {
  Executor executor;
  std::promise<void> ended;
  RawServer server([&](RawServer& self) { close_after_one(self, stale.read_another, &ended); });
  Result<HttpResponse> second = error(StatusCode::kInternal, "not asked");
  {
    HttpClient client(server.endpoint(), {.connections_max = 1});
    EXPECT_EQ(executor.block_on(client.request({}, get()))->body, "one");
    if (!stale.read_another) ended.get_future().wait();
    second = executor.block_on(client.request({}, std::move(stale.request)));
  }
  return second;
}

TEST(HttpIdleConnection, ClosedOneIsReplacedForIdempotentRequest) {
  EXPECT_EQ(ask_twice({get(), false})->body, "two");
  EXPECT_EQ(ask_twice({get(), true})->body, "two");
  HttpRequest idempotent = post("");
  idempotent.idempotent = true;
  EXPECT_EQ(ask_twice({idempotent, true})->body, "two");
  // Detected before anything is sent.
  EXPECT_EQ(ask_twice({post(""), false})->body, "two");
  auto sent = ask_twice({post(""), true});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code(), StatusCode::kUnavailable);
}

TEST(HttpIdleConnection, RetriesOnceBeforeTheFirstByte) {
  Executor executor;
  RawServer server([](RawServer& self) {
    for (const char* last : {"", "HTTP/1.1 200"}) {
      RawConnection kept = self.accept();
      kept.read_head();
      kept.answer("one");
      kept.read_head();
      kept.send_text(last);
      kept.end();
      if (*last == '\0') self.accept().read_head();
    }
  });
  for (int round = 0; round < 2; ++round) {
    HttpClient client(server.endpoint(), {.connections_max = 1});
    EXPECT_EQ(executor.block_on(client.request({}, get()))->body, "one");
    EXPECT_EQ(executor.block_on(client.request({}, get())).error().code(),
              StatusCode::kUnavailable);
  }
}

TEST(HttpIdleConnection, IsClosedWhenItIsIdleForLong) {
  Executor executor;
  RawServer server([](RawServer& self) {
    RawConnection connection = self.accept();
    connection.read_head();
    connection.answer("one");
    connection.await_end();  // otherwise the test does not end
  });
  HttpClient client(server.endpoint(), {.connections_max = 1, .idle_max = 1ms});
  EXPECT_EQ(executor.block_on(client.request({}, get()))->body, "one");
}

TEST(HttpIdleConnection, SurplusBytesOrCloseEndTheConnection) {
  Executor executor;
  RawServer server([](RawServer& self) {
    for (const char* text : {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\n",
                             "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\na",
                             "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na",
                             "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\na"}) {
      RawConnection connection = self.accept();
      connection.read_head();
      connection.send_text(text);
      if (std::string_view(text).contains("100 Continue")) connection.end();
      connection.await_end();
    }
  });
  HttpClient client(server.endpoint(), {.connections_max = 1});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(executor.block_on(client.request({}, get()))->body, "a");
}

Task<Result<>> take_piece(std::string* all, std::promise<void>* first, Bytes piece) {
  if (all->empty()) first->set_value();
  *all += piece.to_string();
  co_return Result<>();
}

TEST(HttpClientStream, IsDeliveredAsItArrives) {
  Executor executor;
  struct Case {
    const char *begin, *end;
  };
  for (const auto& [begin, end] :
       {Case{"Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n", "3\r\ntwo\r\n0\r\n\r\n"},
        Case{"Content-Length: 6\r\n\r\none", "two"}, Case{"\r\none", "two"}}) {
    std::promise<void> first;
    RawServer server([&first, text = begin, rest = end](RawServer& self) {
      RawConnection connection = self.accept();
      connection.read_head();
      connection.send_text(std::string("HTTP/1.1 200 OK\r\n") + text);
      first.get_future().wait();  // would wait for ever for the rest of the body
      connection.send_text(rest);
    });
    std::string all;
    HttpClient client(server.endpoint(), {.connections_max = 1});
    auto response = executor.block_on(client.request_streamed(
        {}, get(), [&](Bytes piece) { return take_piece(&all, &first, std::move(piece)); }));
    ASSERT_TRUE(response) << response.error().to_string();
    EXPECT_EQ(all, "onetwo");
  }
}

TEST(HttpClientEarlyAnswer, IsReadIfTheRequestWasNotSentWhole) {
  Executor executor;
  RawServer server([](RawServer& self) {
    RawConnection connection = self.accept();
    connection.read_head();
    connection.send_text("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno!");
  });
  HttpClient client(server.endpoint());
  auto refused = executor.block_on(client.request({}, post(std::string(64 * kMiB, 'x'))));
  // The reset may overtake the response, as between any two requests.
  if (refused) {
    EXPECT_EQ(refused->status, 413);
  } else {
    EXPECT_EQ(refused.error().code(), StatusCode::kUnavailable);
  }
}

TEST(HttpRequestOptionsTest, TimeoutIsNamedInTheError) {
  Executor executor;
  RawServer server([](RawServer& self) {
    self.accept().await_end();
    RawConnection half = self.accept();
    half.read_head();
    half.send_text("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    half.await_end();
    self.accept().await_end();
  });
  HttpClient client(server.endpoint());
  auto ask = [&](Context context, HttpRequestOptions options) {
    auto response = executor.block_on(client.request(context, get(), kMiB, options));
    EXPECT_FALSE(response);
    EXPECT_EQ(response.error().code(), StatusCode::kTimedOut);
    return response.error().message();
  };
  const Context patient = Context::background().with_timeout(1h);
  EXPECT_TRUE(
      ask(patient, {.first_byte_timeout = 5ms}).contains("no byte of a response within 5 ms"));
  EXPECT_TRUE(
      ask(patient, {.first_byte_timeout = 1h, .idle_timeout = 5ms}).contains("nothing for 5 ms"));
  const HttpRequestOptions generous{.first_byte_timeout = 1h, .idle_timeout = 1h};
  // A request with an expired deadline is not sent, and has another message.
  std::string late;
  for (auto time = 5ms; !late.contains("in time") && time < 1min; time *= 2) {
    late = ask(Context::background().with_timeout(time), generous);
  }
  EXPECT_TRUE(late.contains("in time")) << late;
}

TEST(HttpConnectTimeout, MakesTheEndpointUnavailable) {
  Executor executor;
  // Its queue is full, so the kernel makes the next connection wait.
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(listen(fd, 0), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size), 0);
  const uint16_t port = ntohs(at.sin_port);
  RawClient only(port);
  HttpClient client(*HttpEndpoint::parse("127.0.0.1:" + std::to_string(port)),
                    {.connect_timeout = 5ms});
  auto response = executor.block_on(client.request({}, get()));
  EXPECT_EQ(response.error().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(response.error().message().contains("no connection within 5 ms"));
  auto late = executor.block_on(client.request(Context::background().with_timeout(1ms), get()));
  EXPECT_EQ(late.error().code(), StatusCode::kTimedOut);
  close(fd);
}

}  // namespace
}  // namespace leat
