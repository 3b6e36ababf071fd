// SPDX-License-Identifier: Apache-2.0
#include "supervisor/fd_store_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

#include "runtime/fd_store.h"

namespace leat {
namespace {

// Space for a path and some words.
constexpr size_t kMessageBytesMax = 8192;
constexpr size_t kRightsMax = 253;  // SCM_MAX_FD: descriptors in one message
// More than any queue holds; bounds the work if a process keeps sending.
constexpr int kMessagesMax = 16384;
constexpr char kUnnamed[] = "stored";  // systemd's default name

struct Message {
  bool store = false;
  bool remove = false;
  std::optional<std::string> name = {};
  FdStoreServer::Notifications notifications = {};
};

Message parse(std::string_view text) {
  Message message;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, equals);
    const std::string_view value = line.substr(equals + 1);
    if (name == "FDSTORE") message.store = value == "1";
    if (name == "FDSTOREREMOVE") message.remove = value == "1";
    if (name == "FDNAME") message.name = value;
    if (name == "READY" && value == "1") message.notifications.ready = true;
    if (name == "X_LEAT_HANDING_OVER" && value == "1") message.notifications.takeover = true;
    const bool path = value.starts_with('/') && value.find('\0') == std::string_view::npos;
    if (name == "X_LEAT_NEXT" && path) message.notifications.next = value;
  }
  return message;
}

// Returns the sender of the next message; nothing if none is pending. The buffer has space for the
// credentials only, so no foreign descriptor enters this process: closing it might block for ever.
std::optional<pid_t> next_sender(int socket) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
  while (true) {
    msghdr message{};
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT) < 0) {
      if (errno == EINTR) continue;
      return {};
    }
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (header == nullptr || header->cmsg_type != SCM_CREDENTIALS) return 0;
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
    return sender.pid;
  }
}

std::vector<File> descriptors_of(msghdr& message) {
  std::vector<File> files;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      files.emplace_back(fd);
    }
  }
  return files;
}

}  // namespace

Result<FdStoreServer> FdStoreServer::open(size_t descriptors_max,
                                          std::function<void(const std::string&)> log,
                                          const std::string& path) {
  FdStoreServer store;
  store.descriptors_max_ = std::min(descriptors_max, kDescriptorsMax);
  store.log_ = std::move(log);
  store.socket_ = File(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // Without a name the kernel assigns an abstract one, unix(7).
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  socklen_t bytes = sizeof name;
  socklen_t bound = sizeof(sa_family_t);
  if (!path.empty()) {
    if (path.size() >= sizeof name.sun_path) {
      return error(StatusCode::kInvalidArgument, path + " is too long for a socket");
    }
    std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
    bound = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
    ::unlink(path.c_str());
  }
  const int on = 1;
  const int fd = store.socket_.fd();
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
      bind(fd, reinterpret_cast<sockaddr*>(&name), bound) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&name), &bytes) != 0) {
    return error(status_from_errno(errno, "cannot make the socket that takes descriptors"));
  }
  if (!path.empty()) {
    store.address_ = path;
    return store;
  }
  const size_t length = bytes - offsetof(sockaddr_un, sun_path);
  store.address_ = "@" + std::string(name.sun_path + 1, length - 1);
  return store;
}

FdStoreServer::Notifications FdStoreServer::receive(pid_t sender) {
  Notifications notifications;
  for (int i = 0; i < kMessagesMax; ++i) {
    const std::optional<pid_t> from = next_sender(fd());
    if (!from) break;
    if (*from == sender && sender > 0) {
      receive_one(notifications);
    } else {
      recv(fd(), nullptr, 0, MSG_DONTWAIT);
    }
  }
  return notifications;
}

void FdStoreServer::receive_one(Notifications& notifications) {
  char text[kMessageBytesMax];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(kRightsMax * sizeof(int))];
  iovec into{text, sizeof text};
  msghdr message{};
  message.msg_iov = &into;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t n = recvmsg(fd(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0) return;
  // Descriptors that no branch below keeps are closed here. By that a sender knows that all earlier
  // messages were handled (sd_notify_barrier(3)).
  std::vector<File> files = descriptors_of(message);
  if ((message.msg_flags & MSG_TRUNC) != 0) {
    log_(fmt::format("a message of more than {} bytes was ignored", kMessageBytesMax));
    return;
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    log_("lost descriptors: the limit of open files is reached");
  }
  Message parsed = parse({text, static_cast<size_t>(n)});
  notifications.ready |= parsed.notifications.ready;
  notifications.takeover |= parsed.notifications.takeover;
  if (!parsed.notifications.next.empty()) notifications.next = std::move(parsed.notifications.next);
  if (parsed.remove) {
    if (parsed.name) remove(*parsed.name);
  } else if (parsed.store) {
    add_all(parsed.name.value_or(kUnnamed), std::move(files));
  }
}

void FdStoreServer::add_all(const std::string& name, std::vector<File> files) {
  size_t rejected = 0;
  for (File& file : files) {
    if (!add(name, std::move(file))) ++rejected;
  }
  if (rejected == 0) return;
  // The name may be arbitrary bytes.
  log_(fmt::format("{} descriptors named '{}' are not stored: {} of at most {} are", rejected,
                   valid_fd_name(name) ? name : "?", stored_.size(), descriptors_max_));
}

bool FdStoreServer::add(const std::string& name, File file) {
  if (!valid_fd_name(name)) return false;
  auto full = [&] {
    return stored_.size() >= descriptors_max_ || name_bytes_ + name.size() + 1 > kNameBytesMax;
  };
  if (full()) close_hung_up();
  if (full()) return false;
  name_bytes_ += name.size() + 1;
  stored_.push_back({name, std::move(file)});
  return true;
}

void FdStoreServer::remove(const std::string& name) {
  std::erase_if(stored_, [&](const StoredFd& one) {
    if (one.name != name) return false;
    name_bytes_ -= one.name.size() + 1;
    return true;
  });
}

void FdStoreServer::close_hung_up() {
  std::vector<pollfd> polled;
  polled.reserve(stored_.size());
  for (const StoredFd& one : stored_) polled.push_back({one.file.fd(), 0, 0});
  if (poll(polled.data(), polled.size(), 0) <= 0) return;
  size_t index = 0;
  std::erase_if(stored_, [&](const StoredFd& one) {
    if (polled[index++].revents == 0) return false;
    name_bytes_ -= one.name.size() + 1;
    return true;
  });
}

}  // namespace leat
