// SPDX-License-Identifier: Apache-2.0
// Invariant: the state lives as long as the accept loop or any connection; each holds a token.
#include "peer/handover/descriptor_door.h"

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

#include "peer/handover/descriptor_message.h"
#include "peer/handover/descriptor_socket.h"
#include "runtime/activity.h"
#include "runtime/disk.h"
#include "runtime/semaphore.h"
#include "telemetry/log.h"

namespace leat {
namespace {

namespace asio = boost::asio;
using Protocol = asio::local::stream_protocol;
using ErrorCode = boost::system::error_code;
using SocketPtr = std::shared_ptr<DescriptorSocket>;

struct DoorState {
  DoorState(std::string at, DescriptorHandler answers, DescriptorDoorOptions limits, Executor& on)
      : path(std::move(at)),
        handler(std::move(answers)),
        options(limits),
        executor(on),
        strand(asio::make_strand(on.any())),
        acceptor(strand),
        asking(limits.asking_max),
        leases(limits.leases_max) {}

  const std::string path;
  const DescriptorHandler handler;
  const DescriptorDoorOptions options;
  Executor& executor;
  const asio::any_io_executor strand;
  Protocol::acceptor acceptor;
  Semaphore asking, leases;
  Activity activity;
  std::stop_source stopping;

  std::mutex mutex;  // leaf
  std::vector<std::weak_ptr<DescriptorSocket>> sockets;
};
using StatePtr = std::shared_ptr<DoorState>;

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
    return error(StatusCode::kBusy, "another process already gives descriptors at " + at.path());
  }
  unlink(at.path().c_str());
  return {};
}

// Clients cannot connect before the socket has its final mode.
Result<> listen_at(DoorState& state) {
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
  while (!end_of_descriptor_request(text)) {
    if (text.size() > kDescriptorRequestBytesMax) {
      co_return error(StatusCode::kInvalidArgument, "a request for a descriptor is too large");
    }
    Result<> more = co_await socket->read_some(text);
    if (!more) co_return Error(more.error());
  }
  co_return decode_descriptor_request(text);
}

// For logs only.
std::string who_asks(int socket) {
  ucred who{};
  socklen_t size = sizeof who;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return "unix";
  return fmt::format("process {} of user {}", who.pid, who.uid);
}

// The file reopened for the reader, and the owner of the cached file.
struct Gift {
  std::shared_ptr<const void> owner;
  File file;
};

Task<Result<Gift>> find(StatePtr state, HttpRequest request) {
  const Context context = Context::background()
                              .with_cancel(state->stopping.get_token())
                              .with_timeout(state->options.answer_timeout);
  Result<HandedFile> handed = co_await state->handler(context, std::move(request));
  if (!handed) co_return Error(handed.error());
  const int fd = handed->fd;
  auto open_again = [fd] { return open_again_for_reading(fd); };
  Result<File> file = co_await state->executor.blocking(open_again);
  if (!file) {
    log::warning("no descriptor given: {}", file.error().to_string());
    co_return Error(file.error());
  }
  co_return Gift{std::move(handed->owner), *std::move(file)};
}

Task<Result<>> answer(SocketPtr socket, File file) {
  while (true) {
    Result<> sent = send_descriptor_answer(socket->fd(), file);
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

Task<> converse(StatePtr state, SocketPtr socket, Semaphore::Permit place) {
  socket->set_deadline(Clock::now() + state->options.request_timeout);
  Result<HttpRequest> request = co_await receive(socket);
  if (!request && request.error().code() == StatusCode::kUnavailable) co_return;  // gone
  socket->set_deadline(Clock::now() + 2 * state->options.answer_timeout);
  Result<Gift> gift = request ? Result<Gift>() : Result<Gift>(Error(request.error()));
  if (request) {
    request->peer = who_asks(socket->fd());
    // The handler runs outside this connection's strand and does not wait for it.
    gift = co_await asio::co_spawn(state->executor.any(), find(state, *std::move(request)),
                                   asio::use_awaitable);
  }
  auto lease = gift ? state->leases.try_acquire(1) : std::nullopt;
  Result<> sent = co_await answer(socket, lease ? std::move(gift->file) : File());
  if (!sent || !lease) co_return;
  place = Semaphore::Permit();
  socket->set_deadline(Clock::time_point::max());
  co_await keep_lease(socket, std::move(gift->owner), *std::move(lease));
}

Task<> serve(StatePtr state, SocketPtr socket, Semaphore::Permit place, Activity::Token token) {
  co_await converse(state, socket, std::move(place));
  socket->close();
  std::lock_guard lock(state->mutex);
  std::erase_if(state->sockets,
                [&](const auto& one) { return one.expired() || one.lock() == socket; });
}

void welcome(const StatePtr& state, Protocol::socket socket, Semaphore::Permit place,
             Activity::Token token) {
  close_on_exec(socket.native_handle());
  auto executor = socket.get_executor();
  auto shared = std::make_shared<DescriptorSocket>(std::move(socket));
  {
    std::lock_guard lock(state->mutex);
    state->sockets.push_back(shared);
  }
  // stop() cuts the connections that it finds; a later one cuts itself here.
  if (state->stopping.stop_requested()) shared->cut();
  asio::co_spawn(executor, serve(state, shared, std::move(place), std::move(token)),
                 end_process_for);
}

Task<> accept_loop(StatePtr state, Activity::Token token) {
  const Context context = Context::background().with_cancel(state->stopping.get_token());
  while (!state->stopping.stop_requested()) {
    auto place = co_await state->asking.acquire(context, 1, "a place for who asks");
    // stop() cancels a pending accept; one that begins later would wait for ever.
    if (!place || state->stopping.stop_requested()) break;
    Protocol::socket socket(asio::make_strand(state->executor.any()));
    ErrorCode failed;
    co_await state->acceptor.async_accept(socket,
                                          asio::redirect_error(asio::use_awaitable, failed));
    if (!failed) {
      welcome(state, std::move(socket), std::move(*place), token.another());
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

class DescriptorDoorImpl : public DescriptorDoor {
 public:
  explicit DescriptorDoorImpl(StatePtr state) : state_(std::move(state)) {}

  const std::string& path() const override { return state_->path; }
  unsigned leases() const override { return static_cast<unsigned>(state_->leases.in_use()); }
  Task<> stop() override;

 private:
  const StatePtr state_;
};

Task<> DescriptorDoorImpl::stop() {
  state_->stopping.request_stop();
  unlink(state_->path.c_str());
  asio::post(state_->strand, [state = state_] {
    ErrorCode ignored;
    state->acceptor.cancel(ignored);
  });
  std::vector<std::weak_ptr<DescriptorSocket>> open;
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

Result<std::unique_ptr<DescriptorDoor>> DescriptorDoor::start(std::string path,
                                                              DescriptorHandler handler,
                                                              DescriptorDoorOptions options,
                                                              Executor& executor) {
  auto state = std::make_shared<DoorState>(std::move(path), std::move(handler), options, executor);
  LEAT_CHECK_OK(listen_at(*state));
  auto token = state->activity.enter();
  asio::co_spawn(state->strand, accept_loop(state, *std::move(token)), end_process_for);
  return std::make_unique<DescriptorDoorImpl>(std::move(state));
}

}  // namespace leat
