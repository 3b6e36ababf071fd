// SPDX-License-Identifier: Apache-2.0
// Tests the shim's GETs over TLS and through proxies, and the stock client instead of them.
#include <gmock/gmock.h>
#include <poll.h>

#include <atomic>
#include <cstdlib>
#include <iostream>

#include "source/lying_tls_test.h"
#include "source/store_reader_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using testing::CertificateAuthority;
using testing::ChildResult;
using testing::content;
using ::testing::HasSubstr;
using testing::Identity;
using testing::lawful;
using testing::LyingServer;
using ::testing::Not;
using testing::partial_head;
using testing::run_again;
using testing::serve;
using testing::StoreReader;
using testing::TlsDress;
using testing::TrustedAuthority;

using Exchange = LyingServer::Exchange;

[[maybe_unused]] const auto* const kTrusted =
    ::testing::AddGlobalTestEnvironment(new TrustedAuthority);

constexpr uint64_t kSize = 16;
constexpr uint64_t kLarge = 100'000;
constexpr char kNames[] = "IP:127.0.0.1,DNS:localhost";

struct TlsServer {
  explicit TlsServer(const Identity& identity, int version = TLS1_3_VERSION)
      : tls(identity, version), server(tls.dress(), "https") {}
  explicit TlsServer(int version = TLS1_3_VERSION)
      : TlsServer(TrustedAuthority::authority().issue(kNames), version) {}
  TlsDress tls;
  LyingServer server;
};

class TlsTest : public ::testing::TestWithParam<int> {
 protected:
  TlsServer tls_{GetParam()};
  LyingServer& server_ = tls_.server;
  StoreReader reader_{server_.endpoint()};
};

INSTANTIATE_TEST_SUITE_P(Version, TlsTest, ::testing::Values(TLS1_2_VERSION, TLS1_3_VERSION),
                         [](const auto& info) {
                           return info.param == TLS1_2_VERSION ? "Tls12" : "Tls13";
                         });

