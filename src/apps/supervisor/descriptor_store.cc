// SPDX-License-Identifier: Apache-2.0
#include "apps/supervisor/descriptor_store.h"

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

#include "runtime/kept_descriptors.h"

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
  DescriptorStore::Said said = {};
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
    if (name == "READY" && value == "1") message.said.ready = true;
    if (name == "X_LEAT_HANDING_OVER" && value == "1") message.said.handing_over = true;
    const bool path = value.starts_with('/') && value.find('\0') == std::string_view::npos;
    if (name == "X_LEAT_NEXT" && path) message.said.next = value;
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

Result<DescriptorStore> DescriptorStore::open(size_t descriptors_max,
                                              std::function<void(const std::string&)> say,
                                              const std::string& path) {
  DescriptorStore store;
  store.descriptors_max_ = std::min(descriptors_max, kDescriptorsMax);
  store.say_ = std::move(say);
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

DescriptorStore::Said DescriptorStore::receive(pid_t sender) {
  Said said;
  for (int i = 0; i < kMessagesMax; ++i) {
    const std::optional<pid_t> from = next_sender(fd());
    if (!from) break;
    if (*from == sender && sender > 0) {
      take_message(said);
    } else {
      recv(fd(), nullptr, 0, MSG_DONTWAIT);
    }
  }
  return said;
}

void DescriptorStore::take_message(Said& said) {
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
    say_(fmt::format("a message of more than {} bytes was ignored", kMessageBytesMax));
    return;
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    say_("descriptors that were to be kept are lost: this process may open no more");
  }
  Message parsed = parse({text, static_cast<size_t>(n)});
  said.ready |= parsed.said.ready;
  said.handing_over |= parsed.said.handing_over;
  if (!parsed.said.next.empty()) said.next = std::move(parsed.said.next);
  if (parsed.remove) {
    if (parsed.name) remove(*parsed.name);
  } else if (parsed.store) {
    keep(parsed.name.value_or(kUnnamed), std::move(files));
  }
}

void DescriptorStore::keep(const std::string& name, std::vector<File> files) {
  size_t refused = 0;
  for (File& file : files) {
    if (!add(name, std::move(file))) ++refused;
  }
  if (refused == 0) return;
  // The name may be arbitrary bytes.
  say_(fmt::format("{} descriptors named '{}' are not kept: {} of at most {} are", refused,
                   valid_descriptor_name(name) ? name : "?", stored_.size(), descriptors_max_));
}

bool DescriptorStore::add(const std::string& name, File file) {
  if (!valid_descriptor_name(name)) return false;
  auto full = [&] {
    return stored_.size() >= descriptors_max_ || name_bytes_ + name.size() + 1 > kNameBytesMax;
  };
  if (full()) drop_dead();
  if (full()) return false;
  name_bytes_ += name.size() + 1;
  stored_.push_back({name, std::move(file)});
  return true;
}

void DescriptorStore::remove(const std::string& name) {
  std::erase_if(stored_, [&](const StoredDescriptor& one) {
    if (one.name != name) return false;
    name_bytes_ -= one.name.size() + 1;
    return true;
  });
}

void DescriptorStore::drop_dead() {
  std::vector<pollfd> asked;
  asked.reserve(stored_.size());
  for (const StoredDescriptor& one : stored_) asked.push_back({one.file.fd(), 0, 0});
  if (poll(asked.data(), asked.size(), 0) <= 0) return;
  size_t place = 0;
  std::erase_if(stored_, [&](const StoredDescriptor& one) {
    if (asked[place++].revents == 0) return false;
    name_bytes_ -= one.name.size() + 1;
    return true;
  });
}

}  // namespace leat
