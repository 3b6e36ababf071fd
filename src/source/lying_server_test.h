// SPDX-License-Identifier: Apache-2.0
// LyingServer: an HTTP/1.1 server on a raw socket that follows the test's script, however invalid.
// Each connection has a thread; it ends with its script unless the script keeps it for another
// request.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "runtime/disk.h"

namespace leat::testing {

// Transfers the bytes of a connection.
class Channel {
 public:
  virtual ~Channel() = default;
  // Returns at most `size` bytes; 0 or less if the other side has ended or failed.
  virtual ssize_t receive(char* into, size_t size) = 0;
  virtual ssize_t send(std::string_view text) = 0;
  // Sends the protocol's close message before the socket is closed.
  virtual void finish() {}
  // TLS 1.3: requests a key update in both directions.
  virtual void renew_keys() {}
};

class PlainChannel : public Channel {
 public:
  explicit PlainChannel(int fd) : fd_(fd) {}
  ssize_t receive(char* into, size_t size) override { return recv(fd_, into, size, 0); }
  ssize_t send(std::string_view text) override {
    return ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
  }

 private:
  const int fd_;
};

class LyingServer {
 public:
  // One exchange for its script.
  class Exchange {
   public:
    Exchange(int fd, Channel& channel, std::string request, size_t connection)
        : request(std::move(request)), connection(connection), fd(fd), channel_(channel) {}
    // Returns false if the client has closed, which it may.
    bool send(std::string_view text) const {
      while (!text.empty()) {
        ssize_t sent = channel_.send(text);
        if (sent <= 0) return false;
        text.remove_prefix(static_cast<size_t>(sent));
      }
      return true;
    }
    // Sends each byte separately, with a pause after it.
    bool dribble(std::string_view text, std::chrono::microseconds pause) const {
      for (size_t i = 0; i < text.size(); ++i) {
        if (!send(text.substr(i, 1))) return false;
        std::this_thread::sleep_for(pause);
      }
      return true;
    }
    // Closes with RST instead of FIN.
    void reset() const {
      linger now{.l_onoff = 1, .l_linger = 0};
      setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
      cut();
    }
    // Sends nothing until the client closes or the server ends.
    void stall() const {
      char byte;
      while (channel_.receive(&byte, 1) > 0) {
      }
    }
    // Like stall(), for `time` at most; returns true if the client is still connected then.
    bool stall_for(std::chrono::milliseconds time) const {
      pollfd wanted{.fd = fd, .events = POLLRDHUP, .revents = 0};
      return poll(&wanted, 1, static_cast<int>(time.count())) == 0;
    }
    // Keeps the connection for its next request.
    void keep() const { kept_ = true; }
    void renew_keys() const { channel_.renew_keys(); }
    // Closes without a close message (TLS).
    void cut() const { cut_ = true; }

    const std::string request;  // with all headers
    const size_t connection;    // the first one accepted is 0
    const int fd;

   private:
    friend class LyingServer;
    Channel& channel_;
    mutable bool kept_ = false;
    mutable bool cut_ = false;
  };
  using Script = std::function<void(const Exchange&)>;
  // Creates the channel of an accepted socket; null on failure.
  using Dress = std::function<std::unique_ptr<Channel>(int fd)>;

  explicit LyingServer(
      Dress dress = [](int fd) { return std::make_unique<PlainChannel>(fd); },
      std::string scheme = "http")
      : dress_(std::move(dress)),
        scheme_(std::move(scheme)),
        listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        holder_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    // A requested port number stays with its socket while that does not listen.
    int on = 1;
    for (const File* socket : {&holder_, &listener_}) {
      setsockopt(socket->fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      LEAT_CHECK(bind(socket->fd(), any, size) == 0);
      LEAT_CHECK(getsockname(socket->fd(), any, &size) == 0);
    }
    LEAT_CHECK(listen(listener_.fd(), 512) == 0);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~LyingServer() {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
      for (File& connection : connections_) shutdown(connection.fd(), SHUT_RDWR);
      shutdown(listener_.fd(), SHUT_RDWR);
    }
    changed_.notify_all();
    acceptor_.join();
    for (std::thread& thread : threads_) thread.join();
  }

