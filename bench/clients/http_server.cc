// SPDX-License-Identifier: Apache-2.0
// Cost of a request to our HTTP server, and to a minimal one of Beast that sends the same bytes.
//
//   leat_bench_http BYTES CONNECTIONS SECONDS [CLIENT]
//
// A server on one thread gets requests from clients with persistent connections, one request in
// flight each. Server and clients are separate processes, so that the server's CPU is measured
// alone. Prints a JSON line for each server: requests a second and the server's CPU for one. With
// CLIENT `leat` our client sends the requests, from one thread, and its CPU is printed as well.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bare_beast.h"
#include "http/client.h"
#include "http/server/server.h"
#include "runtime/disk.h"
#include "runtime/executor.h"

namespace leat {
namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;

struct Work {
  size_t bytes;
  int connections;
  double seconds;
  bool our_client;
};

[[noreturn]] void bare(int port_to, const std::string& body) {
  Executor executor({.threads = 1});
  Tcp::acceptor acceptor(executor.any(), Tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  const uint16_t port = acceptor.local_endpoint().port();
  const std::vector<std::string> bodies = {body};
  executor.spawn(accept_bare(&executor, &acceptor, &bodies));
  (void)!::write(port_to, &port, sizeof port);
  for (;;) pause();
}

Task<HttpResponse> answer(const HttpResponse* like, Context, HttpRequest) {
  co_return *like;
}

[[noreturn]] void ours(int port_to, HttpResponse response) {
  Executor executor({.threads = 1});
  HttpRouter router;
  router.add("GET", "/bytes", [&response](Context context, HttpRequest request) {
    return answer(&response, std::move(context), std::move(request));
  });
  auto server =
      HttpServer::start(*HttpEndpoint::parse("127.0.0.1:0"), std::move(router), {}, executor);
  const uint16_t port = (*server)->endpoint().port;
  (void)!::write(port_to, &port, sizeof port);
  for (;;) pause();
}

[[noreturn]] void ours_from_file(int port_to, const std::string& body) {
  auto file = std::make_shared<File>(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  (void)!::pwrite(file->fd(), body.data(), body.size(), 0);
  HttpResponse response;
  response.file = HttpFileBody{.owner = file, .fd = file->fd(), .size = body.size()};
  ours(port_to, std::move(response));
}

int connect_to(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) std::abort();
  return fd;
}

// A minimal client, with the fields that ours sends.
uint64_t ask_raw(uint16_t port, const Work& work) {
  constexpr std::string_view kRequest =
      "GET /bytes?mount=data&offset=0&size=4096 HTTP/1.1\r\nHost: 127.0.0.1:80\r\n"
      "leat-date: 1700000000\r\nleat-nonce: 0123456789abcdef-12\r\nRange: bytes=0-4095\r\n\r\n";
  std::vector<pollfd> sockets;
  std::vector<size_t> left(static_cast<size_t>(work.connections), 0);
  for (int i = 0; i < work.connections; ++i) sockets.push_back({connect_to(port), POLLIN, 0});
  std::vector<char> memory(1 << 20);
  for (auto& socket : sockets) (void)!::write(socket.fd, kRequest.data(), kRequest.size());
  uint64_t answered = 0;
  const auto end = Clock::now() + std::chrono::duration<double>(work.seconds);
  while (Clock::now() < end) {
    ::poll(sockets.data(), sockets.size(), -1);
    for (size_t i = 0; i < sockets.size(); ++i) {
      if (sockets[i].revents == 0) continue;
      const ssize_t got = ::recv(sockets[i].fd, memory.data(), memory.size(), MSG_DONTWAIT);
      if (got <= 0) std::abort();
      auto bytes = static_cast<size_t>(got);
      if (left[i] == 0) {
        const size_t head = std::string_view(memory.data(), bytes).find("\r\n\r\n") + 4;
        left[i] = work.bytes + head;
      }
      left[i] -= bytes;
      if (left[i] > 0) continue;
      ++answered;
      (void)!::write(sockets[i].fd, kRequest.data(), kRequest.size());
    }
  }
  return answered;
}

Task<> ask_until(HttpClient client, Clock::time_point end, size_t bytes, uint64_t* answered) {
  std::vector<std::byte> memory(bytes);
  while (Clock::now() < end) {
    HttpRequest request{.target = "/bytes?mount=data&offset=0&size=4096"};
    request.headers.set("leat-date", "1700000000");
    request.headers.set("leat-nonce", "0123456789abcdef-12");
    request.headers.set("Range", "bytes=0-4095");
    std::vector<std::span<std::byte>> pieces = {memory};
    auto response =
        co_await client.request_into(Context::background().with_timeout(std::chrono::seconds(30)),
                                     std::move(request), {.pieces = std::move(pieces)});
    if (!response) std::abort();
    ++*answered;
  }
}

uint64_t ask_ours(uint16_t port, const Work& work) {
  Executor executor({.threads = 1});
  HttpClient client(*HttpEndpoint::parse("127.0.0.1:" + std::to_string(port)),
                    {.connections_max = static_cast<unsigned>(work.connections)});
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(work.seconds));
  uint64_t answered = 0;
  std::vector<std::future<void>> askers;
  for (int i = 0; i < work.connections; ++i) {
    askers.push_back(asio::co_spawn(executor.any(), ask_until(client, end, work.bytes, &answered),
                                    asio::use_future));
  }
  for (auto& asker : askers) asker.get();
  return answered;
}

double seconds_of(const rusage& usage) {
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double own_cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage);
}

template <class Serve>
void measure(const char* name, const Work& work, Serve serve) {
  int pipe[2];
  if (::pipe(pipe) != 0) std::abort();
  const pid_t server = ::fork();
  if (server == 0) serve(pipe[1]);
  uint16_t port = 0;
  if (::read(pipe[0], &port, sizeof port) != sizeof port) std::abort();
  const double before = own_cpu_seconds();
  const uint64_t answered = work.our_client ? ask_ours(port, work) : ask_raw(port, work);
  const double client_cpu = own_cpu_seconds() - before;
  ::kill(server, SIGKILL);
  rusage usage{};
  ::wait4(server, nullptr, 0, &usage);
  const auto count = static_cast<double>(answered);
  std::printf(
      "{\"server\": \"%s\", \"bytes\": %zu, \"connections\": %d, \"requests_per_second\": "
      "%.0f, \"server_cpu_us\": %.2f, \"client_cpu_us\": %.2f}\n",
      name, work.bytes, work.connections, count / work.seconds, seconds_of(usage) * 1e6 / count,
      client_cpu * 1e6 / count);
  std::fflush(stdout);
}

}  // namespace
}  // namespace leat

int main(int argc, char** argv) {
  using namespace leat;
  if (argc < 4) {
    std::fprintf(stderr, "leat_bench_http BYTES CONNECTIONS SECONDS [leat]\n");
    return 2;
  }
  const Work work{std::strtoull(argv[1], nullptr, 10), std::atoi(argv[2]), std::atof(argv[3]),
                  argc > 4};
  const std::string body(work.bytes, 'x');
  measure("beast", work, [&](int port_to) { bare(port_to, body); });
  measure("memory", work, [&](int port_to) {
    HttpResponse response;
    response.bytes = Bytes::copy_of(body);
    ours(port_to, std::move(response));
  });
  measure("file", work, [&](int port_to) { ours_from_file(port_to, body); });
  return 0;
}
