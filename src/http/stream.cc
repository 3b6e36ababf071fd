// SPDX-License-Identifier: Apache-2.0
// Invariant: the socket is opened and closed under the mutex, so that a cut from another thread
// never uses a descriptor that was reused.
#include "http/stream.h"

#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <cerrno>
#include <system_error>

namespace leat {

namespace asio = boost::asio;
using asio::redirect_error;
using asio::use_awaitable;
using ErrorCode = boost::system::error_code;

namespace {

IoResult failed_with(int error, IoResult::State wait) {
  if (error == EAGAIN || error == EWOULDBLOCK) return {.state = wait};
  return {.state = IoResult::kFailed, .error = error};
}

template <class Call>
ssize_t uninterrupted(Call call) {
  ssize_t returned;
  do {
    returned = call();
  } while (returned < 0 && errno == EINTR);
  return returned;
}

IoResult send_once(int fd, IoVector& from, bool more) {
  std::span<iovec> next = from.next();
  msghdr message{};
  message.msg_iov = next.data();
  message.msg_iovlen = next.size();
  const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0);
  const ssize_t sent = uninterrupted([&] { return ::sendmsg(fd, &message, flags); });
  if (sent < 0) return failed_with(errno, IoResult::kWaitWrite);
  from.consume(static_cast<size_t>(sent));
  return {.bytes = static_cast<size_t>(sent)};
}

IoResult received(ssize_t bytes) {
  if (bytes < 0) return failed_with(errno, IoResult::kWaitRead);
  if (bytes == 0) return {.state = IoResult::kEnd};
  return {.bytes = static_cast<size_t>(bytes)};
}

}  // namespace

Stream::Stream(Socket socket) : socket_(std::move(socket)), timer_(socket_.get_executor()) {
  ErrorCode ignored;
  if (socket_.is_open()) socket_.native_non_blocking(true, ignored);  // sendfile(2) has no flag
}

IoResult Stream::read_into(std::span<std::byte> into) {
  if (tls_ != nullptr) return tls_->read(into);
  return received(uninterrupted(
      [&] { return ::recv(socket_.native_handle(), into.data(), into.size(), MSG_DONTWAIT); }));
}

IoResult Stream::read_now(IoVector& into) {
  std::span<iovec> next = into.next();
  IoResult result;
  if (tls_ != nullptr) {
    result = tls_->read({static_cast<std::byte*>(next[0].iov_base), next[0].iov_len});
  } else {
    msghdr message{};
    message.msg_iov = next.data();
    message.msg_iovlen = next.size();
    result = received(
        uninterrupted([&] { return ::recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT); }));
  }
  into.consume(result.bytes);
  return result;
}

IoResult Stream::write_now(IoVector& from, bool more) {
  IoResult all;
  while (from.left() > 0) {
    const IoResult one =
        tls_ != nullptr ? tls_->write(from) : send_once(socket_.native_handle(), from, more);
    all.bytes += one.bytes;
    if (!one.done()) return {.state = one.state, .error = one.error, .bytes = all.bytes};
  }
  return all;
}

Task<IoResult> Stream::read_some(std::span<std::byte> into) {
  if (tls_ == nullptr) {  // saves a system call compared with waiting first
    ErrorCode failed;
    const size_t bytes = co_await socket_.async_read_some(asio::buffer(into.data(), into.size()),
                                                          redirect_error(use_awaitable, failed));
    if (!failed) co_return IoResult{.bytes = bytes};
    if (failed == asio::error::eof) co_return IoResult{.state = IoResult::kEnd};
    co_return IoResult{.state = IoResult::kFailed, .error = failed.value()};
  }
  for (;;) {
    const IoResult result = read_into(into);
    if (!result.waits()) co_return result;
    co_await wait_for(result.state);
  }
}

