// SPDX-License-Identifier: Apache-2.0
// Workers that are dead in different ways, and a slow one.
#include "peer/client/peer_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/server/server.h"
#include "peer/client/peer_snapshots.h"
#include "peer/fake_cluster_test.h"
#include "peer/peer_circuit_breaker.h"
#include "telemetry/metric_values_test.h"
#include "wire/peer_error.h"
#include "wire/peer_request_header.h"

namespace leat {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::shared_ptr<RequestSigner> signer() {
  auto secrets = SecretSet::parse(make_secret(), "test").value();
  auto token = issue(secrets.signing(), TokenClaims::of_worker(testing::worker_id(9))).value();
  return std::make_shared<RequestSigner>(token);
}

// Simulates a stopped process: the kernel accepts its connections, but they get no answer.
class StoppedServer {
 public:
  StoppedServer() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(fd_, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(fd_, 64);
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~StoppedServer() { ::close(fd_); }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

 private:
  const int fd_;
  uint16_t port_ = 0;
};

// Ping timeouts: for a worker that must be found dead; for a live one, which always answers in
// kEnough.
constexpr auto kShort = milliseconds(100);
constexpr auto kEnough = seconds(60);

class PeerClientTest : public ::testing::Test {
 protected:
  std::shared_ptr<PeerClient> client(const std::string& address,
                                     Clock::duration ping_timeout = kEnough,
                                     Clock::duration patience = milliseconds(50)) {
    PeerClientOptions options{
        .address = address, .connect_timeout = kEnough, .ping_timeout = ping_timeout};
    options.failure_detector = {.ping_after = patience, .scan_interval = milliseconds(20)};
    return PeerClient::make(options, signer(), executor_).value();
  }
  PeerReply<void> read(PeerClient& peer, ReadProgress progress = {}) {
    const StoreId store = make_store_id("memory", "", "", "bucket");
    PeerRead request{.mount = "/m", .range = {0, 4}, .progress = progress};
    request.file =
        std::make_shared<const FileRef>(FileRef::make(store, "a", Version::etag("\"1\""), 4));
    text_.assign(4, '\0');
    return executor_.block_on(peer.read(Context::background().with_timeout(seconds(60)),
                                        std::move(request),
                                        std::as_writable_bytes(std::span(text_))));
  }
  std::unique_ptr<HttpServer> serve(HttpHandler handler) {
    HttpRouter router;
    router.set_fallback(std::move(handler));
    return HttpServer::start({{}, "127.0.0.1", 0}, std::move(router), {}, executor_).value();
  }

