// SPDX-License-Identifier: Apache-2.0
// FdSocket: one end of an fd-passing connection, with a deadline. Runs on the socket's
// strand, except cut(), which any thread may call. Private to this module.
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

class FdSocket : public std::enable_shared_from_this<FdSocket> {
 public:
  using Socket = boost::asio::local::stream_protocol::socket;

  explicit FdSocket(Socket socket) : socket_(std::move(socket)), timer_(socket_.get_executor()) {}

  Socket& socket() { return socket_; }
  int fd() { return socket_.native_handle(); }

  // Closes the socket at `deadline`; pending operations then fail. max() means no deadline.
  void set_deadline(Clock::time_point deadline);
  void close();
  void cut();
  // Returns the open descriptor and releases ownership; -1 if closed.
  int release();

  // Appends the next bytes to `text`; kUnavailable at the end of the stream.
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
