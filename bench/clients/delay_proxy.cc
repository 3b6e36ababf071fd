// SPDX-License-Identifier: Apache-2.0
// delay_proxy: a TCP proxy that makes a server on this machine look far away. Arguments:
// LISTEN_PORT SERVER_ADDRESS SERVER_PORT DELAY_MS [JITTER_MS].
//
// Each byte of the server arrives DELAY_MS later, plus up to JITTER_MS at random, in order. The
// first bytes of a client wait DELAY_MS, as they do for the handshake of a connection. One thread.
// Prints one line when it listens; ends with SIGTERM.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <unordered_set>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kChunkBytes = 256 << 10;
// Bytes under way of one connection; enough for 2 GiB/s at 100 ms in a few connections.
constexpr size_t kUnderWayMax = 64 << 20;

constexpr size_t kSpareMax = 1024;

struct Options {
  uint16_t listen_port = 0;
  sockaddr_in server{};
  Clock::duration delay{}, jitter{};
};

using Memory = std::unique_ptr<char[]>;

struct Chunk {
  Clock::time_point due;
  Memory memory;
  size_t size = 0, sent = 0;
};

struct Connection;
// One end of a connection; the address of a Side is what epoll returns.
struct Side {
  Connection* connection = nullptr;
  int fd = -1;
  uint32_t events = 0;
};

struct Connection {
  Side client, server;
  Clock::time_point begins;  // from when on the client's bytes pass
  std::vector<char> to_server;
  size_t to_server_sent = 0;
  std::deque<Chunk> to_client;
  size_t under_way = 0;
  Clock::time_point last_due{};
  bool server_ended = false, client_ended = false;
};

void check(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::exit(1);
}

sockaddr_in address_of(const char* host, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  check(inet_pton(AF_INET, host, &address.sin_addr) == 1, host);
  return address;
}

