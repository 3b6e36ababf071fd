// SPDX-License-Identifier: Apache-2.0
// Raw ends of connections that send exactly the bytes of a test.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/units.h"
#include "http/endpoint.h"
#include "runtime/context.h"

namespace leat {

// A client that sends exactly the bytes of a test.
class RawClient {
 public:
  // `from`: its loopback address, as a number in host byte order.
  explicit RawClient(uint16_t port, uint32_t from = INADDR_LOOPBACK)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(from);
    if (from != INADDR_LOOPBACK) {
      EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
    }
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  explicit RawClient(const std::string& path)
      : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un to{.sun_family = AF_UNIX, .sun_path = {}};
    path.copy(to.sun_path, sizeof to.sun_path - 1);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  ~RawClient() { close(fd_); }

  int fd() const { return fd_; }
  // Returns false if the server has closed.
  bool send_text(std::string_view text) {
    while (!text.empty()) {
      ssize_t n = send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      text.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  void end_sending() { shutdown(fd_, SHUT_WR); }
  // Reads until the server closes.
  std::string receive_all() {
    std::string all;
    char piece[4096];
    for (ssize_t n; (n = recv(fd_, piece, sizeof piece, 0)) > 0;) all.append(piece, size_t(n));
    return all;
  }
  struct Received {
    std::string text;
    Clock::duration longest_pause{};  // between the ends of two reads
  };
  // Reads at 10 MiB/s at most.
  Received receive_slowly() {
    Received received;
    std::vector<char> piece(64 * kKiB);
    for (Clock::time_point before = Clock::now();; poll(nullptr, 0, 5)) {
      const ssize_t n = recv(fd_, piece.data(), piece.size(), 0);
      const Clock::time_point now = Clock::now();
      received.longest_pause = std::max(received.longest_pause, now - std::exchange(before, now));
      if (n <= 0) return received;
      received.text.append(piece.data(), size_t(n));
    }
  }
  std::string request(std::string_view text) {
    send_text(text);
    return receive_all();
  }

 private:
  const int fd_;
};

// One connection of a RawServer.
class RawConnection {
 public:
  explicit RawConnection(int fd) : fd_(fd) {}
  RawConnection(RawConnection&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~RawConnection() { end(); }

  // Returns the head of the next request; empty if the client has closed.
  std::string read_head() {
    std::string head;
    for (char c; !head.ends_with("\r\n\r\n") && recv(fd_, &c, 1, 0) == 1;) head += c;
    return head;
  }
  bool send_text(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      text.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  void answer(std::string_view body) {
    send_text("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n");
    send_text(body);
  }
  // Returns when the client has closed.
  void await_end() {
    char piece[4096];
    while (recv(fd_, piece, sizeof piece, 0) > 0) {
    }
  }
  void end() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

// Runs `script` on a thread of its own. The destructor waits for the end of the script, which does
// not wait for a client that has not connected by then.
class RawServer {
 public:
  using Script = std::function<void(RawServer&)>;

  explicit RawServer(Script script) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    port_ = ntohs(at.sin_port);
    thread_ = std::thread([this, script = std::move(script)] { script(*this); });
  }
  ~RawServer() {
    shutdown(fd_, SHUT_RDWR);
    thread_.join();
    close(fd_);
  }

  RawConnection accept() {
    ++accepted_;
    return RawConnection(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
  }
  HttpEndpoint endpoint() const {
    return *HttpEndpoint::parse("127.0.0.1:" + std::to_string(port_));
  }
  // Returns after the end of the script.
  int accepted() const { return accepted_; }

 private:
  const int fd_;
  uint16_t port_ = 0;
  int accepted_ = 0;
  std::thread thread_;
};

}  // namespace leat
