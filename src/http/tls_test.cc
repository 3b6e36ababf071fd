// SPDX-License-Identifier: Apache-2.0
#include "http/tls.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <set>

#include "http/certificates_test.h"
#include "http/client.h"
#include "http/raw_sockets_test.h"
#include "http/server/server.h"
#include "runtime/disk.h"
#include "runtime/shared_promise.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using TlsPtr = std::shared_ptr<const HttpTls>;

TlsPtr load(HttpTlsOptions options) {
  auto loaded = HttpTls::load(std::move(options));
  EXPECT_TRUE(loaded) << loaded.error().to_string();
  return loaded.value_or(nullptr);
}

struct Seen {
  std::mutex mutex;
  std::set<std::string> peers;
};

Task<HttpResponse> echo(Seen* seen, Context, HttpRequest request) {
  {
    std::lock_guard lock(seen->mutex);
    seen->peers.insert(request.peer);
  }
  HttpResponse response = HttpResponse::text(200, request.certificate + ":" + request.body);
  co_return response;
}

Task<HttpResponse> send_file(std::shared_ptr<File> file, uint64_t size, Context, HttpRequest) {
  HttpResponse response;
  response.file = HttpFileBody{.owner = file, .fd = file->fd(), .offset = 1, .size = size};
  co_return response;
}

class HttpTlsTest : public testing::Test {
 protected:
  void start(HttpTlsOptions tls, HttpServerOptions options = {}) {
    HttpRouter router;
    router.add("POST", "/echo", [this](Context context, HttpRequest request) {
      return echo(&seen_, std::move(context), std::move(request));
    });
    router.add("GET", "/file", [this](Context context, HttpRequest request) {
      return send_file(file_, file_bytes_, std::move(context), std::move(request));
    });
    options.tls = load(std::move(tls));
    auto started = HttpServer::start(*HttpEndpoint::parse("127.0.0.1:0"), std::move(router),
                                     std::move(options), executor_);
    ASSERT_TRUE(started) << started.error().to_string();
    server_ = std::move(*started);
  }
  void TearDown() override {
    if (server_) executor_.block_on(server_->stop());
  }