class Proxy {
 public:
  explicit Proxy(Options options) : options_(options) {
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int one = 1;
    setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    const sockaddr_in address = address_of("127.0.0.1", options.listen_port);
    check(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0,
          "bind");
    check(listen(listener_, 4096) == 0, "listen");
    epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, listener_, &event);
  }

  [[noreturn]] void run() {
    std::array<epoll_event, 256> events{};
    for (;;) {
      const int ready = epoll_wait(epoll_, events.data(), events.size(), timeout_ms());
      for (int i = 0; i < ready; ++i) handle(events[static_cast<size_t>(i)]);
      const Clock::time_point now = Clock::now();
      while (!timers_.empty() && timers_.top().at <= now) {
        Connection* connection = timers_.top().connection;
        timers_.pop();
        if (alive_.contains(connection)) advance(*connection);
      }
      for (Connection* connection : ended_) destroy(connection);
      ended_.clear();
    }
  }

 private:
  struct Timer {
    Clock::time_point at;
    Connection* connection;
    bool operator<(const Timer& other) const { return at > other.at; }
  };

  int timeout_ms() const {
    if (timers_.empty()) return -1;
    const auto left = std::chrono::ceil<milliseconds>(timers_.top().at - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, 1000));
  }

  void handle(const epoll_event& event) {
    if (event.data.ptr == nullptr) return accept_all();
    Side& side = *static_cast<Side*>(event.data.ptr);
    Connection& connection = *side.connection;
    if (!alive_.contains(&connection)) return;
    if (&side == &connection.client) {
      if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_client(connection);
    } else if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
      read_server(connection);
    }
    advance(connection);
  }

  void accept_all() {
    for (;;) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (connect(server, reinterpret_cast<const sockaddr*>(&options_.server),
                  sizeof options_.server) != 0) {
        close(fd);
        close(server);
        continue;
      }
      auto* connection = new Connection;
      connection->client = {connection, fd};
      connection->server = {connection, server};
      connection->begins = Clock::now() + options_.delay;
      const int one = 1;
      for (Side* side : {&connection->client, &connection->server}) {
        setsockopt(side->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        epoll_event event{.events = 0, .data = {.ptr = side}};
        epoll_ctl(epoll_, EPOLL_CTL_ADD, side->fd, &event);
      }
      alive_.insert(connection);
      watch(*connection);
    }
  }

  // Reads until there is nothing left; returns false at the end of the stream.
  bool read_some(int fd, std::vector<char>& into) {
    const size_t before = into.size();
    into.resize(before + kChunkBytes);
    const ssize_t got = recv(fd, into.data() + before, kChunkBytes, MSG_DONTWAIT);
    into.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
  }

  void read_client(Connection& connection) {
    if (!read_some(connection.client.fd, connection.to_server)) connection.client_ended = true;
    if (Clock::now() < connection.begins) timers_.push({connection.begins, &connection});
  }

  void read_server(Connection& connection) {
    Chunk chunk{.due = {}, .memory = take_memory()};
    const ssize_t got = recv(connection.server.fd, chunk.memory.get(), kChunkBytes, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) connection.server_ended = true;
    if (got <= 0) return spare_.push_back(std::move(chunk.memory));
    chunk.size = static_cast<size_t>(got);
    Clock::time_point due = Clock::now();
    due += options_.delay;
    if (options_.jitter > Clock::duration::zero()) {
      due += Clock::duration(
          std::uniform_int_distribution<Clock::rep>(0, options_.jitter.count())(random_));
    }
    chunk.due = connection.last_due = std::max(due, connection.last_due);
    connection.under_way += chunk.size;
    timers_.push({chunk.due, &connection});
    connection.to_client.push_back(std::move(chunk));
  }

  // Memory is used again: new pages would cost more than the copy into them.
  Memory take_memory() {
    if (spare_.empty()) return std::make_unique_for_overwrite<char[]>(kChunkBytes);
    Memory memory = std::move(spare_.back());
    spare_.pop_back();
    return memory;
  }

  // Sends what is due and asks for what may come next.
  void advance(Connection& connection) {
    const Clock::time_point now = Clock::now();
    while (connection.to_server_sent < connection.to_server.size() && now >= connection.begins) {
      const ssize_t sent = send(
          connection.server.fd, connection.to_server.data() + connection.to_server_sent,
          connection.to_server.size() - connection.to_server_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EAGAIN) break;
      if (sent <= 0) return end(connection);
      connection.to_server_sent += static_cast<size_t>(sent);
    }
    if (connection.to_server_sent == connection.to_server.size()) {
      connection.to_server.clear();
      connection.to_server_sent = 0;
    }
    while (!connection.to_client.empty() && connection.to_client.front().due <= now) {
      Chunk& chunk = connection.to_client.front();
      const ssize_t sent = send(connection.client.fd, chunk.memory.get() + chunk.sent,
                                chunk.size - chunk.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EAGAIN) break;
      if (sent <= 0) return end(connection);
      chunk.sent += static_cast<size_t>(sent);
      connection.under_way -= static_cast<size_t>(sent);
      if (chunk.sent < chunk.size) continue;
      if (spare_.size() < kSpareMax) spare_.push_back(std::move(chunk.memory));
      connection.to_client.pop_front();
    }
    if (connection.client_ended || (connection.server_ended && connection.to_client.empty())) {
      return end(connection);
    }
    watch(connection);
  }

  void watch(Connection& connection) {
    const Clock::time_point now = Clock::now();
    const bool due = !connection.to_client.empty() && connection.to_client.front().due <= now;
    const bool unsent = connection.to_server_sent < connection.to_server.size();
    set_events(connection.client, (unsent ? 0u : EPOLLIN) | (due ? EPOLLOUT : 0u));
    const bool wants = !connection.server_ended && connection.under_way < kUnderWayMax;
    set_events(connection.server,
               (wants ? EPOLLIN : 0u) | (unsent && now >= connection.begins ? EPOLLOUT : 0u));
  }

  void set_events(Side& side, uint32_t events) {
    if (side.events == events) return;
    side.events = events;
    epoll_event event{.events = events, .data = {.ptr = &side}};
    epoll_ctl(epoll_, EPOLL_CTL_MOD, side.fd, &event);
  }

  // Destroyed after the round: events of it may follow.
  void end(Connection& connection) {
    if (alive_.erase(&connection) == 0) return;
    ended_.push_back(&connection);
  }
  static void destroy(Connection* connection) {
    close(connection->client.fd);
    close(connection->server.fd);
    delete connection;
  }

  const Options options_;
  int epoll_ = -1, listener_ = -1;
  std::unordered_set<Connection*> alive_;
  std::vector<Connection*> ended_;
  std::vector<Memory> spare_;
  std::priority_queue<Timer> timers_;
  std::mt19937_64 random_{1};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) {
    std::fprintf(stderr, "usage: %s LISTEN_PORT SERVER_ADDRESS SERVER_PORT DELAY_MS [JITTER_MS]\n",
                 argv[0]);
    return 2;
  }
  auto number = [&](int at) { return at < argc ? std::strtod(argv[at], nullptr) : 0; };
  auto time = [](double ms) {
    return std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double, std::milli>(ms));
  };
  Proxy proxy({.listen_port = static_cast<uint16_t>(number(1)),
               .server = address_of(argv[2], static_cast<uint16_t>(number(3))),
               .delay = time(number(4)),
               .jitter = time(number(5))});
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;  // two for each connection
  setrlimit(RLIMIT_NOFILE, &files);
  std::puts("listens");
  std::fflush(stdout);
  proxy.run();
}
