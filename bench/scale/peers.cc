// SPDX-License-Identifier: Apache-2.0
// Requests between workers and clients: each kind over loopback, with the real door and the real
// client, both in this process, so a figure is the CPU of both sides and of the kernel between
// them. What a thousand workers come to is counted from that.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "cluster/stripes.h"
#include "cluster/view_signal.h"
#include "doors/peer/peer_door.h"
#include "http/server.h"
#include "peer/peer_client.h"
#include "peer/peer_table.h"
#include "scale/figures.h"
#include "scale/fleet.h"
#include "scale/one_worker.h"
#include "scale/page_cost.h"
#include "scale/parts.h"

namespace leat::scale {
namespace {

constexpr uint64_t kInFlight = 16;
// As they stand in doors/peer/peer_door.cc, peer/changes.h and apps/cluster/change_crier.cc.
constexpr double kViewPollS = 8;
constexpr double kGatherS = 0.05;

using Ask = std::function<Task<Result<>>(std::shared_ptr<PeerClient>)>;

Task<> ask_some(std::shared_ptr<PeerClient> client, Ask ask, std::atomic<int64_t>* left,
                std::atomic<uint64_t>* working) {
  while (left->fetch_sub(1) > 0) must(co_await ask(client));
  if (working->fetch_sub(1) == 1) working->notify_all();
}

// Seconds of CPU of one request.
double cpu_of(OneWorker& worker, uint64_t requests, const Ask& ask) {
  const auto client = worker.client();
  must(worker.executor.wait(ask(client)));  // a connection stands
  std::atomic<int64_t> left = static_cast<int64_t>(requests);
  std::atomic<uint64_t> working = kInFlight;
  const Stopwatch watch;
  for (uint64_t i = 0; i < kInFlight; ++i) {
    worker.executor.spawn(ask_some(client, ask, &left, &working));
  }
  for (uint64_t now = working; now > 0; now = working) working.wait(now);
  return watch.cpu_seconds() / double(requests);
}

Task<Result<>> ask_ping(std::shared_ptr<PeerClient> client) {
  co_return co_await client->ping();
}
Task<Result<>> ask_view(std::shared_ptr<PeerClient> client) {
  Result<ClusterViewPtr> view = co_await client->view(Context::background(), 0);
  co_return view ? Result<>() : Result<>(Error(view.error()));
}
Task<Result<>> tell_change(std::shared_ptr<PeerClient> client) {
  co_return co_await client->tell(
      Context::background(),
      {.number = 0, .changes = {{"/train", object_key(12'345, 1000), PeerChange::Kind::kObject}}});
}

struct Costs {
  double ping, view, tell, poll;
};

Costs print_requests(const Setting& setting) {
  begin_part("peers: CPU of one request, both sides and the kernel");
  OneWorker worker(setting);
  Costs costs{};
  costs.ping = cpu_of(worker, setting.requests, ask_ping);
  print_seconds("a ping", costs.ping);
  costs.tell = cpu_of(worker, setting.requests, tell_change);
  print_seconds("one change told by another worker", costs.tell);
  const uint64_t number = worker.changes.number();
  costs.poll = cpu_of(worker, setting.requests, [number](std::shared_ptr<PeerClient> client) {
    return ask_changes(std::move(client), number - 1);
  });
  print_seconds("one change heard by a client", costs.poll);
  costs.view = cpu_of(worker, std::max<uint64_t>(setting.requests / 100, 20), ask_view);
  print_seconds("the view of all workers", costs.view);
  const PeerChanges one{
      .number = 1ull << 50,
      .changes = {{"/train", object_key(12'345, 1000), PeerChange::Kind::kObject}}};
  print_bytes("a change as it is told", double(encode_changes(one).size()));
  return costs;
}

void print_steady(const Setting& setting, const Costs& costs) {
  begin_part("peers: while nothing changes");
  const double clients = double(setting.clients), workers = double(setting.workers);
  const double polls_s = std::chrono::duration<double>(kChangesWait).count();
  const double rate = clients / workers * (1 / kViewPollS + 1 / polls_s);
  print_number("long questions answered with nothing, at each worker", rate, "/s");
  print_share("of a core, as dear as a ping", rate * costs.ping);
  print_number("questions that stand, at each worker", 2 * clients / workers);
}

// Each worker that finds names changed tells all others, at most once in the time that it gathers.
void print_cries(const Setting& setting, const Costs& costs) {
  const double clients = double(setting.clients), workers = double(setting.workers);
  const double others = workers - 1;
  begin_part("peers: one worker finds a directory changed");
  print_number("requests that it sends", others);
  print_seconds("CPU of them all, both sides", others * costs.tell);
  print_number("clients that hear of it", clients);
  begin_part("peers: all workers find names changed all the time (a data set that was rewritten)");
  const double cries = 1 / kGatherS;
  print_number("requests that each worker sends, and gets", cries * others, "/s");
  print_number("in the whole cluster", cries * others * workers, "/s");
  print_share("of a core at each worker, for both", cries * others * costs.tell);
  print_number("workers with which that is one core", 1 / (cries * costs.tell) + 1);
  print_number("directories that one worker can name, before all is doubted", 1000 * cries, "/s");
  print_number("answers that each client could take", cries * workers, "/s");
  begin_part("peers: all clients list again what they know (as after a cry without names)");
  const PageCost page = measure_page(setting);
  const double known = double(setting.directories_known);
  print_number("directories that a client knows, a page each", known);
  print_number("requests at each worker", clients * known / workers);
  print_seconds("CPU of each worker for that",
                clients * known / workers * (page.written + costs.ping / 2));
  print_seconds("CPU of each client for that", known * (page.read + costs.ping / 2));
  print_bytes("from each worker for that", clients * known / workers * page.bytes);
}

void print_hot_object(const Setting& setting) {
  begin_part("peers: one object that all clients want at once");
  const double bytes = double(2 * kStripeBytes);
  print_bytes("the largest that has one owner", bytes);
  print_seconds("until all have it, at all of its owner's link",
                bytes * double(setting.clients) / setting.link_bytes_per_s);
  print_seconds("of a larger one, each stripe at its owner",
                double(kStripeBytes) * double(setting.clients) / setting.link_bytes_per_s);
}

void print_trust(const Setting& setting) {
  begin_part("peers: whom a worker believes");
  const uint64_t senders = setting.clients + setting.workers;
  const SecretSetPtr secrets = OneWorker::secrets();
  const WorkerId self = made_worker(0, 0).id;
  std::vector<std::unique_ptr<RequestSigner>> signers;
  for (uint64_t i = 0; i < senders; ++i) {
    TokenClaims claims{.principal = fmt::format("client-{:05}", i), .rights = {}, .id = {}};
    claims.rights.add("/", {Right::kRead});
    claims.id = made_worker(i, 0).id;
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
  // All signed first: what is measured is believing.
  auto seconds_with = [&](uint64_t among, const char* name) {
    RequestVerifier verifier(secrets, {.self = self});
    std::vector<HttpRequest> requests;
    for (uint64_t i = 0; i < 4 * senders; ++i) requests.push_back(request_of(i % among));
    const uint64_t before = heap_bytes();
    const Stopwatch watch;
    for (const HttpRequest& request : requests) must(verifier.verify(request));
    print_seconds(fmt::format("a request believed, {} take turns", name),
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
  for (const auto& client : clients) must(worker.executor.wait(tell_change(client)));
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
  print_bytes("heap of a kept connection at a worker", one);
  const double of_client = connection_bytes_of_client(worker, setting.connections / 4, one);
  for (const int socket : sockets) close(socket);
  print_bytes("heap of a kept connection at a client", of_client);
  const double clients = double(setting.clients), workers = double(setting.workers);
  for (const double kept : {1.0, 2.0, 4.0}) {
    const double all = kept * clients + workers - 1 + 2 * clients / workers;
    print_figure(fmt::format("where each client keeps {} to each worker", kept),
                 fmt::format("{} at a worker, {}; {} at a client, {}", number_text(all),
                             bytes_text(all * one), number_text(kept * workers + 2),
                             bytes_text((kept * workers + 2) * of_client)));
  }
  print_number("connections that a worker takes (apps/cluster)", 8192);
  print_number("clients with which they are all taken, one each", 8192 - (workers - 1));
}

}  // namespace

void run_peers(const Setting& setting) {
  const Costs costs = print_requests(setting);
  print_steady(setting, costs);
  print_cries(setting, costs);
  print_hot_object(setting);
  print_trust(setting);
  print_connections(setting);
}

}  // namespace leat::scale
