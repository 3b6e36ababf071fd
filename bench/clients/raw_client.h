// SPDX-License-Identifier: Apache-2.0
// A minimal client: persistent connections on one thread, each with one request in flight. Both
// ends of each response are verified (verifiable_content.h).
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "verifiable_content.h"

namespace raw {

using Now = std::chrono::steady_clock;

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

// The text to send, and the bytes that the response's body must have.
struct RawRequest {
  std::string text{};
  uint64_t file = 0, offset = 0, size = 0;
};

inline void check_ends(const RawRequest& expected, const char* bytes) {
  const uint64_t last = expected.size - std::min<uint64_t>(expected.size, 512);
  for (const uint64_t at : {uint64_t{0}, last}) {
    const size_t size = std::min<uint64_t>(512, expected.size - at);
    if (!verifiable::version_of(expected.file, expected.offset + at, bytes + at, size)) {
      fail("wrong bytes at " + std::to_string(expected.offset + at));
    }
  }
}

inline int connect_to(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  uint16_t port = 0;
  std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
  to.sin_port = htons(port);
  ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
    fail(address + ": " + std::strerror(errno));
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

struct Plan {
  std::string address;
  size_t connections = 1;
  double seconds = 1;
  uint64_t bytes_max = 0;  // of a body
  bool http = true;        // a head precedes the body
};

class RawClient {
 public:
  RawClient(Plan plan, std::function<RawRequest()> next)
      : plan_(std::move(plan)), next_(std::move(next)) {}

  // Prints requests, bytes and seconds.
  void run() {
    std::vector<pollfd> sockets;
    std::vector<Connection> connections(plan_.connections);
    for (Connection& connection : connections) {
      connection.memory.resize(plan_.bytes_max + kHeadBytesMax);
      sockets.push_back({connect_to(plan_.address), POLLIN, 0});
      send_next(sockets.back().fd, connection);
    }
    const auto begin = Now::now();
    const auto end = begin + std::chrono::duration<double>(plan_.seconds);
    uint64_t answered = 0, bytes = 0;
    while (Now::now() < end) {
      if (::poll(sockets.data(), sockets.size(), 30'000) == 0) fail("no response for 30 s");
      for (size_t i = 0; i < sockets.size(); ++i) {
        if (sockets[i].revents == 0 || !receive(sockets[i].fd, connections[i])) continue;
        ++answered;
        bytes += connections[i].request.size;
        send_next(sockets[i].fd, connections[i]);
      }
    }
    std::printf("{\"requests\": %lu, \"bytes\": %lu, \"seconds\": %.4f}\n", answered, bytes,
                std::chrono::duration<double>(Now::now() - begin).count());
  }

 private:
  static constexpr size_t kHeadBytesMax = 8192;
  struct Connection {
    RawRequest request;
    std::vector<char> memory;
    size_t got = 0, head = 0;
  };

  void send_next(int fd, Connection& connection) {
    connection.request = next_();
    connection.got = connection.head = 0;
    const std::string& text = connection.request.text;
    if (::send(fd, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) {
      fail("a request was not sent whole");
    }
  }

  // Returns whether the response is complete.
  bool receive(int fd, Connection& connection) {
    const ssize_t got = ::recv(fd, connection.memory.data() + connection.got,
                               connection.memory.size() - connection.got, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return false;
    if (got <= 0) fail("a connection was closed");
    connection.got += static_cast<size_t>(got);
    if (plan_.http && connection.head == 0) {
      const std::string_view text(connection.memory.data(), connection.got);
      const size_t found = text.find("\r\n\r\n");
      if (found == text.npos) return false;
      if (!text.starts_with("HTTP/1.1 20")) fail("rejected: " + std::string(text.substr(0, 600)));
      connection.head = found + 4;
    }
    if (connection.got < connection.head + connection.request.size) return false;
    check_ends(connection.request, connection.memory.data() + connection.head);
    return true;
  }

  const Plan plan_;
  const std::function<RawRequest()> next_;
};

}  // namespace raw
