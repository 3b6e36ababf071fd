// SPDX-License-Identifier: Apache-2.0
// Requests between workers and clients: each kind over loopback, with the real server and the real
// client, both in this process, so a figure is the CPU of both sides and of the kernel between
// them. The cost of a thousand workers is computed from that.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "cluster/stripes.h"
#include "cluster/view_watch.h"
#include "frontends/peer/peer_server.h"
#include "http/server/server.h"
#include "peer/client/peer_client.h"
#include "peer/peer_table.h"
#include "scale/figures.h"
#include "scale/fleet.h"
#include "scale/one_worker.h"
#include "scale/page_cost.h"
#include "scale/parts.h"

namespace leat::scale {
namespace {

constexpr uint64_t kInFlight = 16;
// As defined in frontends/peer/peer_server.cc, wire/invalidations.h and
// peer/invalidation/invalidation_broadcaster.cc.
constexpr double kViewPollS = 8;
constexpr double kBatchS = 0.05;

using Call = std::function<Task<Result<>>(std::shared_ptr<PeerClient>)>;

Task<> call_some(std::shared_ptr<PeerClient> client, Call call, std::atomic<int64_t>* left,
                 std::atomic<uint64_t>* working) {
  while (left->fetch_sub(1) > 0) must(co_await call(client));
  if (working->fetch_sub(1) == 1) working->notify_all();
}

// Seconds of CPU of one request.
double cpu_of(OneWorker& worker, uint64_t requests, const Call& call) {
  const auto client = worker.client();
  must(worker.executor.block_on(call(client)));  // a connection is established
  std::atomic<int64_t> left = static_cast<int64_t>(requests);
  std::atomic<uint64_t> working = kInFlight;
  const Stopwatch watch;
  for (uint64_t i = 0; i < kInFlight; ++i) {
    worker.executor.spawn(call_some(client, call, &left, &working));
  }
  for (uint64_t now = working; now > 0; now = working) working.wait(now);
  return watch.cpu_seconds() / double(requests);
}

Task<Result<>> ping(std::shared_ptr<PeerClient> client) {
  co_return co_await client->ping();
}
Task<Result<>> fetch_view(std::shared_ptr<PeerClient> client) {
  Result<ClusterViewPtr> view = co_await client->view(Context::background(), 0);
  co_return view ? Result<>() : Result<>(Error(view.error()));
}
Task<Result<>> publish_change(std::shared_ptr<PeerClient> client) {
  co_return co_await client->send_invalidations(
      Context::background(),
      {.number = 0, .items = {{"/train", object_key(12'345, 1000), Invalidation::Kind::kObject}}});
}

struct Costs {
  double ping, view, publish, poll;
};

Costs print_requests(const Setting& setting) {
  begin_part("peers: CPU of one request, both sides and the kernel");
  OneWorker worker(setting);
  Costs costs{};
  costs.ping = cpu_of(worker, setting.requests, ping);
  print_seconds("a ping", costs.ping);
  costs.publish = cpu_of(worker, setting.requests, publish_change);
  print_seconds("one change published by another worker", costs.publish);
  const uint64_t number = worker.changes.number();
  costs.poll = cpu_of(worker, setting.requests, [number](std::shared_ptr<PeerClient> client) {
    return request_changes(std::move(client), number - 1);
  });
  print_seconds("one change received by a client", costs.poll);
  costs.view = cpu_of(worker, std::max<uint64_t>(setting.requests / 100, 20), fetch_view);
  print_seconds("the view of all workers", costs.view);
  const Invalidations one{
      .number = 1ull << 50,
      .items = {{"/train", object_key(12'345, 1000), Invalidation::Kind::kObject}}};
  print_bytes("a change as it is sent", double(encode_invalidations(one).size()));
  return costs;
}

void print_steady(const Setting& setting, const Costs& costs) {
  begin_part("peers: while nothing changes");
  const double clients = double(setting.clients), workers = double(setting.workers);
  const double polls_s = std::chrono::duration<double>(kInvalidationsWait).count();
  const double rate = clients / workers * (1 / kViewPollS + 1 / polls_s);
  print_number("long polls without a result, at each worker", rate, "/s");
  print_share("of a core, at the cost of a ping", rate * costs.ping);
  print_number("open long polls, at each worker", 2 * clients / workers);
}

// Each worker that finds names changed notifies all others, at most once per batch interval.
void print_invalidations(const Setting& setting, const Costs& costs) {
  const double clients = double(setting.clients), workers = double(setting.workers);
  const double others = workers - 1;
  begin_part("peers: one worker finds a directory changed");
  print_number("requests that it sends", others);
  print_seconds("CPU of them all, both sides", others * costs.publish);
  print_number("clients that receive it", clients);
  begin_part("peers: all workers find names changed all the time (a data set that was rewritten)");
  const double batches_s = 1 / kBatchS;
  print_number("requests that each worker sends, and gets", batches_s * others, "/s");
  print_number("in the whole cluster", batches_s * others * workers, "/s");
  print_share("of a core at each worker, for both", batches_s * others * costs.publish);
  print_number("workers with which that is one core", 1 / (batches_s * costs.publish) + 1);
  print_number("directories that one worker can name, before all become stale", 1000 * batches_s,
               "/s");
  print_number("responses that each client could receive", batches_s * workers, "/s");
  begin_part(
      "peers: all clients list their directories again (as after an invalidation without names)");
  const PageCost page = measure_page(setting);
  const double known = double(setting.directories_known);
  print_number("directories cached by a client, a page each", known);
  print_number("requests at each worker", clients * known / workers);
  print_seconds("CPU of each worker for that",
                clients * known / workers * (page.written + costs.ping / 2));
  print_seconds("CPU of each client for that", known * (page.read + costs.ping / 2));
  print_bytes("from each worker for that", clients * known / workers * page.bytes);
}

void print_hot_object(const Setting& setting) {
  begin_part("peers: one object that all clients read at once");
  const double bytes = double(2 * kStripeBytes);
  print_bytes("the largest that has one owner", bytes);
  print_seconds("until all have it, at all of its owner's link",
                bytes * double(setting.clients) / setting.link_bytes_per_s);
  print_seconds("of a larger one, each stripe at its owner",
                double(kStripeBytes) * double(setting.clients) / setting.link_bytes_per_s);
}

void print_authentication(const Setting& setting) {
  begin_part("peers: authentication at a worker");
  const uint64_t senders = setting.clients + setting.workers;
  const SecretSetPtr secrets = OneWorker::secrets();
  const WorkerId self = synthetic_worker(0, 0).id;
  std::vector<std::unique_ptr<RequestSigner>> signers;
  for (uint64_t i = 0; i < senders; ++i) {
    TokenClaims claims{.principal = fmt::format("client-{:05}", i), .rights = {}, .id = {}};
    claims.rights.add("/", {Right::kRead});
    claims.id = synthetic_worker(i, 0).id;
    signers.push_back(std::make_unique<RequestSigner>(must(issue(secrets->signing(), claims))));
  }
  auto request_of = [&](uint64_t sender) {
    HttpRequest request{.path = "/peer/v1/bytes"};
    request.query = {{"key", object_key(sender, 1000)}};
    request.target = make_target(request.path, request.query);
    request.headers.set(kToField, self.to_hex());
    signers[sender]->sign(request);
    return request;
  };
  // All signed first: only the verification is measured.
  auto seconds_with = [&](uint64_t among, const char* name) {
    RequestVerifier verifier(secrets, {.self = self});
    std::vector<HttpRequest> requests;
    for (uint64_t i = 0; i < 4 * senders; ++i) requests.push_back(request_of(i % among));
    const uint64_t before = heap_bytes();
    const Stopwatch watch;
    for (const HttpRequest& request : requests) must(verifier.verify(request));
    print_seconds(fmt::format("a request verified, {} take turns", name),
                  watch.cpu_seconds() / double(requests.size()));
    if (among == senders) {
      print_bytes("heap of all their sessions and of the tokens that are kept",
                  double(heap_bytes() - before));
    }
  };
  seconds_with(std::min<uint64_t>(senders, 1000), "1,000 tokens");
  seconds_with(senders, "all clients and workers, each with a token of its own,");
  print_number("tokens whose keys are kept", double(RequestVerifierOptions().tokens_max));
}

// Sockets without a client's memory behind them.
std::vector<int> connect_many(uint16_t port, uint64_t count) {
  std::vector<int> sockets;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (uint64_t i = 0; i < count; ++i) {
    const int one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (one < 0 || connect(one, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      fail("no more connections; see ulimit -n");
    }
    const std::string_view asked = "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n";
    if (send(one, asked.data(), asked.size(), 0) < 0) fail("a connection broke");
    char answer[512];
    if (recv(one, answer, sizeof answer, 0) <= 0) fail("a connection was closed");
    sockets.push_back(one);
  }
  return sockets;
}

double connection_bytes_of_client(OneWorker& worker, uint64_t count, double of_worker) {
  std::vector<std::shared_ptr<PeerClient>> clients;
  for (uint64_t i = 0; i < count; ++i) clients.push_back(worker.client());
  const uint64_t before = heap_bytes();
  for (const auto& client : clients) must(worker.executor.block_on(publish_change(client)));
  return double(heap_bytes() - before) / double(count) - of_worker;
}

void print_connections(const Setting& setting) {
  begin_part("peers: connections");
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  OneWorker worker(setting);
  close(connect_many(worker.port(), 1).front());
  const uint64_t before = heap_bytes();
  const std::vector<int> sockets = connect_many(worker.port(), setting.connections);
  const double one = double(heap_bytes() - before) / double(setting.connections);
  print_bytes("heap of an idle connection at a worker", one);
  const double of_client = connection_bytes_of_client(worker, setting.connections / 4, one);
  for (const int socket : sockets) close(socket);
  print_bytes("heap of an idle connection at a client", of_client);
  const double clients = double(setting.clients), workers = double(setting.workers);
  for (const double kept : {1.0, 2.0, 4.0}) {
    const double all = kept * clients + workers - 1 + 2 * clients / workers;
    print_figure(fmt::format("where each client keeps {} to each worker", kept),
                 fmt::format("{} at a worker, {}; {} at a client, {}", number_text(all),
                             bytes_text(all * one), number_text(kept * workers + 2),
                             bytes_text((kept * workers + 2) * of_client)));
  }
  print_number("connections that a worker takes (frontends/peer)", 8192);
  print_number("clients with which they are all taken, one each", 8192 - (workers - 1));
}

}  // namespace

void run_peers(const Setting& setting) {
  const Costs costs = print_requests(setting);
  print_steady(setting, costs);
  print_invalidations(setting, costs);
  print_hot_object(setting);
  print_authentication(setting);
  print_connections(setting);
}

}  // namespace leat::scale
