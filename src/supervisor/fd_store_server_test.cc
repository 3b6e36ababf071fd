// SPDX-License-Identifier: Apache-2.0
#include "supervisor/fd_store_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <random>

#include "runtime/fd_store.h"

namespace leat {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

File memory_file(const std::string& text) {
  File file(memfd_create("kept", MFD_CLOEXEC));
  EXPECT_EQ(write(file.fd(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  return file;
}

std::string text_of(const File& file) {
  char text[256];
  const ssize_t n = pread(file.fd(), text, sizeof text, 0);
  return {text, n > 0 ? static_cast<size_t>(n) : 0};
}

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    mine = File(fds[0]);
    given = File(fds[1]);
  }
  // Returns whether all copies of `given` are closed.
  bool closed() const {
    pollfd asked{mine.fd(), 0, 0};
    return poll(&asked, 1, 0) == 1 && (asked.revents & POLLHUP) != 0;
  }
  File mine;
  File given;
};

class DescriptorStoreTest : public ::testing::Test {
 protected:
  void open(size_t descriptors_max) {
    store_ = FdStoreServer::open(descriptors_max, [this](const std::string& line) {
               logged_.push_back(line);
             }).value();
    setenv("NOTIFY_SOCKET", store_->address().c_str(), 1);
    fd_store_ = FdStore::from_environment();
  }
  DescriptorStoreTest() { open(FdStoreServer::kDescriptorsMax); }

  FdStoreServer::Notifications receive() { return store_->receive(getpid()); }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const StoredFd& one : store_->descriptors()) all.push_back(one.name);
    return all;
  }
  void keep(const std::string& name) { ASSERT_TRUE(fd_store_.store(name, memory_file(name).fd())); }

  // Sends the text unchanged, with these descriptors.
  void send(const std::string& text, const std::vector<int>& fds = {}) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    const std::string& address = store_->address();
    std::memcpy(name.sun_path + 1, address.data() + 1, address.size() - 1);
    iovec from{const_cast<char*>(text.data()), text.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(253 * sizeof(int))] = {};
    msghdr message{};
    message.msg_name = &name;
    message.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
    message.msg_iov = &from;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
    }
    const File socket_of_its_own(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(sendmsg(socket_of_its_own.fd(), &message, MSG_DONTWAIT),
              static_cast<ssize_t>(text.size()));
  }

  std::vector<std::string> logged_;
  std::optional<FdStoreServer> store_;
  FdStore fd_store_;
};

TEST_F(DescriptorStoreTest, NamesAreKeptInOrderAndRemovedTogether) {
  for (const char* name : {"b", "a", "b", "c"}) keep(name);
  receive();
  EXPECT_THAT(names(), ElementsAre("b", "a", "b", "c"));
  EXPECT_EQ(text_of(store_->descriptors()[1].file), "a");
  fd_store_.remove("b");
  fd_store_.remove("not there");
  receive();
  EXPECT_THAT(names(), ElementsAre("a", "c"));
  EXPECT_THAT(logged_, IsEmpty());
}

TEST_F(DescriptorStoreTest, WhatWasSaidIsPassedOn) {
  EXPECT_FALSE(receive().ready);
  send("STATUS=starts\nREADY=0\nREADY");
  FdStoreServer::Notifications received = receive();
  EXPECT_FALSE(received.ready);
  EXPECT_EQ(received.next, "");
  send("X_LEAT_NEXT=/first\nSTATUS=serves");
  send("READY=1\nX_LEAT_NEXT=/second\n");
  send("X_LEAT_NEXT=relative");
  send(std::string("X_LEAT_NEXT=/a\0b", 16));
  received = receive();
  EXPECT_TRUE(received.ready);
  EXPECT_EQ(received.next, "/second");
}

TEST_F(DescriptorStoreTest, ADeadSenderIsHeard) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(fd_store_.store("last", memory_file("words").fd()) && fd_store_.notify("READY=1") ? 0
                                                                                            : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(store_->receive(child).ready);
  ASSERT_THAT(names(), ElementsAre("last"));
  EXPECT_EQ(text_of(store_->descriptors()[0].file), "words");
}