TEST_P(TlsTest, ReadsOfAllSizes) {
  server_.then(&serve);
  for (uint64_t size : {1, 16, 4096, 16'384, 16'385, 100'000, 8 << 20}) {
    EXPECT_TRUE(reader_.reads(size, size)) << size;
    EXPECT_TRUE(reader_.reads(size, size)) << size;
  }
}

TEST_P(TlsTest, ANameInsteadOfAnAddress) {
  server_.then_send_and_keep(lawful(0, kSize));
  StoreReader reader(server_.endpoint("localhost"));
  EXPECT_TRUE(reader.reads(0, kSize));
}

TEST_P(TlsTest, RecordsOfOddSizes) {
  server_.then([](const Exchange& exchange) {
    const std::string answer = lawful(3, 300'000);
    size_t at = 0;
    for (size_t size = 1; at < answer.size(); size = size * 7 % 16'381 + 1) {
      exchange.send(std::string_view(answer).substr(at, size));
      at += size;
    }
  });
  EXPECT_TRUE(reader_.reads(3, 300'000));
}

TEST_P(TlsTest, Chunks) {
  server_.then([](const Exchange& exchange) {
    exchange.send(partial_head(0, 50'000) + "Transfer-Encoding: chunked\r\n\r\n");
    for (uint64_t at = 0; at < 50'000; at += 500) {
      exchange.send(fmt::format("{:x}\r\n{}\r\n", 500, content(at, 500)));
    }
    exchange.send("0\r\n\r\n");
  });
  EXPECT_TRUE(reader_.reads(0, 50'000));
}

TEST_P(TlsTest, KeysThatAreRenewedMeanwhile) {
  server_.then([](const Exchange& exchange) {
    const std::string answer = lawful(0, kLarge);
    exchange.send(answer.substr(0, 30'000));
    exchange.renew_keys();
    exchange.send(answer.substr(30'000));
    exchange.keep();
  });
  server_.then_send_and_keep(lawful(0, kLarge));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(reader_.reads(0, kLarge));
}

TEST_P(TlsTest, ABodyThatEndsWithTheConnection) {
  server_.then_send(partial_head(0, kLarge) + "\r\n" + content(0, kLarge));
  EXPECT_TRUE(reader_.reads(0, kLarge));
}

TEST_P(TlsTest, CutWithAndWithoutLeaveIsAnError) {
  for (const char* framing : {"Content-Length: 100000\r\n", ""}) {
    for (bool leave : {false, true}) {
      TlsServer other(GetParam());
      StoreReader reader(other.server.endpoint());
      other.server.then([&](const Exchange& exchange) {
        exchange.send(partial_head(0, kLarge) + framing + "\r\n" + content(0, 60'000));
        if (!leave) exchange.cut();
      });
      Status status = reader.failure(0, kLarge);
      EXPECT_EQ(status.code(), StatusCode::kUnavailable) << framing << leave;
    }
  }
}

TEST_P(TlsTest, GarbageInPlaceOfRecords) {
  for (size_t before : {0, 50'000}) {
    TlsServer other(GetParam());
    StoreReader reader(other.server.endpoint());
    other.server.then([&](const Exchange& exchange) {
      exchange.send(lawful(0, kLarge).substr(0, before));
      const std::string garbage(kLarge, 'G');
      ::send(exchange.fd, garbage.data(), garbage.size(), MSG_NOSIGNAL);
      exchange.cut();
      shutdown(exchange.fd, SHUT_WR);
    });
    EXPECT_EQ(reader.failure(0, kLarge).code(), StatusCode::kUnavailable);
  }
}

TEST_P(TlsTest, SilenceInARecord) {
  reader_.timeouts.idle_timeout = 50ms;
  server_.then([](const Exchange& exchange) {
    exchange.send(lawful(0, kLarge).substr(0, 50'000));
    ::send(exchange.fd, "\x17\x03\x03\x40", 4, MSG_NOSIGNAL);
    exchange.stall();
  });
  Status status = reader_.failure(0, kLarge);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.to_string(), HasSubstr("no bytes from the store for 50 ms"));
}

// --- connections, of which the own transport promises when it makes one ---

class TlsConnectionTest : public TlsTest {};

INSTANTIATE_TEST_SUITE_P(Version, TlsConnectionTest,
                         ::testing::Values(TLS1_2_VERSION, TLS1_3_VERSION), [](const auto& info) {
                           return info.param == TLS1_2_VERSION ? "Tls12" : "Tls13";
                         });

TEST_P(TlsConnectionTest, CarriesTheNextRead) {
  server_.then_send_and_keep(lawful(0, kLarge));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(reader_.reads(0, kLarge));
  EXPECT_EQ(server_.connections(), 1u);
}

TEST_P(TlsConnectionTest, GoesOnWithASessionOfAnotherOne) {
  server_.then_send(lawful(0, kSize));
  // The first ones may try sessions of other tests' servers at this address.
  for (size_t i = 1; i <= 20 && tls_.tls.resumed == 0; ++i) {
    EXPECT_TRUE(reader_.reads(0, kSize));
    server_.await_closed(i);
  }
  EXPECT_GT(tls_.tls.resumed, 0);
}

TEST_P(TlsConnectionTest, ClosedWithoutResponseIsRetriedOnANewOne) {
  server_.then_send_and_keep(lawful(0, kLarge));
  server_.then([](const Exchange& exchange) { exchange.cut(); });
  server_.then_send_and_keep(lawful(0, kSize));
  server_.then([](const Exchange&) {});
  server_.then_send_and_keep(lawful(0, kSize));
  EXPECT_TRUE(reader_.reads(0, kLarge));
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_TRUE(reader_.reads(0, kSize));
  EXPECT_EQ(server_.connections(), 3u);
}

TEST_P(TlsConnectionTest, StrayBytesAreNotTheNextAnswer) {
  std::string stray = partial_head(7, kSize) + "Content-Length: 16\r\n\r\nXXXXXXXXXXXXXXXX";
  for (uint64_t size : {kSize, kLarge}) {
    for (bool apart : {false, true}) {
      TlsServer other(GetParam());
      StoreReader reader(other.server.endpoint());
      std::promise<void> sent;
      other.server.then([&](const Exchange& exchange) {
        std::string answer = lawful(0, size);
        exchange.send(apart ? answer : answer + stray);
        if (apart) exchange.send(stray);
        exchange.keep();
        sent.set_value();
      });
      other.server.then_send_and_keep(lawful(7, kSize));
      EXPECT_TRUE(reader.reads(0, size));
      sent.get_future().wait();
      // The shim receives earlier events before this response.
      LyingServer elsewhere;
      elsewhere.then(&serve);
      StoreReader meanwhile(elsewhere.endpoint());
      EXPECT_TRUE(meanwhile.reads(0, kSize));
      EXPECT_TRUE(reader.reads(7, kSize)) << size << apart;
    }
  }
}

// OpenSSL sends two session tickets after a handshake of TLS 1.3. A connection that was made ahead
// has them unread when a request takes it.
TEST(AheadTest, ConnectionWithTicketsIsUsed) {
  // A stat connects ahead: four connections on each of two lanes, beside its own one.
  constexpr size_t kOfLane = 4;
  constexpr size_t kAhead = 2 * kOfLane;
  TlsServer tls;
  LyingServer& server = tls.server;
  server.then_send_and_keep("HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n");
  server.then([&](const Exchange& exchange) {
    server.await_requests(1 + kOfLane);  // so each read has a connection of its own
    serve(exchange);
  });
  StoreReader reader(server.endpoint());
  auto found = reader.executor.block_on(reader.source().stat({}, {.key = "key"}));
  ASSERT_TRUE(found) << found.error().to_string();
  tls.tls.await_handshakes(kAhead);
  // The shim receives earlier events before this response.
  LyingServer elsewhere;
  elsewhere.then(&serve);
  EXPECT_TRUE(StoreReader(elsewhere.endpoint()).reads(0, kSize));

  // Small reads are on the first lane.
  std::vector<std::string> buffers(kOfLane, std::string(kSize, '?'));
  std::vector<std::future<Result<>>> reads;
  for (std::string& into : buffers) {
    auto task =
        reader.source().read(Context::background().with_timeout(20s), {"key", {0, kSize}, {}, {}},
                             std::as_writable_bytes(std::span(into)));
    reads.push_back(
        boost::asio::co_spawn(reader.executor.any(), std::move(task), boost::asio::use_future));
  }
  for (size_t i = 0; i < reads.size(); ++i) {
    Result<> done = reads[i].get();
    EXPECT_TRUE(done) << done.error().to_string();
    EXPECT_TRUE(buffers[i] == content(0, kSize));
  }
  EXPECT_LE(server.connections(), 1 + kAhead);
}

// --- handshakes ---

class HandshakeTest : public ::testing::Test {
 protected:
  // A certificate error that three retries would not fix.
  Status refused(const Identity& identity) {
    TlsServer tls(identity);
    tls.server.then_send(lawful(0, kSize));
    StoreReader reader(tls.server.endpoint());
    reader.attempts = 4;
    Status status = reader.failure(0, kSize);
    EXPECT_EQ(tls.server.connections(), 1u) << "a retry storm";
    EXPECT_EQ(tls.server.requests().size(), 0u);
    EXPECT_THAT(status.to_string(), AllOf(HasSubstr("certificate"), HasSubstr("127.0.0.1")));
    return status;
  }
};

TEST_F(HandshakeTest, AnUnknownIssuer) {
  CertificateAuthority nobody;
  Status status = refused(nobody.issue(kNames));
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.to_string(), AllOf(HasSubstr("UnknownIssuer"), HasSubstr("AWS_CA_BUNDLE")));
}

TEST_F(HandshakeTest, AnotherName) {
  Status status = refused(TrustedAuthority::authority().issue("DNS:other.example,IP:127.0.0.2"));
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.to_string(), HasSubstr("not valid for name"));
}

TEST_F(HandshakeTest, AnExpiredCertificate) {
  Status status = refused(TrustedAuthority::authority().issue(kNames, -60));
  EXPECT_THAT(status.to_string(), HasSubstr("expired"));
}

TEST_F(HandshakeTest, ThatNeverEnds) {
  std::promise<void> ended;
  std::shared_future<void> end = ended.get_future();
  {
    LyingServer server(
        [end](int) {
          end.wait();
          return nullptr;
        },
        "https");
    StoreReader reader(server.endpoint());
    reader.timeouts.first_byte_timeout = 100ms;
    Status status = reader.failure(0, kSize);
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(status.to_string(), HasSubstr("for 100 ms"));
    ended.set_value();
  }
}

TEST_F(HandshakeTest, WithAServerThatSpeaksInClear) {
  LyingServer server(
      [](int fd) {
        const std::string_view text = "HTTP/1.1 400 Bad Request\r\n\r\n";
        ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
        char byte;
        while (recv(fd, &byte, 1, 0) > 0) {
        }
        return nullptr;
      },
      "https");
  StoreReader reader(server.endpoint());
  Status status = reader.failure(0, kSize);
  EXPECT_THAT(status.to_string(), AllOf(HasSubstr("TLS"), HasSubstr("127.0.0.1")));
}

TEST_F(HandshakeTest, ThatIsCutOff) {
  LyingServer server([](int) { return nullptr; }, "https");
  StoreReader reader(server.endpoint());
  Status status = reader.failure(0, kSize);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
}

// --- what is read from the environment once ---

// Run again by the tests below with another environment; on its own it reads from its own server.
TEST(EnvironmentTest, ReadsFromTheStoreThatItIsTold) {
  LyingServer server;
  server.then_send(lawful(0, kLarge));
  const char* endpoint = getenv("LEAT_TEST_ENDPOINT");
  StoreReader reader(endpoint != nullptr ? endpoint : server.endpoint());
  reader.timeouts.first_byte_timeout = 5s;
  Result<std::string> got = reader.read(0, kLarge);
  if (!got) std::cout << "code " << static_cast<int>(got.error().code()) << std::endl;
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_TRUE(*got == content(0, kLarge));
}

ChildResult read_with(const std::string& endpoint, std::vector<std::string> environment) {
  for (const char* name : {"ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy", "HTTPS_PROXY",
                           "https_proxy", "NO_PROXY", "no_proxy"}) {
    bool given = false;
    for (const std::string& one : environment) given |= one.starts_with(std::string(name) + "=");
    if (!given) environment.emplace_back(name);
  }
  environment.push_back("LEAT_TEST_ENDPOINT=" + endpoint);
  return run_again("EnvironmentTest.ReadsFromTheStoreThatItIsTold", environment);
}

// Forwards bytes between the client and a port of this host until one of them ends.
void carry(const Exchange& exchange, uint16_t port) {
  File origin(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  LEAT_CHECK(connect(origin.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  exchange.send("HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n");
  pollfd ends[2] = {{exchange.fd, POLLIN, 0}, {origin.fd(), POLLIN, 0}};
  while (poll(ends, 2, -1) > 0) {
    for (int from : {0, 1}) {
      if (ends[from].revents == 0) continue;
      char buffer[16'384];
      ssize_t got = recv(ends[from].fd, buffer, sizeof buffer, 0);
      if (got <= 0) return;
      for (ssize_t at = 0; at < got;) {
        ssize_t sent =
            ::send(ends[1 - from].fd, buffer + at, static_cast<size_t>(got - at), MSG_NOSIGNAL);
        if (sent <= 0) return;
        at += sent;
      }
    }
  }
}

TEST(ProxyTest, IsToldTheWholeUrlAndWhoAsks) {
  LyingServer proxy;
  proxy.then_send(lawful(0, kLarge));
  ChildResult child =
      read_with("http://store.invalid:81",
                {fmt::format("http_proxy=http://user:pass@127.0.0.1:{}", proxy.port())});
  EXPECT_EQ(child.status, 0) << child.output;
  ASSERT_EQ(proxy.requests().size(), 1u);
  EXPECT_THAT(proxy.requests()[0],
              AllOf(HasSubstr("GET http://store.invalid:81/bucket/key HTTP/1.1\r\n"),
                    HasSubstr("\r\nhost: store.invalid:81\r\n"),
                    HasSubstr("\r\nproxy-authorization: Basic dXNlcjpwYXNz\r\n")));
}

TEST(ProxyTest, CarriesTlsToTheStore) {
  TlsServer tls;
  tls.server.then_send(lawful(0, kLarge));
  LyingServer proxy;
  proxy.then([&](const Exchange& exchange) { carry(exchange, tls.server.port()); });
  ChildResult child =
      read_with(tls.server.endpoint("localhost"),
                {fmt::format("HTTPS_PROXY=http://user:pass@127.0.0.1:{}", proxy.port())});
  EXPECT_EQ(child.status, 0) << child.output;
  ASSERT_EQ(proxy.requests().size(), 1u);
  EXPECT_THAT(
      proxy.requests()[0],
      AllOf(HasSubstr(fmt::format("CONNECT localhost:{} HTTP/1.1\r\n", tls.server.port())),
            HasSubstr("Proxy-Authorization: Basic dXNlcjpwYXNz\r\n"), Not(HasSubstr("range:"))));
  ASSERT_EQ(tls.server.requests().size(), 1u);
  EXPECT_THAT(tls.server.requests()[0],
              AllOf(HasSubstr("GET /bucket/key HTTP/1.1"), Not(HasSubstr("dXNlcjpwYXNz"))));
}

TEST(ProxyTest, ThatRefusesIsNamed) {
  for (const char* answer : {"407 Proxy Authentication Required", "502 Bad Gateway"}) {
    for (const char* scheme : {"http", "https"}) {
      LyingServer proxy;
      proxy.then_send(fmt::format("HTTP/1.1 {}\r\nContent-Length: 0\r\n\r\n", answer));
      ChildResult child =
          read_with(std::string(scheme) + "://store.invalid",
                    {fmt::format("ALL_PROXY=http://user:secret@127.0.0.1:{}", proxy.port())});
      EXPECT_EQ(child.status, 1);
      EXPECT_THAT(child.output, AllOf(HasSubstr(std::string(answer, 3)), Not(HasSubstr("secret")),
                                      Not(HasSubstr("dXNlcjpz"))));
      if (scheme == std::string("https")) {
        EXPECT_THAT(child.output, HasSubstr("the proxy refused to connect to store.invalid:443"));
      }
    }
  }
}

TEST(ProxyTest, WhatItSaysIsShownAsFarAsItIsText) {
  LyingServer proxy;
  proxy.then_send("HTTP/1.1 502 \x1b[31m\a" + std::string(5000, 'x') + "\r\n\r\n");
  ChildResult child = read_with("https://store.invalid",
                                {fmt::format("https_proxy=http://127.0.0.1:{}", proxy.port())});
  EXPECT_EQ(child.status, 1);
  EXPECT_THAT(child.output, AllOf(HasSubstr("HTTP/1.1 502 [31mxxx"), Not(HasSubstr("\x1b")),
                                  Not(HasSubstr(std::string(201, 'x')))));
}

TEST(ProxyTest, ThatDoesNotSpeakAsOneIsNamed) {
  LyingServer proxy;
  proxy.then_send("SSH-2.0-OpenSSH\r\n");
  ChildResult child = read_with("https://store.invalid",
                                {fmt::format("https_proxy=http://127.0.0.1:{}", proxy.port())});
  EXPECT_EQ(child.status, 1);
  EXPECT_THAT(child.output, HasSubstr("the proxy did not answer as a proxy"));
}

TEST(ProxyTest, ThatIsNotThereIsNamed) {
  ChildResult child = read_with("http://store.invalid", {"http_proxy=http://127.0.0.1:1"});
  EXPECT_EQ(child.status, 1);
  EXPECT_THAT(child.output,
              AllOf(HasSubstr("through the proxy 127.0.0.1:1, which http_proxy names"),
                    HasSubstr("refused"), HasSubstr("check that proxy"), HasSubstr("no_proxy")));
}

// A HEAD by the stock client, of the store that the test above names.
TEST(EnvironmentTest, FindsAnObjectOfTheStoreThatItIsTold) {
  const char* endpoint = getenv("LEAT_TEST_ENDPOINT");
  if (endpoint == nullptr) return;
  StoreReader reader(endpoint);
  auto found = reader.executor.block_on(reader.source().stat({}, {.key = "key"}));
  ASSERT_TRUE(found) << found.error().to_string();
}

ChildResult run_with(const std::string& filter, const std::string& endpoint,
                     std::vector<std::string> environment) {
  environment.push_back("LEAT_TEST_ENDPOINT=" + endpoint);
  for (const char* name : {"ALL_PROXY", "all_proxy", "HTTP_PROXY", "NO_PROXY"}) {
    environment.emplace_back(name);
  }
  return run_again("EnvironmentTest." + filter, std::move(environment));
}

TEST(ProxyTest, OfOtherRequestsIsNamedToo) {
  ChildResult child = run_with("FindsAnObjectOfTheStoreThatItIsTold", "http://store.invalid",
                               {"http_proxy=http://user:secret@127.0.0.1:1", "no_proxy="});
  EXPECT_EQ(child.status, 1);
  EXPECT_THAT(child.output,
              AllOf(HasSubstr("through the proxy 127.0.0.1:1, which http_proxy names"),
                    HasSubstr("check that proxy"), Not(HasSubstr("secret"))));
}

TEST(ProxyTest, CarriesOtherRequestsWithItsPassword) {
  LyingServer proxy;
  proxy.then_send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n");
  ChildResult child = run_with(
      "FindsAnObjectOfTheStoreThatItIsTold", "http://store.invalid",
      {fmt::format("http_proxy=http://user:pass@127.0.0.1:{}", proxy.port()), "no_proxy="});
  EXPECT_EQ(child.status, 0) << child.output;
  ASSERT_EQ(proxy.requests().size(), 1u);
  EXPECT_THAT(proxy.requests()[0],
              AllOf(HasSubstr("HEAD http://store.invalid/bucket/key HTTP/1.1\r\n"),
                    HasSubstr("roxy-authorization: Basic dXNlcjpwYXNz\r\n")));
}

// By both clients: a store at 127.0.0.1 behind a proxy that does not exist.
void expect_passed_by(const std::string& no_proxy, bool is_passed_by) {
  LyingServer server;
  server.then([](const Exchange& exchange) {
    exchange.send(exchange.request.starts_with("HEAD")
                      ? "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
                      : lawful(0, kLarge));
    exchange.keep();
  });
  std::string list = no_proxy;
  if (size_t at = list.find("PORT"); at != std::string::npos) {
    list.replace(at, 4, std::to_string(server.port()));
  }
  ChildResult child =
      run_with("*", server.endpoint(), {"http_proxy=http://127.0.0.1:1", "no_proxy=" + list});
  EXPECT_EQ(child.status, is_passed_by ? 0 : 1) << no_proxy << "\n" << child.output;
}

TEST(ProxyTest, IsPassedByWhereNoProxySaysSo) {
  for (const char* list : {"*", "127.0.0.1", "example.org, 127.0.0.1", "a.b 127.0.0.1",
                           "127.0.0.0/8", "127.0.0.1/32", "127.0.0.1:PORT", "a.b,*"}) {
    expect_passed_by(list, true);
  }
  for (const char* list : {"", "127.0.0.2", "10.0.0.0/8", "127.0.0.1:1", "0.0.1", ".1", "::1"}) {
    expect_passed_by(list, false);
  }
}

// For host names: checks whether the proxy, which answers, gets the request. "localhost" is this
// machine.
TEST(ProxyTest, IsPassedByForNamesAndTheirDomains) {
  auto passes_by = [](const std::string& host, const std::string& no_proxy) {
    LyingServer server;
    server.then_send(lawful(0, kLarge));
    ChildResult child = run_with("ReadsFromTheStoreThatItIsTold", server.endpoint(host),
                                 {"http_proxy=http://127.0.0.1:1", "no_proxy=" + no_proxy});
    return child.status == 0;
  };
  EXPECT_TRUE(passes_by("localhost", "localhost"));
  EXPECT_TRUE(passes_by("localhost", ".LOCALHOST"));
  EXPECT_TRUE(passes_by("localhost", "localhost."));
  EXPECT_FALSE(passes_by("localhost", "host"));
  EXPECT_FALSE(passes_by("localhost", "a.localhost"));
  EXPECT_FALSE(passes_by("localhost", "127.0.0.1"));
}

TEST(StockTransportTest, KeepsTheSamePromises) {
  ChildResult child = run_again(
      "OpendalSourceTest.*:GivingUp.*:TransportTest.*:*/LieTest.*:CancelTest.*:PiecesTest.*:"
      "CutsTest.*:*/TlsTest.*",
      {"LEAT_TRANSPORT=stock"});
  EXPECT_EQ(child.status, 0) << child.output;
  EXPECT_THAT(child.output, HasSubstr("TlsTest.ReadsOfAllSizes"));
}

}  // namespace
}  // namespace leat
