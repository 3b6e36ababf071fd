// SPDX-License-Identifier: Apache-2.0
// As little as a client can do: kept connections on one thread, each asked again as soon as it has
// answered. Both ends of each answer are compared with what they must be (told_content.h).
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

#include "told_content.h"

namespace asker {

using Now = std::chrono::steady_clock;

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

// What is sent, and which bytes the answer's body must hold.
struct Question {
  std::string text{};
  uint64_t file = 0, offset = 0, size = 0;
};

inline void check_ends(const Question& asked, const char* bytes) {
  const uint64_t last = asked.size - std::min<uint64_t>(asked.size, 512);
  for (const uint64_t at : {uint64_t{0}, last}) {
    const size_t size = std::min<uint64_t>(512, asked.size - at);
    if (!told::version_of(asked.file, asked.offset + at, bytes + at, size)) {
      fail("wrong bytes at " + std::to_string(asked.offset + at));
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
  bool http = true;        // a head stands before the body
};

class RawAsker {
 public:
  RawAsker(Plan plan, std::function<Question()> next)
      : plan_(std::move(plan)), next_(std::move(next)) {}

  // Prints requests, bytes and seconds.
  void run() {
    std::vector<pollfd> sockets;
    std::vector<Line> lines(plan_.connections);
    for (Line& line : lines) {
      line.memory.resize(plan_.bytes_max + kHeadBytesMax);
      sockets.push_back({connect_to(plan_.address), POLLIN, 0});
      ask(sockets.back().fd, line);
    }
    const auto begin = Now::now();
    const auto end = begin + std::chrono::duration<double>(plan_.seconds);
    uint64_t answered = 0, bytes = 0;
    while (Now::now() < end) {
      if (::poll(sockets.data(), sockets.size(), 30'000) == 0) fail("no answer for 30 s");
      for (size_t i = 0; i < sockets.size(); ++i) {
        if (sockets[i].revents == 0 || !take(sockets[i].fd, lines[i])) continue;
        ++answered;
        bytes += lines[i].asked.size;
        ask(sockets[i].fd, lines[i]);
      }
    }
    std::printf("{\"requests\": %lu, \"bytes\": %lu, \"seconds\": %.4f}\n", answered, bytes,
                std::chrono::duration<double>(Now::now() - begin).count());
  }

 private:
  static constexpr size_t kHeadBytesMax = 8192;
  struct Line {
    Question asked;
    std::vector<char> memory;
    size_t got = 0, head = 0;
  };

  void ask(int fd, Line& line) {
    line.asked = next_();
    line.got = line.head = 0;
    const std::string& text = line.asked.text;
    if (::send(fd, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) {
      fail("a request was not taken");
    }
  }

  // Whether the answer is complete now.
  bool take(int fd, Line& line) {
    const ssize_t got =
        ::recv(fd, line.memory.data() + line.got, line.memory.size() - line.got, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return false;
    if (got <= 0) fail("a connection was closed");
    line.got += static_cast<size_t>(got);
    if (plan_.http && line.head == 0) {
      const std::string_view text(line.memory.data(), line.got);
      const size_t found = text.find("\r\n\r\n");
      if (found == text.npos) return false;
      if (!text.starts_with("HTTP/1.1 20")) fail("refused: " + std::string(text.substr(0, 600)));
      line.head = found + 4;
    }
    if (line.got < line.head + line.asked.size) return false;
    check_ends(line.asked, line.memory.data() + line.head);
    return true;
  }

  const Plan plan_;
  const std::function<Question()> next_;
};

}  // namespace asker