TEST_F(DescriptorStoreTest, OthersAreNotHeard) {
  Pair pair;
  const pid_t child = fork();
  if (child == 0) {
    const bool sent = fd_store_.store("foreign", pair.given.fd()) && fd_store_.notify("READY=1") &&
                      fd_store_.notify("FDSTOREREMOVE=1\nFDNAME=own");
    _exit(sent ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  pair.given = File();
  keep("own");
  EXPECT_FALSE(pair.closed());
  EXPECT_FALSE(receive().ready);
  EXPECT_THAT(names(), ElementsAre("own"));
  EXPECT_TRUE(pair.closed()) << "what others sent is gone";
}

TEST_F(DescriptorStoreTest, NobodyIsHeardWhileThereIsNoSender) {
  for (pid_t nobody : {0, -1}) {
    keep("a");
    store_->receive(nobody);
  }
  receive();
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(DescriptorStoreTest, OneMessageMayBringSeveral) {
  File one = memory_file("one");
  File two = memory_file("two");
  send("FDSTORE=1\nFDNAME=both", {one.fd(), two.fd()});
  send("FDSTORE=1", {one.fd()});
  send("FDSTORE=1\nFDNAME=none");
  receive();
  EXPECT_THAT(names(), ElementsAre("both", "both", "stored"));
  EXPECT_EQ(text_of(store_->descriptors()[1].file), "two");
  const std::vector<int> most(253, one.fd());
  send("FDSTORE=1\nFDNAME=many", most);
  receive();
  EXPECT_EQ(names().size(), 3 + most.size());
}

TEST_F(DescriptorStoreTest, DescriptorsThatNobodyWantsKeptAreClosed) {
  Pair barrier;
  send("BARRIER=1", {barrier.given.fd()});
  barrier.given = File();
  EXPECT_FALSE(barrier.closed());
  receive();
  EXPECT_TRUE(barrier.closed());
}

TEST_F(DescriptorStoreTest, WhatCannotBeAMessageIsIgnored) {
  Pair pair;
  send("FDSTORE=1\nFDNAME=huge\nSTATUS=" + std::string(10'000, 'x'), {pair.given.fd()});
  send("FDSTORE=1\nFDNAME=a:b", {pair.given.fd()});
  send("FDSTORE=1\nFDNAME=", {pair.given.fd()});
  send("FDSTORE=1\nFDNAME=" + std::string(256, 'x'), {pair.given.fd()});
  send("", {pair.given.fd()});
  send("FDSTOREREMOVE=1");
  pair.given = File();
  receive();
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_TRUE(pair.closed());
  EXPECT_EQ(logged_.size(), 4u);
  keep("after");
  receive();
  EXPECT_THAT(names(), ElementsAre("after"));
}

TEST_F(DescriptorStoreTest, AnyBytesAreTaken) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 chance(seed);
  const std::vector<std::string> words = {
      "FDSTORE=1", "FDNAME=a", "FDSTOREREMOVE=1", "READY=1", "X_LEAT_NEXT=/x", "=", "\n", "FDNAME"};
  File file = memory_file("x");
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (unsigned parts = chance() % 6; parts > 0; --parts) {
      text += words[chance() % words.size()];
      if (chance() % 2 == 0) text += '\n';
      if (chance() % 4 == 0) text += static_cast<char>(chance() % 256);
    }
    send(text, chance() % 2 == 0 ? std::vector<int>{file.fd()} : std::vector<int>{});
    receive();
  }
  for (const std::string& name : names()) EXPECT_TRUE(valid_fd_name(name)) << name;
}

TEST_F(DescriptorStoreTest, DeadDescriptorsGo) {
  Pair pair;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  File reader(ends[0]);
  File writer(ends[1]);
  ASSERT_TRUE(fd_store_.store("socket", pair.given.fd()));
  ASSERT_TRUE(fd_store_.store("pipe", writer.fd()));
  keep("memory");
  receive();
  store_->close_hung_up();
  EXPECT_THAT(names(), ElementsAre("socket", "pipe", "memory"));
  pair.mine = File();
  store_->close_hung_up();
  EXPECT_THAT(names(), ElementsAre("pipe", "memory"));
  reader = File();
  store_->close_hung_up();
  EXPECT_THAT(names(), ElementsAre("memory"));
}

TEST_F(DescriptorStoreTest, NoMoreThanItsBoundAreKept) {
  open(2);
  Pair first;
  Pair second;
  Pair third;
  ASSERT_TRUE(fd_store_.store("1", first.given.fd()));
  ASSERT_TRUE(fd_store_.store("2", second.given.fd()));
  ASSERT_TRUE(fd_store_.store("3", third.given.fd()));
  third.given = File();
  receive();
  EXPECT_THAT(names(), ElementsAre("1", "2"));
  EXPECT_TRUE(third.closed());
  EXPECT_THAT(logged_, ElementsAre(HasSubstr("'3' are not stored: 2 of at most 2 are")));
  first.mine = File();
  keep("4");
  receive();
  EXPECT_THAT(names(), ElementsAre("2", "4")) << "a dead one makes room";
  fd_store_.remove("2");
  keep("5");
  receive();
  EXPECT_THAT(names(), ElementsAre("4", "5"));
}

TEST_F(DescriptorStoreTest, TheNamesFitIntoAnEnvironment) {
  const std::string longest(255, 'x');
  const size_t most = FdStoreServer::kNameBytesMax / 256;
  for (size_t i = 0; i < most; ++i) ASSERT_TRUE(store_->add(longest, memory_file("")));
  EXPECT_FALSE(store_->add("y", memory_file("")));
  fd_store_.remove(longest);
  receive();
  for (size_t i = 0; i < most; ++i) ASSERT_TRUE(store_->add(longest, memory_file("")));
}

}  // namespace
}  // namespace leat