  HttpClient client(HttpTlsOptions tls, std::string host = "127.0.0.1") {
    HttpEndpoint endpoint = server_->endpoint();
    endpoint.host = std::move(host);
    return HttpClient(endpoint, {.tls = load(std::move(tls)), .connections_max = 1});
  }
  Result<HttpResponse> ask(const HttpClient& client, std::string body = "hello") {
    HttpRequest request{.method = "POST", .path = "/echo", .body = std::move(body)};
    return executor_.block_on(client.request({}, std::move(request)));
  }
  void expect_distrust(const HttpClient& client, const std::string& why) {
    auto refused = ask(client);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), StatusCode::kPermissionDenied);
    EXPECT_TRUE(refused.error().message().contains(why)) << refused.error().message();
  }

  Executor executor_;
  Certificates certificates_;
  Seen seen_;
  std::shared_ptr<File> file_;
  uint64_t file_bytes_ = 0;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpTlsTest, SpeaksWithWhomItTrustsByNameAndByAddress) {
  start(certificates_.issue({}));
  for (const char* host : {"127.0.0.1", "localhost"}) {
    HttpClient trusting = client({.ca_file = certificates_.ca()}, host);
    EXPECT_EQ(ask(trusting)->body, ":hello");
    const std::string large(900'000, 'x');
    EXPECT_EQ(ask(trusting, large)->body, ":" + large);
  }
  EXPECT_EQ(seen_.peers.size(), 2u);
}

TEST_F(HttpTlsTest, FilesAreSentAndReadIntoMemory) {
  std::string text(3 * kMiB + 5, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i / 1000);
  file_ = std::make_shared<File>(::open(testing::TempDir().c_str(), O_TMPFILE | O_RDWR, 0600));
  ASSERT_EQ(::pwrite(file_->fd(), text.data(), text.size(), 0), ssize_t(text.size()));
  start(certificates_.issue({}));
  HttpClient trusting = client({.ca_file = certificates_.ca()});
  for (size_t size : {size_t{0}, size_t{4096}, 3 * kMiB + 4}) {
    file_bytes_ = size;
    std::string memory(size, '?');
    auto answered = executor_.block_on(trusting.request_into(
        {}, {.path = "/file"}, {.pieces = {std::as_writable_bytes(std::span(memory))}}));
    ASSERT_TRUE(answered) << answered.error().to_string();
    EXPECT_EQ(memory, text.substr(1, size));
  }
  file_bytes_ = text.size();  // one byte more than the file has
  std::vector<std::byte> memory(text.size());
  auto cut_short =
      executor_.block_on(trusting.request_into({}, {.path = "/file"}, {.pieces = {memory}}));
  EXPECT_EQ(cut_short.error().code(), StatusCode::kUnavailable);
}

TEST_F(HttpTlsTest, DoesNotSpeakWithOthers) {
  start(certificates_.issue({}));
  Certificates others;
  expect_distrust(client({.ca_file = others.ca()}), "unable to get local issuer certificate");
  expect_distrust(client({}), "unable to get local issuer certificate");
  EXPECT_EQ(ask(client({.verify_peer = false}))->body, ":hello");
}

TEST_F(HttpTlsTest, NorWithOneOfAnotherName) {
  start(certificates_.issue({.alternatives = "DNS:elsewhere,DNS:*.localhost"}));
  expect_distrust(client({.ca_file = certificates_.ca()}, "localhost"), "hostname mismatch");
  expect_distrust(client({.ca_file = certificates_.ca()}), "IP address mismatch");
}

TEST_F(HttpTlsTest, NorWithOneThatHasExpired) {
  start(certificates_.issue({.days = -1}));
  expect_distrust(client({.ca_file = certificates_.ca()}), "certificate has expired");
}

TEST_F(HttpTlsTest, BothSidesProveWhoTheyAre) {
  HttpTlsOptions server = certificates_.issue({});
  server.ca_file = certificates_.ca();
  start(server);
  HttpTlsOptions known = certificates_.issue({.name = "worker-7"});
  known.ca_file = certificates_.ca();
  EXPECT_EQ(ask(client(known))->body, "worker-7:hello");
  expect_distrust(client({.ca_file = certificates_.ca()}), "client's certificate");
  Certificates others;
  HttpTlsOptions stranger = others.issue({.name = "worker-7"});
  stranger.ca_file = certificates_.ca();
  expect_distrust(client(stranger), "unknown ca");
  HttpTlsOptions old = certificates_.issue({.name = "worker-8", .days = -1});
  old.ca_file = certificates_.ca();
  expect_distrust(client(old), "expired");
}

TEST_F(HttpTlsTest, WhoSpeaksNoTlsIsTold) {
  start(certificates_.issue({}));
  RawClient clear(server_->endpoint().port);
  const std::string answer = clear.request("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 ")) << answer;
  EXPECT_TRUE(answer.contains("use https"));
  RawClient noise(server_->endpoint().port);
  noise.request("\x01\x02 this is neither \x03");
  EXPECT_EQ(ask(client({.ca_file = certificates_.ca()}))->body, ":hello");
}