  uint16_t port() const { return port_; }
  std::string endpoint(std::string_view host = "127.0.0.1") const {
    return scheme_ + "://" + std::string(host) + ":" + std::to_string(port_);
  }

  // Scripts are used in order; the last one is repeated.
  void then(Script script) {
    std::lock_guard lock(mutex_);
    scripts_.push_back(std::move(script));
  }
  void then_send(std::string answer) {
    then([answer = std::move(answer)](const Exchange& exchange) { exchange.send(answer); });
  }
  // Keeps the connection afterwards.
  void then_send_and_keep(std::string answer) {
    then([answer = std::move(answer)](const Exchange& exchange) {
      exchange.send(answer);
      exchange.keep();
    });
  }

  // From now on connections are refused, as by a host without a listener; present ones stay.
  void refuse() {
    std::lock_guard lock(mutex_);
    refusing_ = true;
    shutdown(listener_.fd(), SHUT_RDWR);
  }
  void accept_again() {
    std::lock_guard lock(mutex_);
    if (!std::exchange(refusing_, false)) return;
    LEAT_CHECK(listen(listener_.fd(), 512) == 0);
    changed_.notify_all();
  }

  std::vector<std::string> requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }
  // Number of accepted connections.
  size_t connections() const {
    std::lock_guard lock(mutex_);
    return accepted_;
  }
  // Waits until `count` complete requests have arrived.
  void await_requests(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return requests_.size() >= count; });
  }
  void await_connections(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return accepted_ >= count; });
  }
  // Waits until `count` connections have been closed on this side.
  void await_closed(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ >= count; });
  }

 private:
  void accept_all() {
    while (true) {
      int fd = accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return ending_ || !refusing_; });
        if (ending_) return;
        continue;
      }
      int on = 1;  // sent bytes have arrived
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      std::lock_guard lock(mutex_);
      connections_.emplace_back(fd);
      if (ending_) return;
      size_t index = accepted_++;
      changed_.notify_all();
      threads_.emplace_back([this, fd, index] { serve(fd, index); });
    }
  }

  void serve(int fd, size_t index) {
    {
      std::unique_ptr<Channel> channel = dress_(fd);
      std::string inbox;
      bool keeps = channel != nullptr;
      bool cut = false;
      while (keeps) {
        std::optional<std::string> request = next_request(*channel, inbox);
        if (!request) break;
        Script script = next_script(*request);
        Exchange exchange(fd, *channel, *std::move(request), index);
        script(exchange);
        keeps = exchange.kept_;
        cut = exchange.cut_;
      }
      if (channel && !cut) channel->finish();
    }
    std::lock_guard lock(mutex_);
    std::erase_if(connections_, [fd](const File& connection) { return connection.fd() == fd; });
    ++closed_;
    changed_.notify_all();
  }

  static std::optional<std::string> next_request(Channel& channel, std::string& inbox) {
    char buffer[4096];
    size_t end;
    while ((end = inbox.find("\r\n\r\n")) == std::string::npos) {
      ssize_t got = channel.receive(buffer, sizeof buffer);
      if (got <= 0) return std::nullopt;
      inbox.append(buffer, static_cast<size_t>(got));
    }
    std::string request = inbox.substr(0, end + 4);
    inbox.erase(0, end + 4);
    return request;
  }

  Script next_script(const std::string& request) {
    std::lock_guard lock(mutex_);
    requests_.push_back(request);
    changed_.notify_all();
    LEAT_CHECK(!scripts_.empty());
    Script script = scripts_.front();
    if (scripts_.size() > 1) scripts_.pop_front();
    return script;
  }

  const Dress dress_;
  const std::string scheme_;
  File listener_;
  File holder_;  // keeps the port while the server does not listen
  uint16_t port_ = 0;
  std::thread acceptor_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Script> scripts_;
  std::vector<std::string> requests_;
  std::vector<File> connections_;
  std::vector<std::thread> threads_;
  size_t accepted_ = 0;
  size_t closed_ = 0;
  bool ending_ = false;
  bool refusing_ = false;
};

}  // namespace leat::testing
