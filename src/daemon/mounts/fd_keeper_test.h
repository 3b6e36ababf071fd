// SPDX-License-Identifier: Apache-2.0
// FdKeeper: the service manager's side of FdStore, in the process of the test. MountGeneration: one
// daemon of several that take mounts over from each other.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/mounts/fake_fuse_server_test.h"
#include "runtime/fd_store.h"

namespace leat::testing {

// Descriptors that a service manager passes on begin here (SD_LISTEN_FDS_START).
inline constexpr int kPassedFirst = 3, kPassedMax = 24;
// All other descriptors of the tests are above those.
inline constexpr int kOthersFirst = 100;

inline File above(int fd) {
  return File(::fcntl(fd, F_DUPFD_CLOEXEC, kOthersFirst));
}

// Keeps the numbers of passed descriptors free of other files.
class ReservedDescriptors : public ::testing::Environment {
 public:
  void SetUp() override { reserve(/*also_open=*/true); }
  static void reserve(bool also_open) {
    const File null = above(File(::open("/dev/null", O_RDONLY | O_CLOEXEC)).fd());
    for (int fd = kPassedFirst; fd < kPassedFirst + kPassedMax; ++fd) {
      if (also_open || ::fcntl(fd, F_GETFD) < 0) ::dup3(null.fd(), fd, O_CLOEXEC);
    }
  }
  static bool is_reserved(int fd) {
    struct stat found{}, null{};
    return ::fstat(fd, &found) == 0 && ::stat("/dev/null", &null) == 0 &&
           found.st_rdev == null.st_rdev;
  }
};
inline const auto* const kReserved = ::testing::AddGlobalTestEnvironment(new ReservedDescriptors);

// The service manager's side of FdStore: keeps copies of descriptors for the next process.
class FdKeeper {
 public:
  using Files = std::map<std::string, File>;

  FdKeeper() : socket_(above(File(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)).fd())) {
    name_.sun_family = AF_UNIX;
    std::memcpy(name_.sun_path + 1, address_.data() + 1, address_.size() - 1);
    EXPECT_EQ(::bind(socket_.fd(), reinterpret_cast<sockaddr*>(&name_), name_bytes()), 0);
    thread_ = std::thread([this] { receive_all(); });
  }
  ~FdKeeper() {
    send("END");
    thread_.join();
  }

  // Returns copies of what the process would leave if it was killed now.
  Files left_now() {
    sync();
    std::lock_guard lock(mutex_);
    Files copies;
    for (const auto& [name, file] : files_) {
      copies[name] = name == "leat-mounts" ? copy_of_text(file) : above(file.fd());
    }
    return copies;
  }
  std::vector<std::string> names() {
    sync();
    std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, file] : files_) names.push_back(name);
    return names;
  }
  // Returns the store of a process that gets `left`; the manager keeps the same.
  FdStore next_process(Files left) {
    std::lock_guard lock(mutex_);
    files_ = std::move(left);
    ReservedDescriptors::reserve(/*also_open=*/false);
    std::string names;
    int fd = kPassedFirst;
    for (const auto& [name, file] : files_) {
      EXPECT_TRUE(ReservedDescriptors::is_reserved(fd)) << fd << " belongs to another test";
      EXPECT_EQ(::dup3(file.fd(), fd, O_CLOEXEC), fd);
      names += (names.empty() ? "" : ":") + name;
      ++fd;
    }
    EXPECT_LE(fd, kPassedFirst + kPassedMax);
    ::setenv("NOTIFY_SOCKET", address_.c_str(), 1);
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv("LISTEN_FDS", std::to_string(fd - kPassedFirst).c_str(), 1);
    ::setenv("LISTEN_FDNAMES", names.c_str(), 1);
    return FdStore::from_environment();
  }

 private:
  socklen_t name_bytes() const {
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  }
  static File copy_of_text(const File& file) {
    const std::string text = MemfdText::of(above(file.fd())).read();
    MemfdText copy = MemfdText::create().value();
    EXPECT_TRUE(copy.write(text));
    return above(copy.fd());
  }
  void send(const std::string& text) {
    const auto* to = reinterpret_cast<const sockaddr*>(&name_);
    EXPECT_EQ(::sendto(socket_.fd(), text.data(), text.size(), 0, to, name_bytes()),
              static_cast<ssize_t>(text.size()));
  }
  // Returns when all earlier messages have been processed.
  void sync() {
    std::unique_lock lock(mutex_);
    const unsigned wanted = synced_ + 1;
    lock.unlock();
    send("SYNC");
    lock.lock();
    changed_.wait(lock, [&] { return synced_ >= wanted; });
  }
  void receive_all() {
    for (;;) {
      char text[512];
      iovec into{text, sizeof text};
      alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
      msghdr message{};
      message.msg_iov = &into;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      const ssize_t size = ::recvmsg(socket_.fd(), &message, MSG_CMSG_CLOEXEC);
      if (size < 0) continue;
      const std::string received(text, static_cast<size_t>(size));
      if (received == "END") return;
      File file;
      if (const cmsghdr* rights = CMSG_FIRSTHDR(&message)) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(rights), sizeof fd);
        file = above(File(fd).fd());
      }
      process(received, std::move(file));
    }
  }
  void process(const std::string& text, File file) {
    const size_t at = text.find("FDNAME=");
    const std::string name = at == std::string::npos ? "" : text.substr(at + 7);
    std::lock_guard lock(mutex_);
    if (text == "SYNC") ++synced_;
    if (text.starts_with("FDSTORE=1")) files_.emplace(name, std::move(file));
    if (text.starts_with("FDSTOREREMOVE=1")) files_.erase(name);
    changed_.notify_all();
  }

  const std::string address_ = "@leat-mounts-" + Id128::random().to_hex();
  sockaddr_un name_{};
  File socket_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Files files_;
  unsigned synced_ = 0;
  std::thread thread_;
};

// A daemon as far as mounts are concerned.
struct MountGeneration {
  explicit MountGeneration(FdStore passed, bool survives = true)
      : fd_store(std::move(passed)),
        state(fd_store),
        rig({.takeover_state = &state, .on_empty = {}}, survives) {}

  // Restores as the daemon does, and returns "PATH: reason" of each lost mount. `open` has the
  // snapshots of all.
  std::vector<std::string> restore_mounts(const SnapshotPtr& open = nullptr) {
    std::vector<std::string> lost, known;
    saved = state.load();
    for (const SavedMount& mount : saved) {
      const std::string path = mount.request.path;
      const auto restored = rig.executor.block_on(rig.service->restore(
          Context::background(), mount, mount.request.snapshot.empty() ? nullptr : open));
      if (!restored) lost.push_back(path + ": " + text_of(restored));
      if (restored && !mount.lingering) known.push_back(path);
    }
    for (const std::string& path : known) {
      const auto restored = rig.executor.block_on(rig.service->restore_frontend(path));
      if (!restored) lost.push_back(path + ": " + text_of(restored));
    }
    return lost;
  }
  std::vector<std::string> restore(const SnapshotPtr& open = nullptr) {
    std::vector<std::string> lost = restore_mounts(open);
    rig.service->finish_restore();
    state.close_unclaimed();
    return lost;
  }

  FdStore fd_store;
  TakeoverState state;
  MountRig rig;
  std::vector<SavedMount> saved{};  // what restore() found
};

}  // namespace leat::testing
