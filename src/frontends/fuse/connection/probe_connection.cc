// SPDX-License-Identifier: Apache-2.0
#include "frontends/fuse/connection/probe_connection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "frontends/fuse/connection/mount_point.h"
#include "runtime/disk.h"

extern char** environ;

namespace leat {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSource = "leat-doctor";
// fusermount3's end of the socket. It returns the device over it, and unmounts when the other end
// closes for any reason.
constexpr int kSocketFd = 3;

// A superblock without a mount (fsopen(2), Linux ≥ 5.2): it is in no mount namespace, so no program
// can reach it. The device is closed first, which aborts the connection, so its end waits for
// nothing.
class DetachedConnection : public ProbeConnection {
 public:
  static Result<std::unique_ptr<ProbeConnection>> open(const std::string& path) {
    File device(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (!device) return error(status_from_errno(errno, "cannot open " + path));
    File superblock(::fsopen("fuse", FSOPEN_CLOEXEC));
    if (!superblock) return refused();
    const std::pair<const char*, std::string> settings[] = {
        {"source", kSource},
        {"fd", std::to_string(device.fd())},
        {"rootmode", "40000"},
        {"user_id", std::to_string(::geteuid())},
        {"group_id", std::to_string(::getegid())},
    };
    for (const auto& [name, value] : settings) {
      const char* text = value.c_str();
      if (::fsconfig(superblock.fd(), FSCONFIG_SET_STRING, name, text, 0) != 0) return refused();
    }
    if (::fsconfig(superblock.fd(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
      return refused();
    }
    return std::unique_ptr<ProbeConnection>(
        new DetachedConnection(std::move(superblock), std::move(device)));
  }

  int fd() const override { return device_.fd(); }

 private:
  DetachedConnection(File superblock, File device)
      : superblock_(std::move(superblock)), device_(std::move(device)) {}

  static Error refused() {
    return error(status_from_errno(errno, "the kernel failed to create a FUSE file system"));
  }

  const File superblock_;
  const File device_;  // closed before the superblock
};

// Receives the descriptor over `socket`; empty if the socket was closed or nothing was received.
File receive_descriptor(int socket, std::chrono::milliseconds timeout) {
  pollfd readable{.fd = socket, .events = POLLIN, .revents = 0};
  if (::poll(&readable, 1, static_cast<int>(timeout.count())) <= 0) return {};
  char byte = 0;
  iovec part{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) <= 0) return {};
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return {};
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return File(fd);
}

// A child process with a bounded time to end. It may hang in the kernel; then another process reaps
// it.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    reap();
  }

  void end_within(std::chrono::milliseconds timeout) {
    if (pid_ <= 0) return;
    const File handle(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    pollfd ended{.fd = handle.fd(), .events = POLLIN, .revents = 0};
    if (handle) ::poll(&ended, 1, static_cast<int>(timeout.count()));
    reap();
  }

 private:
  void reap() {
    if (::waitpid(pid_, nullptr, WNOHANG) != 0) pid_ = 0;
  }

  pid_t pid_;
};

class FusermountConnection : public ProbeConnection {
 public:
  static Result<std::unique_ptr<ProbeConnection>> open(const ProbeOptions& options) {
    std::string folder = fs::temp_directory_path() / "leat-doctor-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) {
      return error(status_from_errno(errno, "cannot make a folder to mount at: " + folder));
    }
    std::unique_ptr<FusermountConnection> made(
        new FusermountConnection(fs::canonical(folder), options.timeout));
    LEAT_CHECK_OK(made->start(options));
    return made;
  }

  ~FusermountConnection() override {
    device_ = File();  // aborts the connection
    socket_ = File();  // makes fusermount3 unmount
    if (child_) child_->end_within(timeout_);
    const bool mounted = !device_of_mount(mounts_of_this_namespace(), folder_).empty();
    if (mounted) force_unmount_path(folder_);
    ::rmdir(folder_.c_str());
  }

  int fd() const override { return device_.fd(); }

 private:
  FusermountConnection(std::string folder, std::chrono::milliseconds timeout)
      : folder_(std::move(folder)), timeout_(timeout) {}

  Result<> start(const ProbeOptions& options) {
    int ends[2], words[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      return error(status_from_errno(errno, "cannot make a socket"));
    }
    socket_ = File(ends[0]);
    File theirs(ends[1]);
    if (::pipe2(words, O_CLOEXEC | O_NONBLOCK) != 0) {
      return error(status_from_errno(errno, "cannot make a pipe"));
    }
    const File complaints(words[0]);
    File output(words[1]);
    LEAT_TRY(const pid_t pid, spawn(options.fusermount, theirs.fd(), output.fd()));
    child_ = std::make_unique<Child>(pid);
    theirs = File();
    output = File();
    device_ = receive_descriptor(socket_.fd(), timeout_);
    if (device_) return set_nonblocking();
    child_->end_within(timeout_);
    return error(StatusCode::kPermissionDenied,
                 fmt::format("{} could not mount: {}", options.fusermount, message_of(complaints)));
  }

  Result<pid_t> spawn(const std::string& program, int socket, int output) {
    std::vector<std::string> words = {
        program, "-o", fmt::format("auto_unmount,subtype=leat,fsname={}", kSource), "--", folder_};
    std::vector<char*> argv, environment;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::string place = fmt::format("_FUSE_COMMFD={}", kSocketFd);
    for (char** variable = environ; *variable != nullptr; ++variable) {
      environment.push_back(*variable);
    }
    environment.insert(environment.end(), {place.data(), nullptr});
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&files, socket, kSocketFd);
    posix_spawn_file_actions_addclosefrom_np(&files, kSocketFd + 1);
    pid_t child = 0;
    const int failed =
        ::posix_spawnp(&child, argv[0], &files, nullptr, argv.data(), environment.data());
    posix_spawn_file_actions_destroy(&files);
    if (failed == 0) return child;
    return error(StatusCode::kPermissionDenied,
                 status_from_errno(failed, "cannot run " + program).message());
  }

  Result<> set_nonblocking() {
    const int flags = ::fcntl(device_.fd(), F_GETFL);
    if (flags >= 0 && ::fcntl(device_.fd(), F_SETFL, flags | O_NONBLOCK) == 0) return {};
    return error(status_from_errno(errno, "cannot use the FUSE device"));
  }

  static std::string message_of(const File& complaints) {
    char text[512];
    const ssize_t got = ::read(complaints.fd(), text, sizeof text);
    std::string words(text, got > 0 ? static_cast<size_t>(got) : 0);
    while (words.ends_with('\n')) words.pop_back();
    return words.empty() ? "no message" : words;
  }

  const std::string folder_;
  const std::chrono::milliseconds timeout_;
  File socket_, device_;
  std::unique_ptr<Child> child_;
};

}  // namespace

Result<std::unique_ptr<ProbeConnection>> ProbeConnection::open(const ProbeOptions& options) {
  Status why(StatusCode::kPermissionDenied, "not attempted");
  if (options.try_direct_mount) {
    auto detached = DetachedConnection::open(options.device);
    if (detached || detached.error().code() == StatusCode::kNotFound) return detached;
    why = detached.error();
  }
  auto mounted = FusermountConnection::open(options);
  if (mounted) return mounted;
  return error(Status(mounted.error().code(), mounted.error().to_string(), why));
}

}  // namespace leat