// A slow client is not a dead one: each part that it receives extends the time for the next.
Task<IoResult> Stream::write_all(IoVector from, WriteOptions options) {
  const bool timed = options.timeout > Clock::duration::zero();
  size_t written = 0;
  for (bool waited = false;; waited = true) {
    const IoResult result = write_now(from, options.more);
    written += result.bytes;
    if (!result.waits()) {
      if (waited && timed) expires_never();
      co_return IoResult{.state = result.state, .error = result.error, .bytes = written};
    }
    if (timed && (!waited || result.bytes > 0)) expires_after(options.timeout);
    co_await wait_for(result.state);
  }
}

Task<IoResult> Stream::handshake() {
  for (;;) {
    const IoResult result = tls_->handshake();
    if (!result.waits()) co_return result;
    co_await wait_for(result.state);
  }
}

Task<> Stream::wait_for(IoResult::State what) {
  ErrorCode ignored;  // the next attempt returns the error
  if (what == IoResult::kWaitRead) {
    co_await socket_.async_wait(asio::socket_base::wait_read,
                                redirect_error(use_awaitable, ignored));
    co_return;
  }
  blocked_since_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  co_await socket_.async_wait(asio::socket_base::wait_write,
                              redirect_error(use_awaitable, ignored));
  blocked_since_.store(0, std::memory_order_relaxed);
}

Task<ErrorCode> Stream::connect(asio::generic::stream_protocol::endpoint endpoint) {
  ErrorCode failed;
  {
    std::lock_guard lock(mutex_);
    if (cut_ != Cut::kNone) co_return asio::error::operation_aborted;
    socket_.close(failed);
    socket_.open(endpoint.protocol(), failed);
  }
  if (failed) co_return failed;
  socket_.native_non_blocking(true, failed);
  co_await socket_.async_connect(endpoint, redirect_error(use_awaitable, failed));
  co_return failed;
}

void Stream::expires_at(Clock::time_point deadline) {
  std::lock_guard lock(mutex_);
  deadline_ = deadline;
  if (deadline < armed_for_) arm(deadline);
}

void Stream::arm(Clock::time_point when) {
  armed_for_ = when;
  timer_.expires_at(when);
  timer_.async_wait([weak = weak_from_this()](ErrorCode cancelled) {
    if (cancelled) return;
    if (auto self = weak.lock()) self->timer_fired();
  });
}

void Stream::timer_fired() {
  std::lock_guard lock(mutex_);
  armed_for_ = Clock::time_point::max();
  if (deadline_ == Clock::time_point::max()) return;
  if (Clock::now() >= deadline_) {
    cut_locked(Cut::kTimedOut);
  } else {
    arm(deadline_);
  }
}

void Stream::cut_locked(Cut reason) {
  if (cut_ == Cut::kNone) cut_ = reason;
  if (socket_.is_open()) ::shutdown(socket_.native_handle(), SHUT_RDWR);
}

void Stream::cut(Cut reason) {
  std::lock_guard lock(mutex_);
  cut_locked(reason);
}

void Stream::end_reading() {
  std::lock_guard lock(mutex_);
  if (socket_.is_open()) ::shutdown(socket_.native_handle(), SHUT_RD);
}

Stream::Cut Stream::cut_reason() const {
  std::lock_guard lock(mutex_);
  return cut_;
}

std::optional<Clock::time_point> Stream::blocked_since() const {
  const Clock::rep since = blocked_since_.load(std::memory_order_relaxed);
  if (since == 0) return std::nullopt;
  return Clock::time_point(Clock::duration(since));
}

void Stream::end_writing() {
  if (!socket_.is_open()) return;
  if (tls_ != nullptr) tls_->end();
  ::shutdown(socket_.native_handle(), SHUT_WR);
}

void Stream::close() {
  std::lock_guard lock(mutex_);
  ErrorCode ignored;
  socket_.close(ignored);
  deadline_ = Clock::time_point::max();
}

std::string Stream::reason(const IoResult& failed) const {
  if (failed.state == IoResult::kEnd) return "the connection was closed";
  if (failed.error != 0) return std::system_category().message(failed.error);
  return tls_ != nullptr ? tls_->reason() : "no reason is known";
}

}  // namespace leat
