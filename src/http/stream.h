// SPDX-License-Identifier: Apache-2.0
// Stream: a connection's socket, in clear or under TLS. Private to this room.
//
// Reading and writing are plain system calls that do not wait; who has to wait does so for the
// socket to be ready. So an answer that fits the kernel's buffer costs one call and no hop between
// executors, and no strand is needed: one coroutine reads and writes, everybody else may only cut.
// Time limits and cancellation cut: they shut the socket down, which ends whatever waits for it.
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
#include "http/pieces.h"
#include "http/tls_session.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  enum class Cut : uint8_t { kNone, kTimedOut, kCancelled };
  // How a write goes on: `more` tells the kernel that the next one follows at once; `patience` is
  // how long the other end may take nothing, max() for ever; afterwards there is no deadline. Zero
  // leaves it as it is.
  struct WriteTerms {
    bool more = false;
    Clock::duration patience{};
  };

  // `socket` may be not yet open.
  explicit Stream(Socket socket);

  // Before anything else is said. From then on everything is encrypted.
  void begin_tls(std::unique_ptr<TlsSession> session) { tls_ = std::move(session); }
  // What is written from now on goes out in clear, to tell a client that does not speak TLS.
  void end_tls() { tls_.reset(); }
  bool is_secure() const { return tls_ != nullptr; }
  const TlsSession* tls() const { return tls_.get(); }

  // As much as can be had at once; kDone with some bytes, or what it would have to wait for.
  IoResult read_now(Pieces& into);
  // Until all of it is written (kDone) or it would have to wait; `bytes` were written.
  IoResult write_now(Pieces& from, bool more);

  // Waits for the first bytes.
  Task<IoResult> read_some(std::span<std::byte> into);
  // Returns when all of it is written.
  Task<IoResult> write_all(Pieces from, WriteTerms terms);
  // Whatever way TLS begins; kDone.
  Task<IoResult> shake_hands();
  // For the socket, or a cut.
  Task<> wait_for(IoResult::State what);
  Task<boost::system::error_code> connect(boost::asio::generic::stream_protocol::endpoint endpoint);

  // Cut at that time, unless it is moved. Costs no timer where the time only moves on.
  void expires_at(Clock::time_point deadline);
  void expires_after(Clock::duration patience) { expires_at(after(patience)); }
  void expires_never() { expires_at(Clock::time_point::max()); }

  // That long from now; max() is never.
  static Clock::time_point after(Clock::duration patience) {
    if (patience == Clock::duration::max()) return Clock::time_point::max();
    return Clock::now() + patience;
  }

  // From any thread.
  void cut(Cut reason);
  // From any thread: who reads sees the end; what is being written goes on.
  void end_reading();
  Cut cut_reason() const;
  // From any thread: since when the other end takes nothing of what is written. Nothing if no write
  // waits.
  std::optional<Clock::time_point> blocked_since() const;

  // The end of what is sent, said to the other end.
  void end_writing();
  void close();

  // Why something failed, without a word on what.
  std::string reason(const IoResult& failed) const;

  // -1 when it is not open.
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
