// SPDX-License-Identifier: Apache-2.0
#include "runtime/fd_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "base/id128.h"

namespace leat {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kVariables[] = {"NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES",
                                      "LEAT_ALIVE_FD"};

File memory_file(const std::string& text) {
  File file(memfd_create("store", MFD_CLOEXEC));
  EXPECT_EQ(pwrite(file.fd(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  return file;
}

std::string text_of(int fd) {
  char text[256];
  const ssize_t n = pread(fd, text, sizeof text, 0);
  return {text, n > 0 ? static_cast<size_t>(n) : 0};
}

// The service manager's side: receives one datagram at a time.
class ServiceManager {
 public:
  explicit ServiceManager(const std::string& address) : address_(address) {
    socket_ = File(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, address.data(), address.size());
    if (address[0] == '@') name.sun_path[0] = '\0';
    const size_t bytes = offsetof(sockaddr_un, sun_path) + address.size();
    EXPECT_EQ(bind(socket_.fd(), reinterpret_cast<sockaddr*>(&name), static_cast<int>(bytes)), 0);
    setenv("NOTIFY_SOCKET", address.c_str(), 1);
  }
  ~ServiceManager() {
    if (address_[0] == '/') unlink(address_.c_str());
  }

  struct Message {
    std::string text;
    File file;
  };
  // Returns a message that was sent before; does not wait.
  std::optional<Message> receive() {
    char text[512];
    iovec into{text, sizeof text};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr message{};
    message.msg_iov = &into;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t n = recvmsg(socket_.fd(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0) return {};
    Message received{.text = {text, static_cast<size_t>(n)}, .file = File()};
    if (const cmsghdr* rights = CMSG_FIRSTHDR(&message)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(rights), sizeof fd);
      received.file = File(fd);
    }
    return received;
  }

 private:
  std::string address_;
  File socket_;
};

class FdStoreTest : public ::testing::Test {
 protected:
  FdStoreTest() {
    for (const char* name : kVariables) unsetenv(name);
  }
  ~FdStoreTest() override {
    for (const char* name : kVariables) unsetenv(name);
  }

  static std::string abstract_address() { return "@leat-store-" + Id128::random().to_hex(); }

  // Runs in a child process with `files` as descriptors from 3 on. `holds` returns whether the test
  // passed.
  static bool in_child(const std::vector<std::string>& files, const std::function<bool()>& holds) {
    const pid_t child = fork();
    if (child == 0) {
      std::vector<File> far;
      for (const std::string& text : files) {
        far.emplace_back(fcntl(memory_file(text).fd(), F_DUPFD, 100));
      }
      for (size_t i = 0; i < far.size(); ++i) dup2(far[i].fd(), static_cast<int>(3 + i));
      close(static_cast<int>(3 + files.size()));
      setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
      setenv("LISTEN_FDS", std::to_string(files.size()).c_str(), 1);
      _exit(holds() ? 0 : 1);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  static bool closed_on_exec(int fd) { return (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; }
};

TEST_F(FdStoreTest, NothingIsStoredWithoutAManager) {
  FdStore store = FdStore::from_environment();
  EXPECT_FALSE(store.available());
  EXPECT_EQ(store.store("a", 0).error().code(), StatusCode::kUnsupported);
  EXPECT_EQ(store.notify("READY=1").error().code(), StatusCode::kUnsupported);
  store.remove("a");
  EXPECT_FALSE(store.take("a"));
  EXPECT_THAT(store.names(), IsEmpty());
}

TEST_F(FdStoreTest, InvalidAddressIsIgnored) {
  for (const std::string& address :
       {std::string("@"), std::string("/"), std::string("relative"), std::string("vsock:2:1"),
        "/" + std::string(sizeof(sockaddr_un::sun_path), 'x')}) {
    setenv("NOTIFY_SOCKET", address.c_str(), 1);
    EXPECT_FALSE(FdStore::from_environment().available()) << address;
  }
}

TEST_F(FdStoreTest, ManagerReceivesACopy) {
  for (const std::string& address :
       {abstract_address(), "/tmp/leat-store-" + Id128::random().to_hex()}) {
    SCOPED_TRACE(address);
    ServiceManager manager(address);
    FdStore store = FdStore::from_environment();
    EXPECT_EQ(std::getenv("NOTIFY_SOCKET"), nullptr) << "children would write to it";
    ASSERT_TRUE(store.available());
    File file = memory_file("bytes");
    ASSERT_TRUE(store.store("mount 1", file.fd()));
    file = File();
    std::optional<ServiceManager::Message> message = manager.receive();
    ASSERT_TRUE(message);
    EXPECT_EQ(message->text, "FDSTORE=1\nFDPOLL=0\nFDNAME=mount 1");
    EXPECT_EQ(text_of(message->file.fd()), "bytes");
    store.remove("mount 1");
    EXPECT_EQ(manager.receive()->text, "FDSTOREREMOVE=1\nFDNAME=mount 1");
    ASSERT_TRUE(store.notify("READY=1\nSTATUS=serves"));
    EXPECT_EQ(manager.receive()->text, "READY=1\nSTATUS=serves");
    EXPECT_FALSE(manager.receive());
  }
}

TEST_F(FdStoreTest, MovedStoreWorks) {
  ServiceManager manager(abstract_address());
  FdStore first = FdStore::from_environment();
  FdStore second = std::move(first);
  EXPECT_TRUE(second.available());
  FdStore third;
  third = std::move(second);
  ASSERT_TRUE(third.notify("READY=1"));
  EXPECT_EQ(manager.receive()->text, "READY=1");
}

TEST_F(FdStoreTest, InvalidNamesAreRejected) {
  ServiceManager manager(abstract_address());
  FdStore store = FdStore::from_environment();
  for (const std::string& name : {std::string(), std::string("a:b"), std::string("a\nb"),
                                  std::string("\x7f"), std::string("ä"), std::string(256, 'x')}) {
    EXPECT_EQ(store.store(name, 0).error().code(), StatusCode::kInvalidArgument) << name;
    store.remove(name);
  }
  EXPECT_FALSE(manager.receive());
  EXPECT_TRUE(store.store(std::string(255, 'x'), 0));
}

TEST_F(FdStoreTest, BadDescriptorAndDeadManagerAreErrors) {
  auto manager = std::make_unique<ServiceManager>(abstract_address());
  FdStore store = FdStore::from_environment();
  EXPECT_THAT(store.store("a", 9999).error().to_string(), HasSubstr("cannot store 'a'"));
  manager = nullptr;
  EXPECT_EQ(store.store("a", 0).error().code(), StatusCode::kUnavailable);
  store.remove("a");
}

TEST_F(FdStoreTest, FullQueueIsWaitedFor) {
  ServiceManager manager(abstract_address());
  FdStore store = FdStore::from_environment();
  constexpr int kMessages = 2000;  // more than any queue holds
  std::atomic<bool> rejected = false;
  std::jthread sender([&] {
    for (int i = 0; i < kMessages && !rejected; ++i) {
      rejected = !store.notify(fmt::format("STATUS={}", i));
    }
  });
  for (int i = 0; i < kMessages; ++i) {
    std::optional<ServiceManager::Message> message;
    while (!message && !rejected) message = manager.receive();
    if (!message) FAIL() << "the sender was rejected";
    EXPECT_EQ(message->text, fmt::format("STATUS={}", i));
  }
}

TEST_F(FdStoreTest, StuckManagerTimesOut) {
  ServiceManager manager(abstract_address());
  FdStore store = FdStore::from_environment();
  Result<> sent;
  for (int i = 0; i < 100'000 && sent; ++i) sent = store.notify("STATUS=1");
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code(), StatusCode::kUnavailable);
}

TEST_F(FdStoreTest, InheritedFdsAreTakenOnceInOrder) {
  EXPECT_TRUE(in_child({"zero", "one", "two"}, [] {
    setenv("LISTEN_FDNAMES", "b:a:b", 1);
    FdStore store = FdStore::from_environment();
    EXPECT_THAT(store.names(), ElementsAre("b", "a", "b"));
    EXPECT_FALSE(store.take("c"));
    std::optional<File> first = store.take("b");
    std::optional<File> second = store.take("b");
    EXPECT_EQ(text_of(first->fd()), "zero");
    EXPECT_EQ(text_of(second->fd()), "two");
    EXPECT_TRUE(closed_on_exec(first->fd()));
    EXPECT_TRUE(closed_on_exec(4)) << "also what nobody took yet";
    EXPECT_FALSE(store.take("b"));
    EXPECT_THAT(store.names(), ElementsAre("a"));
    for (const char* name : kVariables) EXPECT_EQ(std::getenv(name), nullptr) << name;
    return !HasFailure();
  }));
}

TEST_F(FdStoreTest, FdsOfAnotherProcessAreUntouched) {
  EXPECT_TRUE(in_child({"zero"}, [] {
    setenv("LISTEN_PID", std::to_string(getppid()).c_str(), 1);
    FdStore store = FdStore::from_environment();
    EXPECT_THAT(store.names(), IsEmpty());
    EXPECT_FALSE(closed_on_exec(3));
    for (const char* name : kVariables) EXPECT_EQ(std::getenv(name), nullptr) << name;
    return !HasFailure();
  }));
}

TEST_F(FdStoreTest, NamesMayBeMissing) {
  EXPECT_TRUE(in_child({"zero", "one"}, [] {
    FdStore store = FdStore::from_environment();
    EXPECT_THAT(store.names(), ElementsAre("unknown", "unknown"));
    return !HasFailure();
  }));
  EXPECT_TRUE(in_child({"zero", "one"}, [] {
    setenv("LISTEN_FDNAMES", "only", 1);
    FdStore store = FdStore::from_environment();
    EXPECT_THAT(store.names(), ElementsAre("only", ""));
    return !HasFailure();
  }));
}

TEST_F(FdStoreTest, InvalidEnvironmentIsHarmless) {
  for (const char* count : {"2147483647", "-1", "x", "99999999999999999999", "1x", ""}) {
    EXPECT_TRUE(in_child({"zero"}, [count] {
      setenv("LISTEN_FDS", count, 1);
      setenv("LISTEN_FDNAMES", "a:b:c", 1);
      setenv("LEAT_ALIVE_FD", "12345", 1);
      FdStore store = FdStore::from_environment();
      EXPECT_LE(store.names().size(), 1u);
      return !HasFailure();
    })) << count;
  }
}

// A thread that hangs in the kernel keeps the descriptor table of a killed process open. A second
// process that shares the table does the same, and needs no hanging mount.
TEST_F(FdStoreTest, AliveFdClosesWithTheProcess) {
  int alive[2];
  int table[2];
  ASSERT_EQ(pipe2(alive, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(table, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
    setenv("LEAT_ALIVE_FD", std::to_string(alive[1]).c_str(), 1);
    const FdStore store = FdStore::from_environment();
    if (std::getenv("LEAT_ALIVE_FD") != nullptr || fcntl(alive[1], F_GETFD) != -1) _exit(1);
    const long sharer = syscall(SYS_clone, CLONE_FILES, nullptr, nullptr, nullptr, nullptr);
    if (sharer > 0 && write(table[1], &sharer, sizeof sharer) != sizeof sharer) _exit(1);
    while (true) pause();
  }
  close(alive[1]);
  close(table[1]);
  long sharer = 0;
  ASSERT_EQ(read(table[0], &sharer, sizeof sharer), static_cast<ssize_t>(sizeof sharer));
  pollfd alive_end{alive[0], 0, 0};
  EXPECT_EQ(poll(&alive_end, 1, 0), 0) << "it lives";
  EXPECT_EQ(kill(child, SIGKILL), 0);
  EXPECT_EQ(poll(&alive_end, 1, 60'000), 1) << "it does not";
  pollfd shared{table[0], 0, 0};
  EXPECT_EQ(poll(&shared, 1, 0), 0) << "its descriptors are open still";
  EXPECT_EQ(kill(static_cast<pid_t>(sharer), SIGKILL), 0);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  close(alive[0]);
  close(table[0]);
}

TEST_F(FdStoreTest, AliveThreadTakesNoSignals) {
  int alive[2];
  ASSERT_EQ(pipe2(alive, O_CLOEXEC), 0);
  EXPECT_TRUE(in_child({}, [&] {
    setenv("LEAT_ALIVE_FD", std::to_string(fcntl(alive[1], F_DUPFD, 50)).c_str(), 1);
    const FdStore store = FdStore::from_environment();
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    EXPECT_EQ(sigismember(&mask, SIGTERM), 0) << "those of the others are as they were";
    // This thread would take the signal if no other does.
    sigfillset(&mask);
    pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    kill(getpid(), SIGTERM);
    sigpending(&mask);
    EXPECT_EQ(sigismember(&mask, SIGTERM), 1);
    return !HasFailure();
  }));
  close(alive[0]);
  close(alive[1]);
}

}  // namespace
}  // namespace leat
