// SPDX-License-Identifier: Apache-2.0
// Invariant: the state lives as long as the accept loop or any connection; each holds a token.
#include "peer/fd_passing/fd_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <cerrno>
#include <mutex>
#include <vector>

#include "peer/fd_passing/fd_socket.h"
#include "runtime/disk.h"
#include "runtime/gate.h"
#include "runtime/semaphore.h"
#include "telemetry/log.h"
#include "wire/fd_message.h"

namespace leat {
namespace {

namespace asio = boost::asio;
using Protocol = asio::local::stream_protocol;
using ErrorCode = boost::system::error_code;
using SocketPtr = std::shared_ptr<FdSocket>;

struct ServerState {
  ServerState(std::string at, FdHandler serve, FdServerOptions limits, Executor& on)
      : path(std::move(at)),
        handler(std::move(serve)),
        options(limits),
        executor(on),
        strand(asio::make_strand(on.any())),
        acceptor(strand),
        pending(limits.pending_max),
        leases(limits.leases_max) {}

  const std::string path;
  const FdHandler handler;
  const FdServerOptions options;
  Executor& executor;
  const asio::any_io_executor strand;
  Protocol::acceptor acceptor;
  Semaphore pending, leases;
  Gate activity;
  std::stop_source stopping;

  std::mutex mutex;  // leaf
  std::vector<std::weak_ptr<FdSocket>> sockets;
};
using StatePtr = std::shared_ptr<ServerState>;

void close_on_exec(int fd) {
  fcntl(fd, F_SETFD, FD_CLOEXEC);
}

// Removes a socket file that a dead process left behind. kBusy if a process answers at it.
Result<> remove_stale(asio::any_io_executor executor, const Protocol::endpoint& at) {
  struct stat found{};
  if (lstat(at.path().c_str(), &found) != 0) return {};
  if (!S_ISSOCK(found.st_mode)) {
    return error(StatusCode::kExists, at.path() + " is there and no socket; remove it");
  }
  Protocol::socket probe(executor);
  ErrorCode failed;
  probe.connect(at, failed);
  if (failed != asio::error::connection_refused) {
    return error(StatusCode::kBusy, "another process already passes descriptors at " + at.path());
  }
  unlink(at.path().c_str());
  return {};
}

// Clients cannot connect before the socket has its final mode.
Result<> listen_at(ServerState& state) {
  sockaddr_un longest{};
  if (state.path.size() >= sizeof longest.sun_path) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("cannot listen at {}: a socket's path may have {} characters",
                             state.path, sizeof longest.sun_path - 1));
  }
  const Protocol::endpoint at(state.path);
  LEAT_CHECK_OK(remove_stale(state.strand, at));
  ErrorCode failed;
  state.acceptor.open(Protocol(), failed);
  if (!failed) {
    close_on_exec(state.acceptor.native_handle());
    fchmod(state.acceptor.native_handle(), 0600);
    state.acceptor.bind(at, failed);
  }
  if (!failed) state.acceptor.listen(asio::socket_base::max_listen_connections, failed);
  if (!failed && chmod(state.path.c_str(), state.options.mode) != 0) {
    failed = ErrorCode(errno, boost::system::system_category());
  }
  if (!failed) return {};
  return error(status_from_errno(failed.value(), "cannot listen at " + state.path));
}

Task<Result<HttpRequest>> receive(SocketPtr socket) {
  std::string text;
  while (!end_of_fd_request(text)) {
    if (text.size() > kFdRequestBytesMax) {
      co_return error(StatusCode::kInvalidArgument, "a request for a descriptor is too large");
    }
    Result<> more = co_await socket->read_some(text);
    if (!more) co_return Error(more.error());
  }
  co_return decode_fd_request(text);
}

// For logs only.
std::string peer_name_of(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return "unix";
  return fmt::format("process {} of user {}", peer.pid, peer.uid);
}

// The file reopened for the reader, and the owner of the cached file.
struct OpenedFile {
  std::shared_ptr<const void> owner;
  File file;
};

Task<Result<OpenedFile>> find(StatePtr state, HttpRequest request) {
  const Context context = Context::background()
                              .with_cancel(state->stopping.get_token())
                              .with_timeout(state->options.answer_timeout);
  Result<PassedFd> found = co_await state->handler(context, std::move(request));
  if (!found) co_return Error(found.error());
  const int fd = found->fd;
  auto reopen = [fd] { return reopen_for_reading(fd); };
  Result<File> file = co_await state->executor.blocking(reopen);
  if (!file) {
    log::warning("descriptor not passed: {}", file.error().to_string());
    co_return Error(file.error());
  }
  co_return OpenedFile{std::move(found->owner), *std::move(file)};
}

Task<Result<>> answer(SocketPtr socket, File file) {
  while (true) {
    Result<> sent = send_fd_answer(socket->fd(), file);
    if (sent || sent.error().code() != StatusCode::kBusy) co_return sent;
    Result<> writable = co_await socket->wait_writable();
    if (!writable) co_return writable;
  }
}

