// SPDX-License-Identifier: Apache-2.0
// Tests clients that hold connections without using them, and requests with ambiguous framing.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>

#include "http/raw_sockets_test.h"
#include "http/remote_address.h"
#include "http/server/server.h"
#include "runtime/shared_promise.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kRequest = "GET /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
constexpr uint32_t kOther = INADDR_LOOPBACK + 1;

double metric(std::string_view name) {
  double sum = 0;
  for (const MetricSample& sample : metrics_samples())
    sum += sample.name == name ? sample.value : 0;
  return sum;
}

// Whether the other end has closed the connection and all of its bytes were read.
bool is_closed(const RawClient& client) {
  char byte = 0;
  return recv(client.fd(), &byte, 1, MSG_DONTWAIT) == 0;
}

Task<HttpResponse> answer(std::string body) {
  co_return HttpResponse::text(200, std::move(body));
}

Task<HttpResponse> wait_for(std::shared_ptr<SharedPromise<bool>> release, Context context) {
  (void)co_await release->wait(std::move(context), "a test");
  co_return HttpResponse::text(200, "released");
}

class HttpLimitsTest : public testing::Test {
 protected:
  void start(HttpServerOptions options) {
    HttpRouter router;
    for (const char* method : {"GET", "POST"}) {
      router.add(method, "/echo", [this](Context, HttpRequest request) {
        ++answered_;
        return answer(request.method + " echo " + request.body);
      });
    }
    router.add("GET", "/large",
               [](Context, HttpRequest) { return answer(std::string(64 * kMiB, 'x')); });
    router.add("GET", "/hang", [this](Context context, HttpRequest) {
      ++inside_;
      inside_.notify_all();
      return wait_for(release_, std::move(context));
    });
    auto started = HttpServer::start(*HttpEndpoint::parse("127.0.0.1:0"), std::move(router),
                                     options, executor_);
    ASSERT_TRUE(started) << started.error().to_string();
    server_ = std::move(*started);
  }
  void TearDown() override {
    if (!release_->ready()) release_->set(true);
    if (server_) executor_.block_on(server_->stop());
  }

  uint16_t port() const { return server_->endpoint().port; }
  std::vector<std::unique_ptr<RawClient>> come(size_t count, std::string_view saying,
                                               uint32_t from = INADDR_LOOPBACK) {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (size_t i = 0; i < count; ++i) {
      clients.push_back(std::make_unique<RawClient>(port(), from));
      clients.back()->send_text(saying);
    }
    return clients;
  }
  void await_inside(int count) {
    for (int now; (now = inside_) < count;) inside_.wait(now);
  }

  Executor executor_;
  std::atomic<int> answered_ = 0, inside_ = 0;
  std::shared_ptr<SharedPromise<bool>> release_ = SharedPromise<bool>::make();
  std::unique_ptr<HttpServer> server_;
};

