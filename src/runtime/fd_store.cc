// SPDX-License-Identifier: Apache-2.0
#include "runtime/fd_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <thread>

#include "telemetry/log.h"

namespace leat {
namespace {

constexpr int kFirst = 3;               // SD_LISTEN_FDS_START
constexpr size_t kNameMax = 255;        // FDNAME_MAX of systemd
constexpr time_t kSendTimeoutS = 5;     // when the manager's queue is full
constexpr char kUnnamed[] = "unknown";  // as in sd_listen_fds_with_names(3)

// Removes a variable from the environment and returns its value; nothing if it was unset or empty.
std::optional<std::string> take_variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): there are no threads
  if (value == nullptr) return {};
  std::string taken = value;
  unsetenv(name);  // NOLINT(concurrency-mt-unsafe)
  if (taken.empty()) return {};
  return taken;
}

std::optional<int> take_number(const char* name) {
  const std::optional<std::string> text = take_variable(name);
  int number = 0;
  if (!text) return {};
  const char* end = text->data() + text->size();
  auto [stopped, failed] = std::from_chars(text->data(), end, number);
  if (failed != std::errc() || stopped != end || number < 0) return {};
  return number;
}

// Returns false if there is no such descriptor.
bool close_on_exec(int fd) {
  return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

// Holds `fd` until the process ends. Threads share a descriptor table, and the last of them closes
// it on exit. In a killed process that may be never: a thread may wait for a reply on a FUSE
// connection that only a successor can give. So a thread that waits for nothing holds `fd` alone,
// in its own table, which the kernel closes at once.
void hold_alone(int fd) {
  if (!close_on_exec(fd)) return;
  std::promise<bool> promise;
  std::future<bool> alone = promise.get_future();
  auto hold = [fd, promise = std::move(promise)]() mutable {
    prctl(PR_SET_NAME, "leat-alive");
    const auto number = static_cast<unsigned>(fd);
    const bool own = close_range(number + 1, ~0u, CLOSE_RANGE_UNSHARE) == 0;
    if (own && number > 0) close_range(0, number - 1, 0);
    promise.set_value(own);
    while (own) pause();
  };
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread(std::move(hold)).detach();
    // If the kernel refuses a separate table, all threads keep the descriptor; that works in most
    // cases.
    if (alone.get()) close(fd);
  } catch (const std::exception& refused) {
    log::warning("cannot start the thread that holds LEAT_ALIVE_FD: {}", refused.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

bool valid_fd_name(std::string_view name) {
  auto allowed = [](char c) { return c >= ' ' && c <= '~' && c != ':'; };
  return !name.empty() && name.size() <= kNameMax && std::ranges::all_of(name, allowed);
}

FdStore FdStore::from_environment() {
  FdStore store;
  const std::optional<std::string> address = take_variable("NOTIFY_SOCKET");
  const std::optional<int> pid = take_number("LISTEN_PID");
  const std::optional<int> count = take_number("LISTEN_FDS");
  const std::optional<std::string> names = take_variable("LISTEN_FDNAMES");
  const std::optional<int> alive = take_number("LEAT_ALIVE_FD");
  // Otherwise the variables were meant for a parent of this process.
  if (pid == getpid()) {
    if (count) store.adopt_inherited(*count, names.value_or(""));
    if (alive) hold_alone(*alive);
  }
  if (address) store.set_address(*address);
  return store;
}

void FdStore::adopt_inherited(int count, const std::string& names) {
  std::string_view rest = names;
  for (int i = 0; i < count && i < INT_MAX - kFirst; ++i) {
    // Then the further descriptors are missing, too.
    if (!close_on_exec(kFirst + i)) return;
    const size_t end = std::min(rest.find(':'), rest.size());
    std::string name(names.empty() ? kUnnamed : rest.substr(0, end));
    inherited_.push_back({std::move(name), File(kFirst + i)});
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

void FdStore::set_address(const std::string& address) {
  const bool abstract = address[0] == '@';
  const bool too_long = address.size() >= sizeof address_.sun_path;
  if ((!abstract && address[0] != '/') || address.size() < 2 || too_long) {
    log::warning("NOTIFY_SOCKET={} is no address of a local socket: descriptors are not stored",
                 address);
    return;
  }
  File made(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const timeval timeout{.tv_sec = kSendTimeoutS, .tv_usec = 0};
  if (!made || setsockopt(made.fd(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) != 0) {
    log::warning("descriptors are not stored: {}",
                 status_from_errno(errno, "cannot make a socket").to_string());
    return;
  }
  address_.sun_family = AF_UNIX;
  std::memcpy(address_.sun_path, address.data(), address.size());
  // The length of an abstract name is exact. A path includes its terminating zero.
  address_bytes_ =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size() + (abstract ? 0 : 1));
  if (abstract) address_.sun_path[0] = '\0';
  socket_ = std::move(made);
}

Result<> FdStore::store(const std::string& name, int fd) {
  if (!valid_fd_name(name)) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("'{}' cannot name a stored descriptor: that takes 1 to {} printable "
                             "characters other than ':'",
                             name, kNameMax));
  }
  // Otherwise systemd polls it for hang-up, and each request of a mount wakes systemd (measured:
  // 18,700 times in 20,000 lookups).
  Result<> sent = send(fmt::format("FDSTORE=1\nFDPOLL=0\nFDNAME={}", name), fd);
  if (!sent) return error(sent.error().with_context(fmt::format("cannot store '{}'", name)));
  return {};
}

void FdStore::remove(const std::string& name) {
  if (!available() || !valid_fd_name(name)) return;
  Result<> sent = send(fmt::format("FDSTOREREMOVE=1\nFDNAME={}", name), -1);
  if (!sent) log::warning("'{}' stays in the service manager: {}", name, sent.error().to_string());
}

std::optional<File> FdStore::take(const std::string& name) {
  auto found = std::ranges::find(inherited_, name, &Entry::name);
  if (found == inherited_.end()) return {};
  File taken = std::move(found->file);
  inherited_.erase(found);
  return taken;
}

std::vector<std::string> FdStore::names() const {
  std::vector<std::string> names;
  for (const Entry& one : inherited_) names.push_back(one.name);
  return names;
}

Result<> FdStore::notify(std::string_view assignments) {
  return send(assignments, -1);
}

Result<> FdStore::send(std::string_view assignments, int fd) {
  if (!available()) {
    return error(
        StatusCode::kUnsupported,
        "no service manager stores descriptors for this process (NOTIFY_SOCKET was not set)");
  }
  iovec text{const_cast<char*>(assignments.data()), assignments.size()};
  msghdr message{};
  message.msg_name = &address_;
  message.msg_namelen = address_bytes_;
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  while (sendmsg(socket_.fd(), &message, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN) {
      return error(StatusCode::kUnavailable,
                   fmt::format("the service manager's queue was full for {} s", kSendTimeoutS));
    }
    return error(status_from_errno(errno, "cannot reach the service manager"));
  }
  return {};
}

}  // namespace leat
