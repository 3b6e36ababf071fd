// SPDX-License-Identifier: Apache-2.0
// LyingServer: an HTTP/1.1 server on a raw socket that does to each request exactly what the test's
// script says, however unlawful. Each connection has a thread; one answer ends a connection.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "runtime/disk.h"

namespace leat::testing {

class LyingServer {
 public:
  // One exchange as its script sees it.
  class Exchange {
   public:
    Exchange(int fd, std::string request) : request(std::move(request)), fd_(fd) {}
    void send(std::string_view text) const {
      while (!text.empty()) {
        ssize_t sent = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
        if (sent <= 0) return;  // the client has gone, which is its right
        text.remove_prefix(static_cast<size_t>(sent));
      }
    }
    // Closes with RST instead of FIN.
    void reset() const {
      linger now{.l_onoff = 1, .l_linger = 0};
      setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    // Says nothing until the client closes or the server ends.
    void stall() const {
      char byte;
      while (recv(fd_, &byte, 1, 0) > 0) {
      }
    }
    const std::string request;  // with all headers

   private:
    const int fd_;
  };
  using Script = std::function<void(const Exchange&)>;

  LyingServer() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    LEAT_CHECK(bind(listener_.fd(), any, size) == 0 && listen(listener_.fd(), 64) == 0);
    LEAT_CHECK(getsockname(listener_.fd(), any, &size) == 0);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~LyingServer() {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
      for (File& connection : connections_) shutdown(connection.fd(), SHUT_RDWR);
    }
    shutdown(listener_.fd(), SHUT_RDWR);
    acceptor_.join();
    for (std::thread& thread : threads_) thread.join();
  }

  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }

  // Scripts are used up in order; the last one stays.
  void then(Script script) {
    std::lock_guard lock(mutex_);
    scripts_.push_back(std::move(script));
  }
  void then_send(std::string answer) {
    then([answer = std::move(answer)](const Exchange& exchange) { exchange.send(answer); });
  }

  std::vector<std::string> requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }
  // Waits until `count` requests have come in whole.
  void await_requests(size_t count) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return requests_.size() >= count; });
  }

 private:
  void accept_all() {
    while (true) {
      int fd = accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      std::lock_guard lock(mutex_);
      connections_.emplace_back(fd);
      if (ending_) return;
      threads_.emplace_back([this, fd] { serve(fd); });
    }
  }

  void serve(int fd) {
    std::string request;
    char buffer[4096];
    while (!request.contains("\r\n\r\n")) {
      ssize_t got = recv(fd, buffer, sizeof buffer, 0);
      if (got <= 0) return;
      request.append(buffer, static_cast<size_t>(got));
    }
    Script script = next_script(request);
    Exchange exchange(fd, std::move(request));
    script(exchange);
    std::lock_guard lock(mutex_);
    std::erase_if(connections_, [fd](const File& connection) { return connection.fd() == fd; });
  }

  Script next_script(const std::string& request) {
    std::lock_guard lock(mutex_);
    requests_.push_back(request);
    arrived_.notify_all();
    LEAT_CHECK(!scripts_.empty());
    Script script = scripts_.front();
    if (scripts_.size() > 1) scripts_.pop_front();
    return script;
  }

  File listener_;
  uint16_t port_ = 0;
  std::thread acceptor_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Script> scripts_;
  std::vector<std::string> requests_;
  std::vector<File> connections_;
  std::vector<std::thread> threads_;
  bool ending_ = false;
};

}  // namespace leat::testing
