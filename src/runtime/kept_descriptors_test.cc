// SPDX-License-Identifier: Apache-2.0
#include "runtime/kept_descriptors.h"

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
  File file(memfd_create("kept", MFD_CLOEXEC));
  EXPECT_EQ(pwrite(file.fd(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  return file;
}

std::string text_of(int fd) {
  char text[256];
  const ssize_t n = pread(fd, text, sizeof text, 0);
  return {text, n > 0 ? static_cast<size_t>(n) : 0};
}

// The keeper's side: receives one datagram at a time.
class Keeper {
 public:
  explicit Keeper(const std::string& address) : address_(address) {
    socket_ = File(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, address.data(), address.size());
    if (address[0] == '@') name.sun_path[0] = '\0';
    const size_t bytes = offsetof(sockaddr_un, sun_path) + address.size();
    EXPECT_EQ(bind(socket_.fd(), reinterpret_cast<sockaddr*>(&name), static_cast<int>(bytes)), 0);
    setenv("NOTIFY_SOCKET", address.c_str(), 1);
  }
  ~Keeper() {
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

class KeptDescriptorsTest : public ::testing::Test {
 protected:
  KeptDescriptorsTest() {
    for (const char* name : kVariables) unsetenv(name);
  }
  ~KeptDescriptorsTest() override {
    for (const char* name : kVariables) unsetenv(name);
  }

  static std::string abstract_address() { return "@leat-kept-" + Id128::random().to_hex(); }

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

TEST_F(KeptDescriptorsTest, WithoutAKeeperNothingIsKept) {
  KeptDescriptors kept = KeptDescriptors::from_environment();
  EXPECT_FALSE(kept.kept());
  EXPECT_EQ(kept.keep("a", 0).error().code(), StatusCode::kUnsupported);
  EXPECT_EQ(kept.say("READY=1").error().code(), StatusCode::kUnsupported);
  kept.drop("a");
  EXPECT_FALSE(kept.take("a"));
  EXPECT_THAT(kept.left(), IsEmpty());
}

TEST_F(KeptDescriptorsTest, WhatIsNoAddressIsNoKeeper) {
  for (const std::string& address :
       {std::string("@"), std::string("/"), std::string("relative"), std::string("vsock:2:1"),
        "/" + std::string(sizeof(sockaddr_un::sun_path), 'x')}) {
    setenv("NOTIFY_SOCKET", address.c_str(), 1);
    EXPECT_FALSE(KeptDescriptors::from_environment().kept()) << address;
  }
}

TEST_F(KeptDescriptorsTest, TheKeeperGetsACopy) {
  for (const std::string& address :
       {abstract_address(), "/tmp/leat-kept-" + Id128::random().to_hex()}) {
    SCOPED_TRACE(address);
    Keeper keeper(address);
    KeptDescriptors kept = KeptDescriptors::from_environment();
    EXPECT_EQ(std::getenv("NOTIFY_SOCKET"), nullptr) << "children would write to it";
    ASSERT_TRUE(kept.kept());
    File file = memory_file("bytes");
    ASSERT_TRUE(kept.keep("mount 1", file.fd()));
    file = File();
    std::optional<Keeper::Message> message = keeper.receive();
    ASSERT_TRUE(message);
    EXPECT_EQ(message->text, "FDSTORE=1\nFDPOLL=0\nFDNAME=mount 1");
    EXPECT_EQ(text_of(message->file.fd()), "bytes");
    kept.drop("mount 1");
    EXPECT_EQ(keeper.receive()->text, "FDSTOREREMOVE=1\nFDNAME=mount 1");
    ASSERT_TRUE(kept.say("READY=1\nSTATUS=serves"));
    EXPECT_EQ(keeper.receive()->text, "READY=1\nSTATUS=serves");
    EXPECT_FALSE(keeper.receive());
  }
}

TEST_F(KeptDescriptorsTest, ItMayBeMoved) {
  Keeper keeper(abstract_address());
  KeptDescriptors first = KeptDescriptors::from_environment();
  KeptDescriptors second = std::move(first);
  EXPECT_TRUE(second.kept());
  KeptDescriptors third;
  third = std::move(second);
  ASSERT_TRUE(third.say("READY=1"));
  EXPECT_EQ(keeper.receive()->text, "READY=1");
}

TEST_F(KeptDescriptorsTest, NamesThatTheProtocolCannotCarryAreRefused) {
  Keeper keeper(abstract_address());
  KeptDescriptors kept = KeptDescriptors::from_environment();
  for (const std::string& name : {std::string(), std::string("a:b"), std::string("a\nb"),
                                  std::string("\x7f"), std::string("ä"), std::string(256, 'x')}) {
    EXPECT_EQ(kept.keep(name, 0).error().code(), StatusCode::kInvalidArgument) << name;
    kept.drop(name);
  }
  EXPECT_FALSE(keeper.receive());
  EXPECT_TRUE(kept.keep(std::string(255, 'x'), 0));
}

TEST_F(KeptDescriptorsTest, ADescriptorThatIsNoneAndAKeeperThatIsGoneAreErrors) {
  auto keeper = std::make_unique<Keeper>(abstract_address());
  KeptDescriptors kept = KeptDescriptors::from_environment();
  EXPECT_THAT(kept.keep("a", 9999).error().to_string(), HasSubstr("cannot keep 'a'"));
  keeper = nullptr;
  EXPECT_EQ(kept.keep("a", 0).error().code(), StatusCode::kUnavailable);
  kept.drop("a");
}

TEST_F(KeptDescriptorsTest, AFullQueueIsWaitedFor) {
  Keeper keeper(abstract_address());
  KeptDescriptors kept = KeptDescriptors::from_environment();
  constexpr int kMessages = 2000;  // more than any queue holds
  std::atomic<bool> refused = false;
  std::jthread sender([&] {
    for (int i = 0; i < kMessages && !refused; ++i) {
      refused = !kept.say(fmt::format("STATUS={}", i));
    }
  });
  for (int i = 0; i < kMessages; ++i) {
    std::optional<Keeper::Message> message;
    while (!message && !refused) message = keeper.receive();
    if (!message) FAIL() << "the sender was refused";
    EXPECT_EQ(message->text, fmt::format("STATUS={}", i));
  }
}

TEST_F(KeptDescriptorsTest, AKeeperThatTakesNothingIsGivenUp) {
  Keeper keeper(abstract_address());
  KeptDescriptors kept = KeptDescriptors::from_environment();
  Result<> said;
  for (int i = 0; i < 100'000 && said; ++i) said = kept.say("STATUS=1");
  ASSERT_FALSE(said);
  EXPECT_EQ(said.error().code(), StatusCode::kUnavailable);
}

TEST_F(KeptDescriptorsTest, WhatAPredecessorLeftIsTakenOnceAndInOrder) {
  EXPECT_TRUE(in_child({"zero", "one", "two"}, [] {
    setenv("LISTEN_FDNAMES", "b:a:b", 1);
    KeptDescriptors kept = KeptDescriptors::from_environment();
    EXPECT_THAT(kept.left(), ElementsAre("b", "a", "b"));
    EXPECT_FALSE(kept.take("c"));
    std::optional<File> first = kept.take("b");
    std::optional<File> second = kept.take("b");
    EXPECT_EQ(text_of(first->fd()), "zero");
    EXPECT_EQ(text_of(second->fd()), "two");
    EXPECT_TRUE(closed_on_exec(first->fd()));
    EXPECT_TRUE(closed_on_exec(4)) << "also what nobody took yet";
    EXPECT_FALSE(kept.take("b"));
    EXPECT_THAT(kept.left(), ElementsAre("a"));
    for (const char* name : kVariables) EXPECT_EQ(std::getenv(name), nullptr) << name;
    return !HasFailure();
  }));
}

TEST_F(KeptDescriptorsTest, WhatWasLeftToAnotherProcessIsNotTouched) {
  EXPECT_TRUE(in_child({"zero"}, [] {
    setenv("LISTEN_PID", std::to_string(getppid()).c_str(), 1);
    KeptDescriptors kept = KeptDescriptors::from_environment();
    EXPECT_THAT(kept.left(), IsEmpty());
    EXPECT_FALSE(closed_on_exec(3));
    for (const char* name : kVariables) EXPECT_EQ(std::getenv(name), nullptr) << name;
    return !HasFailure();
  }));
}

TEST_F(KeptDescriptorsTest, NamesMayBeMissing) {
  EXPECT_TRUE(in_child({"zero", "one"}, [] {
    KeptDescriptors kept = KeptDescriptors::from_environment();
    EXPECT_THAT(kept.left(), ElementsAre("unknown", "unknown"));
    return !HasFailure();
  }));
  EXPECT_TRUE(in_child({"zero", "one"}, [] {
    setenv("LISTEN_FDNAMES", "only", 1);
    KeptDescriptors kept = KeptDescriptors::from_environment();
    EXPECT_THAT(kept.left(), ElementsAre("only", ""));
    return !HasFailure();
  }));
}

TEST_F(KeptDescriptorsTest, AnEnvironmentThatLiesDoesNoHarm) {
  for (const char* count : {"2147483647", "-1", "x", "99999999999999999999", "1x", ""}) {
    EXPECT_TRUE(in_child({"zero"}, [count] {
      setenv("LISTEN_FDS", count, 1);
      setenv("LISTEN_FDNAMES", "a:b:c", 1);
      setenv("LEAT_ALIVE_FD", "12345", 1);
      KeptDescriptors kept = KeptDescriptors::from_environment();
      EXPECT_LE(kept.left().size(), 1u);
      return !HasFailure();
    })) << count;
  }
}

// A thread that hangs in the kernel keeps the descriptor table of a killed process open. A second
// process that shares the table does the same, and needs no hanging mount.
TEST_F(KeptDescriptorsTest, TheSignOfLifeEndsWithTheProcessWhoeverHasItsDescriptors) {
  int alive[2];
  int table[2];
  ASSERT_EQ(pipe2(alive, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(table, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
    setenv("LEAT_ALIVE_FD", std::to_string(alive[1]).c_str(), 1);
    const KeptDescriptors kept = KeptDescriptors::from_environment();
    if (std::getenv("LEAT_ALIVE_FD") != nullptr || fcntl(alive[1], F_GETFD) != -1) _exit(1);
    const long sharer = syscall(SYS_clone, CLONE_FILES, nullptr, nullptr, nullptr, nullptr);
    if (sharer > 0 && write(table[1], &sharer, sizeof sharer) != sizeof sharer) _exit(1);
    while (true) pause();
  }
  close(alive[1]);
  close(table[1]);
  long sharer = 0;
  ASSERT_EQ(read(table[0], &sharer, sizeof sharer), static_cast<ssize_t>(sizeof sharer));
  pollfd asked{alive[0], 0, 0};
  EXPECT_EQ(poll(&asked, 1, 0), 0) << "it lives";
  EXPECT_EQ(kill(child, SIGKILL), 0);
  EXPECT_EQ(poll(&asked, 1, 60'000), 1) << "it does not";
  pollfd shared{table[0], 0, 0};
  EXPECT_EQ(poll(&shared, 1, 0), 0) << "its descriptors are open still";
  EXPECT_EQ(kill(static_cast<pid_t>(sharer), SIGKILL), 0);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  close(alive[0]);
  close(table[0]);
}

TEST_F(KeptDescriptorsTest, TheSignOfLifeTakesNoSignals) {
  int alive[2];
  ASSERT_EQ(pipe2(alive, O_CLOEXEC), 0);
  EXPECT_TRUE(in_child({}, [&] {
    setenv("LEAT_ALIVE_FD", std::to_string(fcntl(alive[1], F_DUPFD, 50)).c_str(), 1);
    const KeptDescriptors kept = KeptDescriptors::from_environment();
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