// Holds the lease until the reader closes, or sends more, which the protocol does not allow.
Task<> keep_lease(SocketPtr socket, std::shared_ptr<const void> owner, Semaphore::Permit lease) {
  std::string ignored;
  (void)co_await socket->read_some(ignored);
}

Task<> handle_request(StatePtr state, SocketPtr socket, Semaphore::Permit slot) {
  socket->set_deadline(Clock::now() + state->options.request_timeout);
  Result<HttpRequest> request = co_await receive(socket);
  if (!request && request.error().code() == StatusCode::kUnavailable) co_return;  // closed
  socket->set_deadline(Clock::now() + 2 * state->options.answer_timeout);
  Result<OpenedFile> opened =
      request ? Result<OpenedFile>() : Result<OpenedFile>(Error(request.error()));
  if (request) {
    request->peer = peer_name_of(socket->fd());
    // The handler runs outside this connection's strand and does not wait for it.
    opened = co_await asio::co_spawn(state->executor.any(), find(state, *std::move(request)),
                                     asio::use_awaitable);
  }
  auto lease = opened ? state->leases.try_acquire(1) : std::nullopt;
  Result<> sent = co_await answer(socket, lease ? std::move(opened->file) : File());
  if (!sent || !lease) co_return;
  slot = Semaphore::Permit();
  socket->set_deadline(Clock::time_point::max());
  co_await keep_lease(socket, std::move(opened->owner), *std::move(lease));
}

Task<> serve(StatePtr state, SocketPtr socket, Semaphore::Permit slot, Gate::Holder token) {
  co_await handle_request(state, socket, std::move(slot));
  socket->close();
  std::lock_guard lock(state->mutex);
  std::erase_if(state->sockets,
                [&](const auto& one) { return one.expired() || one.lock() == socket; });
}

void start_connection(const StatePtr& state, Protocol::socket socket, Semaphore::Permit slot,
                      Gate::Holder token) {
  close_on_exec(socket.native_handle());
  auto executor = socket.get_executor();
  auto shared = std::make_shared<FdSocket>(std::move(socket));
  {
    std::lock_guard lock(state->mutex);
    state->sockets.push_back(shared);
  }
  // stop() cuts the connections that it finds; a later one cuts itself here.
  if (state->stopping.stop_requested()) shared->cut();
  asio::co_spawn(executor, serve(state, shared, std::move(slot), std::move(token)),
                 terminate_on_exception);
}

Task<> accept_loop(StatePtr state, Gate::Holder token) {
  const Context context = Context::background().with_cancel(state->stopping.get_token());
  while (!state->stopping.stop_requested()) {
    auto slot = co_await state->pending.acquire(context, 1, "a connection slot");
    // stop() cancels a pending accept; one that begins later would wait for ever.
    if (!slot || state->stopping.stop_requested()) break;
    Protocol::socket socket(asio::make_strand(state->executor.any()));
    ErrorCode failed;
    co_await state->acceptor.async_accept(socket,
                                          asio::redirect_error(asio::use_awaitable, failed));
    if (!failed) {
      start_connection(state, std::move(socket), std::move(*slot), token.another());
    } else if (failed == asio::error::operation_aborted) {
      break;
    } else {
      // Mostly EMFILE: wait until other connections end.
      log::warning("cannot accept at {}: {}", state->path, failed.message());
      (void)co_await sleep_for(context, std::chrono::milliseconds(100));
    }
  }
  ErrorCode ignored;
  state->acceptor.close(ignored);
}

class FdServerImpl : public FdServer {
 public:
  explicit FdServerImpl(StatePtr state) : state_(std::move(state)) {}

  const std::string& path() const override { return state_->path; }
  unsigned leases() const override { return static_cast<unsigned>(state_->leases.in_use()); }
  Task<> stop() override;

 private:
  const StatePtr state_;
};

Task<> FdServerImpl::stop() {
  state_->stopping.request_stop();
  unlink(state_->path.c_str());
  asio::post(state_->strand, [state = state_] {
    ErrorCode ignored;
    state->acceptor.cancel(ignored);
  });
  std::vector<std::weak_ptr<FdSocket>> open;
  {
    std::lock_guard lock(state_->mutex);
    open = state_->sockets;
  }
  for (const auto& one : open) {
    if (const SocketPtr socket = one.lock()) socket->cut();
  }
  state_->activity.close();
  co_await state_->activity.wait_idle();
}

}  // namespace

Result<std::unique_ptr<FdServer>> FdServer::start(std::string path, FdHandler handler,
                                                  FdServerOptions options, Executor& executor) {
  auto state =
      std::make_shared<ServerState>(std::move(path), std::move(handler), options, executor);
  LEAT_CHECK_OK(listen_at(*state));
  auto token = state->activity.enter();
  asio::co_spawn(state->strand, accept_loop(state, *std::move(token)), terminate_on_exception);
  return std::make_unique<FdServerImpl>(std::move(state));
}

}  // namespace leat
