// SPDX-License-Identifier: Apache-2.0
// Stream: a connection's socket, plain or under TLS. Private to this module.
//
// Reads and writes are plain non-blocking system calls; a coroutine waits only for the socket to be
// ready. So a response that fits the kernel's buffer costs one call and no switch between
// executors. No strand is needed: one coroutine reads and writes, all others may only cut. Time
// limits and cancellation also cut: they shut the socket down, which ends every wait for it.
#pragma once

#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "http/input_buffer.h"
#include "http/io_vector.h"
#include "http/tls_session.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  enum class Cut : uint8_t { kNone, kTimedOut, kCancelled };
  // Options of a write. `more`: the next write follows at once. `timeout`: how long the other end
  // may receive nothing, max() for ever; afterwards there is no deadline. Zero leaves the deadline
  // unchanged.
  struct WriteOptions {
    bool more = false;
    Clock::duration timeout{};
  };

  // `socket` may still be closed.
  explicit Stream(Socket socket);

  // Called before any byte is sent. From then on all bytes are encrypted.
  void begin_tls(std::unique_ptr<TlsSession> session) { tls_ = std::move(session); }
  // Later writes are plain, to inform a client that does not use TLS.
  void end_tls() { tls_.reset(); }
  bool is_secure() const { return tls_ != nullptr; }
  const TlsSession* tls() const { return tls_.get(); }

  // Reads all available bytes. Returns kDone with some bytes, or what it would have to wait for.
  IoResult read_now(IoVector& into);
  // Writes until all is written (kDone) or it would have to wait; `bytes` were written.
  IoResult write_now(IoVector& from, bool more);

  // Waits for the first bytes.
  Task<IoResult> read_some(std::span<std::byte> into);
  // Returns when all is written.
  Task<IoResult> write_all(IoVector from, WriteOptions options);
  // Performs the TLS handshake of either side; kDone on success.
  Task<IoResult> handshake();
  // Waits for the socket, or a cut.
  Task<> wait_for(IoResult::State what);
  Task<boost::system::error_code> connect(boost::asio::generic::stream_protocol::endpoint endpoint);

  // Sets the time of the cut. A later time costs no timer.
  void expires_at(Clock::time_point deadline);
  void expires_after(Clock::duration timeout) { expires_at(after(timeout)); }
  void expires_never() { expires_at(Clock::time_point::max()); }

  // Returns the time after `timeout`; max() is never.
  static Clock::time_point after(Clock::duration timeout) {
    if (timeout == Clock::duration::max()) return Clock::time_point::max();
    return Clock::now() + timeout;
  }

  // From any thread.
  void cut(Cut reason);
  // From any thread: the reader sees the end of input; a write continues.
  void end_reading();
  Cut cut_reason() const;
  // From any thread: since when the other end has not received written bytes. Nothing if no write
  // waits.
  std::optional<Clock::time_point> blocked_since() const;

  // Sends the end of the output to the other end.
  void end_writing();
  void close();

  // The reason of a failure, without the operation.
  std::string reason(const IoResult& failed) const;

  // Returns -1 if it is not open.
  int fd() { return socket_.is_open() ? socket_.native_handle() : -1; }
  Socket& socket() { return socket_; }
  InputBuffer& input() { return input_; }

 private:
  void arm(Clock::time_point when);
  void timer_fired();
  void cut_locked(Cut reason);
  IoResult read_into(std::span<std::byte> into);

  Socket socket_;
  std::unique_ptr<TlsSession> tls_;
  InputBuffer input_;

  mutable std::mutex mutex_;  // leaf; also held to open and to close the socket
  boost::asio::steady_timer timer_;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point armed_for_ = Clock::time_point::max();
  Cut cut_ = Cut::kNone;
  std::atomic<Clock::rep> blocked_since_ = 0;  // 0: no write waits
};

}  // namespace leat