TEST_F(HttpTlsTest, AServerThatSpeaksNoTlsIsUnavailable) {
  RawServer server([](RawServer& self) {
    RawConnection connection = self.accept();
    connection.send_text("HTTP/1.1 400 Bad Request\r\n\r\n");
    connection.await_end();
  });
  HttpClient client(server.endpoint(), {.tls = load({.ca_file = certificates_.ca()})});
  auto refused = executor_.block_on(client.request({}, {}));
  EXPECT_EQ(refused.error().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(refused.error().message().contains("does not speak TLS"));
}

TEST_F(HttpTlsTest, HandshakesHaveTheirTime) {
  start(certificates_.issue({}), {.idle_timeout = 10ms});
  EXPECT_EQ(RawClient(server_->endpoint().port).receive_all(), "");
  RawServer silent([](RawServer& self) { self.accept().await_end(); });
  HttpClient client(silent.endpoint(),
                    {.tls = load({.ca_file = certificates_.ca()}), .connect_timeout = 10ms});
  auto late = executor_.block_on(client.request({}, {}));
  EXPECT_EQ(late.error().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(late.error().message().contains("within 10 ms"));
}

TEST_F(HttpTlsTest, StopEndsHandshakesAndIdleConnections) {
  start(certificates_.issue({}));
  HttpClient kept = client({.ca_file = certificates_.ca()});
  EXPECT_EQ(ask(kept)->body, ":hello");
  RawClient silent(server_->endpoint().port);
  executor_.block_on(server_->stop());
  silent.receive_all();  // possibly an alert, then the end
  EXPECT_EQ(ask(kept).error().code(), StatusCode::kUnavailable);
  server_.reset();
}

TEST_F(HttpTlsTest, ChangedFilesAreUsedByNewConnections) {
  HttpTlsOptions options = certificates_.issue({.days = -1});
  options.check_interval = 0s;
  start(options);
  const HttpTlsOptions trusting{.ca_file = certificates_.ca()};
  expect_distrust(client(trusting), "expired");
  certificates_.issue({});
  HttpClient kept = client(trusting);
  EXPECT_EQ(ask(kept)->body, ":hello");
  // Unusable files change nothing for old or new connections.
  std::ofstream(options.certificate_file) << "torn";
  EXPECT_EQ(ask(kept)->body, ":hello");
  EXPECT_EQ(ask(client(trusting))->body, ":hello");
}

TEST_F(HttpTlsTest, FilesThatCannotBeUsedAreNamed) {
  const HttpTlsOptions good = certificates_.issue({});
  const HttpTlsOptions other = certificates_.issue({.name = "other"});
  const std::string garbage = certificates_.path("garbage.pem");
  std::ofstream(garbage) << "garbage";
  const std::string missing = certificates_.path("missing.pem");
  struct Case {
    HttpTlsOptions options;
    std::string named;
  };
  const Case cases[] = {
      {{.ca_file = missing}, missing},
      {{.ca_file = garbage}, garbage},
      {{.certificate_file = missing, .key_file = good.key_file}, missing},
      {{.certificate_file = garbage, .key_file = good.key_file}, garbage},
      {{.certificate_file = good.certificate_file, .key_file = garbage}, garbage},
      {{.certificate_file = good.certificate_file, .key_file = other.key_file}, other.key_file},
      {{.certificate_file = good.certificate_file}, "both a certificate and its key"},
  };
  for (const auto& [options, named] : cases) {
    auto loaded = HttpTls::load(options);
    ASSERT_FALSE(loaded) << named;
    EXPECT_EQ(loaded.error().code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(loaded.error().message().contains(named)) << loaded.error().message();
  }
  auto started = HttpServer::start(*HttpEndpoint::parse("127.0.0.1:0"), HttpRouter(),
                                   {.tls = load({.ca_file = certificates_.ca()})}, executor_);
  EXPECT_EQ(started.error().code(), StatusCode::kInvalidArgument);
}

Task<> ask_often(HttpClient client, std::atomic<int>* wrong, std::atomic<int>* running,
                 std::shared_ptr<SharedPromise<bool>> ended) {
  for (size_t i = 0; i < 30; ++i) {
    const std::string body(i * 3000, 'x');
    HttpRequest request{.method = "POST", .path = "/echo", .body = body};
    Result<HttpResponse> response = co_await client.request({}, std::move(request));
    if (!response || response->body != ":" + body) ++*wrong;
  }
  if (--*running == 0) ended->set(true);
}

TEST_F(HttpTlsTest, ManyAtOnce) {
  start(certificates_.issue({}));
  auto ended = SharedPromise<bool>::make();
  std::atomic<int> wrong = 0, running = 16;
  HttpEndpoint endpoint = server_->endpoint();
  HttpClient shared(endpoint, {.tls = load({.ca_file = certificates_.ca()}), .connections_max = 3});
  for (int i = 0; i < 16; ++i) executor_.spawn(ask_often(shared, &wrong, &running, ended));
  executor_.block_on(ended->wait({}, "the askers")).value();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(seen_.peers.size(), 3u);
}

}  // namespace
}  // namespace leat