// With the limits of metrics and the console, which give an idle client a minute.
TEST_F(HttpLimitsTest, IdleConnectionsMakeRoom) {
  start({});
  const double before = metric("leat_http_evicted_total");
  auto idle = come(300, "");
  EXPECT_TRUE(RawClient(port()).request(kRequest).starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(RawClient(port(), kOther).request(kRequest).starts_with("HTTP/1.1 200 "));
  EXPECT_GT(metric("leat_http_evicted_total"), before);
}

// The process has a descriptor for five of eight that come, which were all made before.
TEST_F(HttpLimitsTest, IdleConnectionsGiveDescriptors) {
  start({.connections_max = 16, .connections_per_address_max = 64});
  // UBSan takes a descriptor to check a type for the first time, so all code runs once before.
  {
    auto idle = come(20, "");
    EXPECT_TRUE(RawClient(port()).request(kRequest).starts_with("HTTP/1.1 200 "));
    log::warning("the test takes all descriptors but a few");
  }
  std::vector<int> sockets;
  for (int i = 0; i < 8; ++i) sockets.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit tight{.rlim_cur = rlim_t(sockets.back()) + 6, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &tight);
  for (int fd : sockets) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  EXPECT_EQ(send(sockets.back(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL),
            ssize_t(kRequest.size()));
  char answer[13] = {};
  pollfd waiting{.fd = sockets.back(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&waiting, 1, 20'000), 1) << "idle connections have a minute otherwise";
  EXPECT_GT(recv(sockets.back(), answer, sizeof answer - 1, 0), 0);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(std::string_view(answer), "HTTP/1.1 200");
  for (int fd : sockets) close(fd);
}

TEST_F(HttpLimitsTest, RenewedIdleConnectionsMakeRoom) {
  start({.connections_max = 32, .connections_per_address_max = 64});
  std::atomic<bool> over = false;
  std::thread renewing([&] {
    std::vector<std::unique_ptr<RawClient>> idle = come(40, "");
    while (!over) {
      for (auto& client : idle) {
        if (is_closed(*client)) client = std::make_unique<RawClient>(port());
      }
      poll(nullptr, 0, 5);
    }
  });
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(RawClient(port()).request(kRequest).starts_with("HTTP/1.1 200 "));
  }
  over = true;
  renewing.join();
}

TEST_F(HttpLimitsTest, SlowHeadsAndBodiesMakeRoom) {
  start({.connections_max = 16, .connections_per_address_max = 64});
  auto heads = come(8, "GET /echo HTTP/1.1\r\nHost: h\r\n");
  auto bodies = come(24, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nx");
  EXPECT_TRUE(RawClient(port()).request(kRequest).starts_with("HTTP/1.1 200 "));
}

TEST_F(HttpLimitsTest, ClientsThatReadNothingMakeRoom) {
  start({.connections_max = 4, .connections_per_address_max = 64, .blocked_min = 50ms});
  auto blocked = come(8, "GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(RawClient(port()).request(kRequest).starts_with("HTTP/1.1 200 "));
}

TEST_F(HttpLimitsTest, ResponsesInFlightKeepTheirSlots) {
  start({.connections_max = 8, .connections_per_address_max = 64});
  auto busy = come(4, "GET /hang HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  await_inside(4);
  auto idle = come(8, "");
  EXPECT_TRUE(RawClient(port()).request(kRequest).starts_with("HTTP/1.1 200 "));
  release_->set(true);
  for (auto& client : busy) EXPECT_TRUE(client->receive_all().ends_with("released"));
}

TEST_F(HttpLimitsTest, OneAddressHasAShareOfTheSlots) {
  start({.connections_max = 64, .connections_per_address_max = 4});
  auto busy = come(4, "GET /hang HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  await_inside(4);
  const double before = metric("leat_http_address_rejected_total");
  const std::string refused = RawClient(port()).request(kRequest);
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 503 ")) << refused;
  EXPECT_TRUE(refused.contains("4 connections from this address")) << refused;
  EXPECT_EQ(metric("leat_http_address_rejected_total"), before + 1);
  EXPECT_TRUE(RawClient(port(), kOther).request(kRequest).starts_with("HTTP/1.1 200 "));
}

TEST_F(HttpLimitsTest, OwnIdleConnectionsAreEvictedFirst) {
  start({.connections_max = 64, .connections_per_address_max = 4});
  RawClient other(port(), kOther);
  auto idle = come(4, "");
  std::string answer;
  const auto end = Clock::now() + 30s;
  while (!answer.starts_with("HTTP/1.1 200 ") && Clock::now() < end) {
    answer = RawClient(port()).request(kRequest);
  }
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  EXPECT_FALSE(is_closed(other));
}

TEST_F(HttpLimitsTest, TricklingBodiesAreCutOff) {
  start({.head_timeout = 100ms, .body_bytes_s_min = 1000});
  const double before = metric("leat_http_slow_total");
  RawClient body(port());
  body.send_text("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n");
  const auto begun = Clock::now();
  while (body.send_text("x") && Clock::now() - begun < 30s) poll(nullptr, 0, 10);
  EXPECT_EQ(answered_, 0);
  EXPECT_EQ(metric("leat_http_slow_total"), before + 1);
}

TEST_F(HttpLimitsTest, BodiesAtThePaceHaveTheirTime) {
  start({.head_timeout = 500ms, .body_bytes_s_min = 1000});
  RawClient body(port());
  body.send_text(
      "POST /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 8000\r\n\r\n");
  const auto begun = Clock::now();
  body.send_text(std::string(4000, 'x'));
  for (int i = 0; i < 40 && body.send_text(std::string(100, 'x')); ++i) poll(nullptr, 0, 20);
  EXPECT_GT(Clock::now() - begun, 500ms);
  EXPECT_TRUE(body.receive_all().starts_with("HTTP/1.1 200 "));
}

TEST_F(HttpLimitsTest, SlowHeadsAreCutOffThoughIdleOnesStay) {
  start({.head_timeout = 50ms});
  RawClient idle(port());
  RawClient slow(port());
  slow.send_text("GET /echo HTTP/1.1\r\n");
  EXPECT_EQ(slow.receive_all(), "");
  EXPECT_TRUE(idle.request(kRequest).starts_with("HTTP/1.1 200 "));
}

struct Framing {
  const char* fields;
  int status;
};

// A server with another interpretation of the framing would treat the rest as another request.
TEST_F(HttpLimitsTest, AmbiguousFramingIsRejected) {
  start({});
  const Framing framings[] = {
      {"Transfer-Encoding: xchunked\r\n", 501},
      {"Transfer-Encoding: gzip\r\n", 501},
      {"Transfer-Encoding: gzip, chunked\r\n", 501},
      {"Transfer-Encoding: chunked, identity\r\n", 501},
      {"Transfer-Encoding: chunked, chunked\r\n", 501},
      {"Transfer-Encoding: identity\r\n", 501},
      {"Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n", 501},
      {"Transfer-Encoding:\r\n", 400},
      {"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400},
      {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400},
      {"Content-Length: 5\r\nTransfer-Encoding: xchunked\r\n", 400},
      {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400},
      {"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", 400},
      {"Transfer-Encoding : chunked\r\n", 400},
      {"Content-Length: 5\r\nContent-Length: 6\r\n", 400},
      {"Content-Length: 5, 6\r\n", 400},
      {"Content-Length: +5\r\n", 400},
      {"Content-Length: 0x5\r\n", 400},
  };
  for (const Framing& framing : framings) {
    const std::string answer = RawClient(port()).request(
        std::string("POST /echo HTTP/1.1\r\nHost: h\r\n") + framing.fields + "\r\n" +
        "0\r\n\r\nGET /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 " + std::to_string(framing.status) + " "))
        << framing.fields << answer;
  }
  const std::string old = RawClient(port()).request(
      "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  EXPECT_TRUE(old.starts_with("HTTP/1.1 400 ")) << old;
  EXPECT_EQ(answered_, 0);
  const std::string chunked = RawClient(port()).request(
      "POST /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: Chunked\r\n\r\n"
      "3\r\nabc\r\n0\r\n\r\n");
  EXPECT_TRUE(chunked.ends_with("POST echo abc")) << chunked;
}

RemoteAddress address_of(int family, const char* text) {
  sockaddr_storage storage{};
  storage.ss_family = static_cast<sa_family_t>(family);
  void* into = family == AF_INET
                   ? static_cast<void*>(&reinterpret_cast<sockaddr_in&>(storage).sin_addr)
                   : static_cast<void*>(&reinterpret_cast<sockaddr_in6&>(storage).sin6_addr);
  EXPECT_EQ(inet_pton(family, text, into), 1) << text;
  return RemoteAddress::of(storage);
}

TEST(HttpRemoteAddress, AnIpv6NetworkIsOneAddress) {
  const RemoteAddress one = address_of(AF_INET6, "2001:db8:1:2::7");
  EXPECT_EQ(one.text, "[2001:db8:1:2::7]:0");
  EXPECT_FALSE(one.is_loopback);
  EXPECT_EQ(one.group, address_of(AF_INET6, "2001:db8:1:2:3:4:5:6").group);
  EXPECT_NE(one.group, address_of(AF_INET6, "2001:db8:1:3::7").group);
  EXPECT_EQ(address_of(AF_INET6, "::ffff:10.0.0.7").group, address_of(AF_INET, "10.0.0.7").group);
  EXPECT_NE(address_of(AF_INET, "10.0.0.8").group, address_of(AF_INET, "10.0.0.7").group);
  EXPECT_TRUE(address_of(AF_INET, "127.0.0.9").is_loopback);
  EXPECT_TRUE(address_of(AF_INET6, "::1").is_loopback);
  EXPECT_TRUE(address_of(AF_INET6, "::ffff:127.0.0.1").is_loopback);
  EXPECT_FALSE(address_of(AF_INET6, "fe80::1").is_loopback);
}

}  // namespace
}  // namespace leat