  Executor executor_{{.threads = 4}};
  std::string text_;
};

// Returns the bytes after three pings.
Task<HttpResponse> slow_but_alive(std::shared_ptr<std::atomic<int>> pings,
                                  std::shared_ptr<SharedPromise<bool>> gate, Context context,
                                  HttpRequest request) {
  if (request.path == "/peer/v1/ping") {
    if (++*pings == 3) gate->set(true);
    co_return HttpResponse{.status = 204};
  }
  Result<bool> opened = co_await gate->wait(context, "a gate");
  static_cast<void>(opened);
  HttpResponse response{.status = 206};
  response.headers.set("Content-Range", "bytes 0-3/4");
  response.headers.set("leat-epoch", "1");
  response.body = "abcd";
  co_return response;
}

Task<HttpResponse> answers(HttpResponse response, Context, HttpRequest) {
  co_return response;
}

TEST_F(PeerClientTest, StoppedWorkerIsDetected) {
  const StoppedServer stopped;
  auto peer = client(stopped.address(), kShort);
  const auto reply = read(*peer);
  EXPECT_EQ(reply.outcome, PeerOutcome::kUnreachable);
  ASSERT_FALSE(reply.result);
  EXPECT_EQ(reply.result.error().code(), StatusCode::kUnavailable);
  EXPECT_NE(reply.result.error().to_string().find("a ping neither"), std::string::npos);
  EXPECT_FALSE(peer->usable()) << "one that is dead is not asked again at once";
}

// Answers pings once awake; reads get no answer before.
Task<HttpResponse> asleep_until(std::shared_ptr<std::atomic<bool>> awake,
                                std::shared_ptr<std::atomic<int>> reads, Context context,
                                HttpRequest request) {
  if (request.path != "/peer/v1/ping") ++*reads;
  while (!*awake) {
    Result<> slept = co_await sleep_for(context, milliseconds(1));
    if (!slept) break;
  }
  co_return HttpResponse{.status = 204};
}

TEST_F(PeerClientTest, DeadWorkerIsProbedByPingsOnly) {
  auto awake = std::make_shared<std::atomic<bool>>(false);
  auto reads = std::make_shared<std::atomic<int>>(0);
  auto server = serve([awake, reads](Context context, HttpRequest request) {
    return asleep_until(awake, reads, std::move(context), std::move(request));
  });
  auto peer = client(server->endpoint().to_string(), kShort);
  EXPECT_EQ(read(*peer).outcome, PeerOutcome::kUnreachable);
  const auto until = Clock::now() + milliseconds(500);  // several pauses and trials
  while (Clock::now() < until) {
    EXPECT_FALSE(peer->usable());
    std::this_thread::yield();
  }
  EXPECT_EQ(*reads, 1);
  *awake = true;
  while (!peer->usable()) std::this_thread::yield();
  executor_.block_on(server->stop());
}

TEST_F(PeerClientTest, OneThatIsSlowIsWaitedFor) {
  auto gate = SharedPromise<bool>::make();
  auto pings = std::make_shared<std::atomic<int>>(0);
  auto server = serve([pings, gate](Context context, HttpRequest request) {
    return slow_but_alive(pings, gate, std::move(context), std::move(request));
  });
  auto peer = client(server->endpoint().to_string());
  const auto reply = read(*peer);
  EXPECT_TRUE(reply.result) << reply.result.error().to_string();
  EXPECT_EQ(text_, "abcd");
  EXPECT_TRUE(peer->usable());
  executor_.block_on(server->stop());
}

Task<HttpResponse> note_timeout(std::shared_ptr<std::string> told, Context, HttpRequest request) {
  *told = request.headers.find(kTimeoutField).value_or("none");
  HttpResponse response{.status = 206};
  response.headers.set("Content-Range", "bytes 0-3/4");
  response.headers.set("leat-epoch", "1");
  response.body = "abcd";
  co_return response;
}

TEST_F(PeerClientTest, TimeoutIsSentToTheWorker) {
  auto told = std::make_shared<std::string>();
  auto server = serve([told](Context context, HttpRequest request) {
    return note_timeout(told, std::move(context), std::move(request));
  });
  auto peer = client(server->endpoint().to_string());
  ASSERT_TRUE(read(*peer).result);  // timeout of 60 s
  EXPECT_GT(std::stoi(*told), 30'000);
  EXPECT_LE(std::stoi(*told), 60'000);
  executor_.block_on(server->stop());
}

class Arrivals : public ProgressListener {
 public:
  void on_bytes(uint64_t bytes) override { bytes_ = bytes; }
  uint64_t bytes() const override { return bytes_; }

 private:
  std::atomic<uint64_t> bytes_ = 0;
};

TEST_F(PeerClientTest, ReadReportsItsProgress) {
  HttpResponse response{.status = 206};
  response.headers.set("Content-Range", "bytes 0-3/4");
  response.headers.set("leat-epoch", "1");
  response.body = "abcd";
  auto server = serve([response](Context context, HttpRequest request) {
    return answers(response, std::move(context), std::move(request));
  });
  auto peer = client(server->endpoint().to_string());
  Arrivals arrivals;
  EXPECT_TRUE(read(*peer, ReadProgress(arrivals)).result);
  EXPECT_EQ(text_, "abcd");
  EXPECT_EQ(arrivals.bytes(), 4u);
  executor_.block_on(server->stop());
}

Task<HttpResponse> repeats(Context, HttpRequest request) {
  HttpResponse response{.status = 200};
  response.headers.set("leat-epoch", "7");
  response.body = request.method + " " + request.path + " " + request.body;
  co_return response;
}

TEST_F(PeerClientTest, JobRequestArrivesComplete) {
  auto server = serve(&repeats);
  auto peer = client(server->endpoint().to_string(), kEnough, hours(1));
  const double before = testing::metric("leat_peer_requests_total");
  auto reply =
      executor_.block_on(peer->jobs(Context::background(), "POST", "/one", "ticket", "what to do"));
  ASSERT_TRUE(reply.result) << reply.result.error().to_string();
  EXPECT_EQ(*reply.result, "POST /peer/v1/jobs/one what to do");
  EXPECT_EQ(reply.epoch, 7);
  EXPECT_EQ(testing::metric("leat_peer_requests_total"), before + 1);
  executor_.block_on(server->stop());
}

TEST_F(PeerClientTest, SnapshotPartMatchesTheRequest) {
  const Id128 id = Id128::random();
  for (const auto& [status, body, reach] : {std::tuple(206, "abcd", PeerOutcome::kAnswered),
                                            std::tuple(206, "abc", PeerOutcome::kUnreachable),
                                            std::tuple(200, "abcd", PeerOutcome::kUnreachable)}) {
    HttpResponse response = HttpResponse::text(status, body);
    response.headers.set("leat-epoch", "1");
    auto server = serve([response](Context context, HttpRequest request) {
      return answers(response, std::move(context), std::move(request));
    });
    auto peer = client(server->endpoint().to_string());
    const auto reply =
        executor_.block_on(make_peer_snapshots(*peer)->read(Context::background(), id, {0, 4}));
    EXPECT_EQ(reply.outcome, reach) << status << " " << body;
    EXPECT_EQ(reply.result.has_value(), reach == PeerOutcome::kAnswered);
    executor_.block_on(server->stop());
  }
}

TEST_F(PeerClientTest, RejectionIsAnAnswerUnlessUnsigned) {
  const Status missing(StatusCode::kNotFound, "there is no such file");
  for (const auto& [status, reach] :
       {std::pair(404, PeerOutcome::kAnswered), std::pair(kHttpUnsigned, PeerOutcome::kRejected)}) {
    HttpResponse response = HttpResponse::json(status, encode_peer_error(missing));
    response.headers.set("leat-epoch", "1");
    auto server = serve([response](Context context, HttpRequest request) {
      return answers(response, std::move(context), std::move(request));
    });
    auto peer = client(server->endpoint().to_string());
    const auto reply = read(*peer);
    EXPECT_EQ(reply.outcome, reach) << status;
    ASSERT_FALSE(reply.result);
    EXPECT_EQ(reply.result.error().code(), StatusCode::kNotFound);
    executor_.block_on(server->stop());
  }
}

// Such a worker gets no retry, and is not dead.
TEST_F(PeerClientTest, RejectionIsNotMissingAnswer) {
  HttpResponse ending = HttpResponse::json(
      503, encode_peer_error(Status(StatusCode::kCancelled, "this worker is ending")));
  ending.headers.set("leat-epoch", "1");
  for (const HttpResponse& response : {ending, HttpResponse::text(503, "unavailable")}) {
    auto server = serve([response](Context context, HttpRequest request) {
      return answers(response, std::move(context), std::move(request));
    });
    auto peer = client(server->endpoint().to_string());
    EXPECT_EQ(read(*peer).outcome, PeerOutcome::kRejected);
    EXPECT_TRUE(peer->usable());
    executor_.block_on(server->stop());
  }
}

TEST_F(PeerClientTest, CancelledRequestIsNoFailure) {
  const StoppedServer stopped;
  auto peer = client(stopped.address(), kEnough, hours(1));  // so that it is not found dead
  PeerRead request{.mount = "/m", .range = {0, 4}};
  request.file = std::make_shared<const FileRef>(
      FileRef::make(make_store_id("memory", "", "", "bucket"), "a", Version::etag("\"1\""), 4));
  for (int i = 0; i < 5; ++i) {
    text_.assign(4, '\0');
    auto reply = executor_.block_on(peer->read(Context::background().with_timeout(milliseconds(5)),
                                               request, std::as_writable_bytes(std::span(text_))));
    EXPECT_EQ(reply.outcome, PeerOutcome::kUnreachable);
  }
  EXPECT_TRUE(peer->usable());
}

TEST_F(PeerClientTest, RubbishIsNoAnswer) {
  for (HttpResponse response :
       {HttpResponse::text(200, "abcd"), HttpResponse::text(206, "abc"),
        HttpResponse::text(206, "abcde"), HttpResponse::text(301, "elsewhere")}) {
    auto server = serve([response](Context context, HttpRequest request) {
      return answers(response, std::move(context), std::move(request));
    });
    auto peer = client(server->endpoint().to_string());
    const auto reply = read(*peer);
    EXPECT_FALSE(reply.result) << response.status << " " << response.body;
    EXPECT_FALSE(responded(reply.outcome)) << "somebody else is asked";
    executor_.block_on(server->stop());
  }
}

// --- the circuit ---------------------------------------------------------------------------------

TEST(PeerCircuitBreaker, OpensAfterFailuresAndClosesOnAnswer) {
  Clock::time_point now{};
  PeerCircuitBreaker circuit({.now = [&] { return now; }});
  circuit.failed(false);
  circuit.failed(false);
  circuit.succeeded();
  circuit.failed(false);
  circuit.failed(false);
  EXPECT_EQ(circuit.decide(), PeerCircuitBreaker::Decision::kAllow);
  circuit.failed(false);
  EXPECT_EQ(circuit.decide(), PeerCircuitBreaker::Decision::kReject);
  now += milliseconds(100);
  EXPECT_EQ(circuit.decide(), PeerCircuitBreaker::Decision::kTrial) << "one, to see";
  now += seconds(60);
  EXPECT_EQ(circuit.decide(), PeerCircuitBreaker::Decision::kReject)
      << "and no other one, however long it takes";
  circuit.succeeded();
  EXPECT_EQ(circuit.decide(), PeerCircuitBreaker::Decision::kAllow);
  EXPECT_EQ(circuit.decide(), PeerCircuitBreaker::Decision::kAllow);
}

TEST(PeerCircuitBreaker, DeadWorkerOpensAtOnceAndBacksOff) {
  Clock::time_point now{};
  PeerCircuitBreaker circuit({.now = [&] { return now; }});
  circuit.failed(true);
  // Requests that were in flight fail too, and are no trials.
  for (int i = 0; i < 100; ++i) circuit.failed(true);
  milliseconds pause(100);
  for (int i = 0; i < 6; ++i) {
    now += pause - milliseconds(1);
    EXPECT_EQ(circuit.decide(), PeerCircuitBreaker::Decision::kReject) << i;
    now += milliseconds(1);
    EXPECT_EQ(circuit.decide(), PeerCircuitBreaker::Decision::kTrial) << i;
    circuit.failed(true);
    pause = std::min<milliseconds>(pause * 2, seconds(5));
  }
}

}  // namespace
}  // namespace leat
