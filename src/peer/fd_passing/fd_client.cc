// SPDX-License-Identifier: Apache-2.0
#include "peer/fd_passing/fd_client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <cerrno>
#include <functional>
#include <optional>

#include "peer/fd_passing/fd_socket.h"
#include "wire/fd_message.h"

namespace leat {
namespace {

namespace asio = boost::asio;
using Protocol = asio::local::stream_protocol;
using SocketPtr = std::shared_ptr<FdSocket>;

struct FdRequest {
  std::string path;  // of the socket
  std::string text;
  uint64_t file_bytes = 0;
};

Task<Result<>> connect(SocketPtr socket, std::string path) {
  if (path.size() > 107) {  // sizeof(sockaddr_un::sun_path) - 1
    co_return error(StatusCode::kInvalidArgument, path + " is too long for a socket's path");
  }
  boost::system::error_code failed;
  co_await socket->socket().async_connect(Protocol::endpoint(path),
                                          asio::redirect_error(asio::use_awaitable, failed));
  if (!failed) {
    fcntl(socket->fd(), F_SETFD, FD_CLOEXEC);
    co_return Result<>();
  }
  co_return error(StatusCode::kUnavailable,
                  fmt::format("cannot connect to {}: {}", path, failed.message()));
}

Task<Result<FdAnswer>> receive(SocketPtr socket) {
  while (true) {
    Result<> readable = co_await socket->wait_readable();
    if (!readable) co_return Error(readable.error());
    Result<FdAnswer> answer = receive_fd_answer(socket->fd());
    if (answer || answer.error().code() != StatusCode::kBusy) co_return answer;
  }
}

// The worker may have another version or be faulty, so the passed file is checked.
Result<LeasedFile> checked(FdAnswer answer, SocketPtr socket, uint64_t bytes) {
  if (!answer.has_fd) {
    return error(StatusCode::kNotFound, "the worker has no descriptor for this file");
  }
  struct stat found{};
  if (fstat(answer.file.fd(), &found) != 0 || !S_ISREG(found.st_mode) ||
      static_cast<uint64_t>(found.st_size) < bytes) {
    return error(StatusCode::kCorrupt, "the worker passed a descriptor of something else");
  }
  File lease(socket->release());
  if (!lease) return error(StatusCode::kUnavailable, "the lease of a descriptor was cut off");
  return LeasedFile(std::move(answer.file), std::move(lease));
}

Task<Result<LeasedFile>> exchange(SocketPtr socket, Context context, FdRequest request) {
  const std::stop_callback stop(context.cancel, [socket] { socket->cut(); });
  socket->set_deadline(context.deadline);
  Result<> connected = co_await connect(socket, request.path);
  if (!connected) co_return Error(connected.error());
  Result<> sent = co_await socket->write(std::move(request.text));
  if (!sent) co_return Error(sent.error());
  Result<FdAnswer> answer = co_await receive(socket);
  if (!answer) co_return Error(answer.error());
  socket->set_deadline(Clock::time_point::max());
  co_return checked(*std::move(answer), socket, request.file_bytes);
}

Task<Result<LeasedFile>> request_file(Context context, FdRequest request) {
  if (auto alive = context.check("a descriptor"); !alive) co_return Error(alive.error());
  auto executor = co_await asio::this_coro::executor;
  asio::any_io_executor strand = asio::make_strand(executor);
  auto socket = std::make_shared<FdSocket>(Protocol::socket(strand));
  Result<LeasedFile> file = co_await asio::co_spawn(
      strand, exchange(socket, context, std::move(request)), asio::use_awaitable);
  if (file) co_return file;
  socket->cut();
  if (auto alive = context.check("a descriptor"); !alive) co_return Error(alive.error());
  co_return file;
}

}  // namespace

Task<Result<LeasedFile>> FdClient::open(Context context, PeerReadRequest request) const {
  HttpRequest http = to_fd_request(request);
  if (!worker_.is_zero()) http.headers.set(kToField, worker_.to_hex());
  signer_->sign(http);
  return request_file(std::move(context), {path_, encode_fd_request(http), request.file.size});
}

}  // namespace leat
