// SPDX-License-Identifier: Apache-2.0
// DescriptorSocket: one end of a connection for a descriptor, with a deadline. All of it runs on
// the strand of the socket; cut() from any thread. Private to this room.
#pragma once

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <memory>
#include <string>

#include "base/status.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

class DescriptorSocket : public std::enable_shared_from_this<DescriptorSocket> {
 public:
  using Socket = boost::asio::local::stream_protocol::socket;

  explicit DescriptorSocket(Socket socket)
      : socket_(std::move(socket)), timer_(socket_.get_executor()) {}

  Socket& socket() { return socket_; }
  int fd() { return socket_.native_handle(); }

  // Past that it is closed, and what waits for it fails; max(): never.
  void set_deadline(Clock::time_point deadline);
  void close();
  void cut();
  // The descriptor itself, which stays open; -1 where it was closed.
  int release();

  // The next piece, appended to `text`; kUnavailable at the end.
  Task<Result<>> read_some(std::string& text);
  Task<Result<>> write(std::string text);
  Task<Result<>> wait_readable();
  Task<Result<>> wait_writable();

 private:
  Task<Result<>> wait(Socket::wait_type what);

  Socket socket_;
  boost::asio::steady_timer timer_;
};

}  // namespace leat
