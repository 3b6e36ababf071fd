// SPDX-License-Identifier: Apache-2.0
#include "wire/fd_message.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace leat {
namespace {

constexpr char kNoFd = '0', kWithFd = '1';

Error wrong(std::string reason) {
  return error(StatusCode::kInvalidArgument, "a request for a descriptor: " + std::move(reason));
}

std::string_view next_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

bool printable(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c >= ' ' && c != 0x7f; });
}

Result<> add_field(std::string_view line, HttpRequest& request) {
  const size_t colon = line.find(": ");
  if (colon == line.npos || colon == 0 || !printable(line)) return wrong("a line is no field");
  if (request.headers.all().size() == kFdFieldsMax) return wrong("it has too many fields");
  const std::string_view name = line.substr(0, colon);
  if (request.headers.find(name)) return wrong("a field stands there twice");
  request.headers.set(std::string(name), std::string(line.substr(colon + 2)));
  return {};
}

// Space for one descriptor, aligned as the kernel requires.
union Control {
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
  cmsghdr header;
};

// Takes all descriptors of the message, so that none leaks.
std::vector<File> take_descriptors(msghdr& message) {
  std::vector<File> files;
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
    if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(one) + i * sizeof fd, sizeof fd);
      files.emplace_back(fd);
    }
  }
  return files;
}

bool must_wait(int errnum) {
  return errnum == EAGAIN || errnum == EWOULDBLOCK || errnum == EINTR;
}

}  // namespace

std::string encode_fd_request(const HttpRequest& request) {
  std::string text = fmt::format(
      "{} {}\n", request.method,
      request.target.empty() ? make_target(request.path, request.query) : request.target);
  for (const auto& [name, value] : request.headers.all()) {
    text += fmt::format("{}: {}\n", name, value);
  }
  return text + "\n";
}

Result<HttpRequest> decode_fd_request(std::string_view text) {
  if (end_of_fd_request(text) != text.size()) return wrong("it does not end where it ends");
  if (text.size() > kFdRequestBytesMax) return wrong("it is too large");
  HttpRequest request;
  request.method = kFdMethod;
  std::string_view first = next_line(text);
  if (!first.starts_with(request.method) || !first.substr(request.method.size()).starts_with(' ')) {
    return wrong("it does not begin with DESCRIPTOR");
  }
  request.target = first.substr(request.method.size() + 1);  // undecoded, as it was signed
  LEAT_CHECK_OK(parse_target(request.target, request));
  for (std::string_view line = next_line(text); !line.empty(); line = next_line(text)) {
    LEAT_CHECK_OK(add_field(line, request));
  }
  return request;
}

std::optional<size_t> end_of_fd_request(std::string_view text) {
  constexpr std::string_view kEnd = "\n\n";
  const size_t at = text.find(kEnd);
  return at == text.npos ? std::nullopt : std::optional(at + kEnd.size());
}

Result<> send_fd_answer(int socket, const File& file) {
  char byte = file ? kWithFd : kNoFd;
  iovec piece{&byte, 1};
  Control control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (file) {
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = file.fd();
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  if (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1) return {};
  if (must_wait(errno))
    return error(StatusCode::kBusy, "the reader cannot receive a descriptor yet");
  return error(status_from_errno(errno, "cannot send a descriptor"));
}

Result<FdAnswer> receive_fd_answer(int socket) {
  char byte = 0;
  iovec piece{&byte, 1};
  Control control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && must_wait(errno))
    return error(StatusCode::kBusy, "no descriptor was received yet");
  if (got < 0) return error(status_from_errno(errno, "cannot receive a descriptor"));
  std::vector<File> files = take_descriptors(message);
  if (got == 0) return error(StatusCode::kUnavailable, "the worker closed without an answer");
  if (byte == kNoFd && files.empty()) return FdAnswer{};
  if (byte == kWithFd && files.size() == 1 && (message.msg_flags & MSG_CTRUNC) == 0) {
    return FdAnswer{true, std::move(files.front())};
  }
  // If this process has no free descriptors, the kernel drops the one that was sent.
  return error(StatusCode::kCorrupt, "the answer to a request for a descriptor is malformed");
}

Result<File> reopen_for_reading(int fd) {
  const std::string path = fmt::format("/proc/self/fd/{}", fd);
  File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!file) return error(status_from_errno(errno, "cannot open a cached file again"));
  return file;
}

}  // namespace leat
