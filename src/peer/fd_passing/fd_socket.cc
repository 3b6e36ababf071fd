// SPDX-License-Identifier: Apache-2.0
#include "peer/fd_passing/fd_socket.h"

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/write.hpp>

namespace leat {
namespace {

using boost::asio::redirect_error;
using boost::asio::use_awaitable;
using ErrorCode = boost::system::error_code;

Result<> to_result(const ErrorCode& failed) {
  if (!failed) return {};
  return error(StatusCode::kUnavailable, "a socket for descriptors: " + failed.message());
}

}  // namespace

void FdSocket::set_deadline(Clock::time_point deadline) {
  timer_.expires_at(deadline);  // cancels the previous wait
  if (deadline == Clock::time_point::max()) return;
  timer_.async_wait([weak = weak_from_this()](ErrorCode failed) {
    const auto self = weak.lock();
    if (failed || self == nullptr) return;
    // A moved deadline does not cancel a handler that is already queued.
    if (self->timer_.expiry() <= Clock::now()) self->close();
  });
}

void FdSocket::close() {
  ErrorCode ignored;
  timer_.cancel();
  socket_.close(ignored);
}

int FdSocket::release() {
  ErrorCode failed;
  timer_.cancel();
  const int fd = socket_.is_open() ? socket_.release(failed) : -1;
  return failed ? -1 : fd;
}

void FdSocket::cut() {
  boost::asio::post(socket_.get_executor(), [self = shared_from_this()] { self->close(); });
}

Task<Result<>> FdSocket::read_some(std::string& text) {
  std::array<char, 4096> piece;
  ErrorCode failed;
  const size_t size = co_await socket_.async_read_some(boost::asio::buffer(piece),
                                                       redirect_error(use_awaitable, failed));
  text.append(piece.data(), size);
  co_return to_result(failed);
}

Task<Result<>> FdSocket::write(std::string text) {
  ErrorCode failed;
  co_await boost::asio::async_write(socket_, boost::asio::buffer(text),
                                    redirect_error(use_awaitable, failed));
  co_return to_result(failed);
}

Task<Result<>> FdSocket::wait_readable() {
  return wait(Socket::wait_read);
}

Task<Result<>> FdSocket::wait_writable() {
  return wait(Socket::wait_write);
}

Task<Result<>> FdSocket::wait(Socket::wait_type what) {
  ErrorCode failed;
  co_await socket_.async_wait(what, redirect_error(use_awaitable, failed));
  co_return to_result(failed);
}

}  // namespace leat
