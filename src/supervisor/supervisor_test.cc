// SPDX-License-Identifier: Apache-2.0
#include "supervisor/supervisor.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "runtime/fd_store.h"
#include "supervisor/supervised_test.h"

namespace leat {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Supervisor, DescriptorsOutliveAKill) {
  Supervised supervised;
  SupervisedDaemon first = supervised.daemon();
  EXPECT_EQ(first.found("restarts"), "0");
  EXPECT_EQ(first.found("left"), "");
  first.command("keep mount one");
  first.command("keep table two");
  first.command("keep mount three");
  first.ready();
  first.killed();

  SupervisedDaemon second = supervised.daemon();
  EXPECT_EQ(second.found("restarts"), "1");
  EXPECT_EQ(second.found("left"), "mount:table:mount");
  EXPECT_NE(second.pid(), first.pid());
  EXPECT_EQ(second.command("add mount +more"), "one+more");
  EXPECT_EQ(second.command("add mount +more"), "three+more");
  EXPECT_EQ(second.command("drop mount"), "ok");
  EXPECT_EQ(second.command("keep later four"), "ok");
  second.killed();

  SupervisedDaemon third = supervised.daemon();
  EXPECT_EQ(third.found("left"), "table:later");
  third.end("exit 0");
  EXPECT_EQ(supervised.wait(), 0);
}

TEST(Supervisor, StoredDescriptorKeepsItsContent) {
  Supervised supervised;
  SupervisedDaemon first = supervised.daemon();
  first.command("keep table a");
  first.end("die");
  SupervisedDaemon second = supervised.daemon();
  EXPECT_EQ(second.command("add table b"), "ab");
  second.end("die");
  EXPECT_EQ(supervised.daemon().command("add table c"), "abc");
}

TEST(Supervisor, WhatADeadDaemonHadSentIsHonoured) {
  Supervised supervised;
  SupervisedDaemon first = supervised.daemon();
  first.command("keep old 1");
  kill(supervised.pid(), SIGSTOP);
  first.command("drop old");
  first.command("keep new 2");
  first.ready();
  first.end("die");
  kill(supervised.pid(), SIGCONT);
  SupervisedDaemon second = supervised.daemon();
  EXPECT_EQ(second.found("left"), "new");
  EXPECT_EQ(second.command("add new 3"), "23");
}

TEST(Supervisor, AnOrderlyEndIsTheEnd) {
  Supervised supervised;
  WatchedFifo fifo(supervised.path("fifo"));
  SupervisedDaemon daemon = supervised.daemon();
  daemon.ready();
  daemon.command("keep-path fifo " + fifo.path());
  EXPECT_FALSE(fifo.closed());
  daemon.end("exit 0");
  EXPECT_EQ(supervised.wait(), 0);
  EXPECT_TRUE(fifo.closed());
  EXPECT_FALSE(supervised.another());
}

TEST(Supervisor, AnEndBeforeItWasReadyIsTheEnd) {
  for (const auto& [how, status] : {std::pair{"exit 7", 7}, {"die", 128 + SIGKILL}}) {
    Supervised supervised;
    supervised.daemon().end(how);
    EXPECT_EQ(supervised.wait(), status);
    EXPECT_THAT(supervised.log(), HasSubstr("before it was ready"));
  }
}

TEST(Supervisor, ADaemonThatCannotBeExecutedIsNamed) {
  Supervised supervised({.executable = "/nowhere/leat"});
  EXPECT_EQ(supervised.wait(), 127);
  EXPECT_THAT(supervised.log(), HasSubstr("cannot execute /nowhere/leat: No such file"));
}

TEST(Supervisor, ReadyDaemonRestartsWithoutDescriptors) {
  Supervised supervised;
  SupervisedDaemon first = supervised.daemon();
  first.ready();
  first.end("exit 1");
  SupervisedDaemon second = supervised.daemon();
  EXPECT_EQ(second.found("left"), "");
  // Also before it is ready.
  second.end("exit 1");
  EXPECT_EQ(supervised.daemon().found("restarts"), "2");
}

TEST(Supervisor, ACrashLoopIsGivenUpAndEverythingClosed) {
  Supervised supervised({.restarts_max = 3});
  WatchedFifo fifo(supervised.path("fifo"));
  {
    SupervisedDaemon first = supervised.daemon();
    first.command("keep-path fifo " + fifo.path());
    first.end("die");
  }
  supervised.daemon().end("exit 9");
  SupervisedDaemon last = supervised.daemon();
  EXPECT_EQ(last.found("restarts"), "2");
  EXPECT_FALSE(fifo.closed());
  last.end("exit 9");
  EXPECT_EQ(supervised.wait(), 1);
  EXPECT_TRUE(fifo.closed());
  EXPECT_FALSE(supervised.another());
  EXPECT_THAT(supervised.log(), HasSubstr("ended with 9, as 2 before it soon after its start"));
}

TEST(Supervisor, DeathsAfterASteadyLifeAreNotCounted) {
  Supervised supervised({.healthy_after_ms = 0, .restarts_max = 2, .backoff_first_ms = 3'600'000});
  for (int life = 0; life < 5; ++life) {
    SupervisedDaemon daemon = supervised.daemon();
    EXPECT_EQ(daemon.found("restarts"), std::to_string(life));
    daemon.ready();
    daemon.end("die");
  }
  EXPECT_EQ(supervised.daemon().found("restarts"), "5");
}

TEST(Supervisor, PausesGrow) {
  Supervised supervised;
  supervised.daemon().command("keep a a");
  for (int life = 0; life < 3; ++life) supervised.daemon().end("die");
  supervised.wait_for("in 0 ms");
  supervised.wait_for("in 1 ms");
  supervised.wait_for("in 2 ms");
  supervised.wait_for("in 4 ms");
}

TEST(Supervisor, SignalsAreSentOnOnceEach) {
  Supervised supervised;
  SupervisedDaemon daemon = supervised.daemon();
  for (int number : {SIGTERM, SIGINT, SIGHUP, SIGTERM}) {
    kill(supervised.pid(), number);
    EXPECT_EQ(daemon.next(), "signal " + std::to_string(number));
  }
  EXPECT_EQ(daemon.command("ping"), "pong");
  // A terminal sends Ctrl-C to the process group.
  EXPECT_EQ(getpgid(supervised.pid()), supervised.pid());
  EXPECT_EQ(getpgid(daemon.pid()), daemon.pid());
  kill(-supervised.pid(), SIGINT);
  EXPECT_EQ(daemon.next(), "signal 2");
  EXPECT_EQ(daemon.command("ping"), "pong");
  daemon.end("exit 0");
  EXPECT_EQ(supervised.wait(), 0);
}

TEST(Supervisor, WhatWasToldToEndIsNotStartedAgain) {
  for (const auto& [how, status] :
       {std::pair{"exit 143", 143}, {"exit 75", 0}, {"die", 128 + SIGKILL}}) {
    Supervised supervised;
    SupervisedDaemon daemon = supervised.daemon();
    daemon.ready();
    kill(supervised.pid(), SIGTERM);
    EXPECT_EQ(daemon.next(), "signal 15");
    daemon.end(how);
    EXPECT_EQ(supervised.wait(), status);
    EXPECT_FALSE(supervised.another());
  }
}

TEST(Supervisor, WhatIsKeptIsForADaemonToEnd) {
  for (const char* how : {"exit 75", "die"}) {
    Supervised supervised;
    {
      SupervisedDaemon daemon = supervised.daemon();
      daemon.command("keep a a");
      daemon.ready();
      kill(supervised.pid(), SIGTERM);
      EXPECT_EQ(daemon.next(), "signal 15");
      daemon.end(how);
    }
    SupervisedDaemon next = supervised.daemon();
    EXPECT_EQ(next.found("left"), "a");
    next.ready();
    EXPECT_EQ(next.next(), "signal 15");
    next.end("exit 0");
    EXPECT_EQ(supervised.wait(), 0);
    EXPECT_FALSE(supervised.another());
  }
}

TEST(Supervisor, ASignalInAPauseIsTheNextOnesAtOnce) {
  Supervised supervised({.backoff_first_ms = 3'600'000});
  WatchedFifo fifo(supervised.path("fifo"));
  {
    SupervisedDaemon first = supervised.daemon();
    first.command("keep-path fifo " + fifo.path());
    first.end("die");
  }
  supervised.daemon().end("die");
  supervised.wait_for("in 5000 ms");  // the longest pause
  kill(supervised.pid(), SIGTERM);
  SupervisedDaemon third = supervised.daemon();
  third.ready();
  EXPECT_EQ(third.next(), "signal 15");
  third.end("exit 0");
  EXPECT_EQ(supervised.wait(), 0);
  EXPECT_TRUE(fifo.closed());
}

TEST(Supervisor, SignalInBackoffEndsWithoutDescriptors) {
  Supervised supervised({.backoff_first_ms = 3'600'000, .backoff_max_ms = 3'600'000});
  {
    SupervisedDaemon first = supervised.daemon();
    first.ready();
    first.end("die");
  }
  supervised.daemon().end("die");
  supervised.wait_for("in 3600000 ms");
  kill(supervised.pid(), SIGTERM);
  EXPECT_EQ(supervised.wait(), 0);
}

TEST(Supervisor, AHandOverWhoseStatusNobodyKnowsIsOne) {
  Supervised supervised({.exit_timeout_ms = 1, .may_close_alive = true});
  const std::string next = supervised.path("next");
  std::filesystem::create_symlink(Supervised::program(), next);
  SupervisedDaemon first = supervised.daemon();
  first.command("keep a 1");
  first.ready();
  first.command("say X_LEAT_NEXT=" + next);
  first.command("say X_LEAT_HANDING_OVER=1");
  first.command("close-alive");
  SupervisedDaemon second = supervised.daemon();
  EXPECT_EQ(second.found("executable"), next);
  EXPECT_EQ(second.found("left"), "a");
  first.end("die");
}

TEST(Supervisor, TakeoverExecutesNextSupervisorInPlace) {
  Supervised supervised({.restarts_max = 1});
  const std::string next = supervised.path("next");
  std::filesystem::create_symlink(Supervised::program(), next);
  WatchedFifo fifo(supervised.path("fifo"));
  {
    SupervisedDaemon first = supervised.daemon();
    EXPECT_EQ(first.found("executable"), Supervised::program());
    first.command("keep table a");
    first.command("keep-path fifo " + fifo.path());
    first.command("keep table b");
    first.ready();
    first.command("say X_LEAT_NEXT=" + next);
    first.end("exit 75");
  }
  SupervisedDaemon second = supervised.daemon();
  EXPECT_THAT(supervised.log(), HasSubstr("this is the supervisor of " + next + "\n"));
  EXPECT_EQ(second.found("executable"), next);
  EXPECT_EQ(second.found("restarts"), "1");
  EXPECT_EQ(second.found("left"), "table:fifo:table");
  EXPECT_EQ(second.command("add table +"), "a+");
  EXPECT_EQ(second.command("add table +"), "b+");
  // 0, 1, 2, the kept ones, and LEAT_ALIVE_FD.
  EXPECT_EQ(second.found("descriptors"), "0 1 2 3 4 5 6");
  second.ready();
  second.end("exit 75");

  // Without X_LEAT_NEXT the same program follows.
  SupervisedDaemon third = supervised.daemon();
  EXPECT_EQ(third.found("executable"), next);
  EXPECT_EQ(third.found("restarts"), "2");
  EXPECT_EQ(third.found("left"), "table:fifo:table");
  third.ready();
  kill(supervised.pid(), SIGTERM);
  EXPECT_EQ(third.next(), "signal 15");
  EXPECT_FALSE(fifo.closed());
  third.end("exit 0");
  EXPECT_EQ(supervised.wait(), 0);
  EXPECT_TRUE(fifo.closed());
}

// The socket of a service manager in the test.
class Manager {
 public:
  Manager() : socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    // Abstract, with a name from the kernel.
    EXPECT_EQ(bind(socket_.fd(), reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)), 0);
    socklen_t size = sizeof address;
    EXPECT_EQ(getsockname(socket_.fd(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = "@" + std::string(address.sun_path + 1, size - sizeof(sa_family_t) - 1);
  }
  const std::string& address() const { return address_; }
  // Returns the next message; waits up to a minute.
  std::string next() {
    pollfd asked{socket_.fd(), POLLIN, 0};
    EXPECT_EQ(poll(&asked, 1, 60'000), 1) << "nothing was said";
    return now();
  }
  // Returns a pending message; empty if there is none.
  std::string now() {
    char text[4096];
    const ssize_t n = recv(socket_.fd(), text, sizeof text, MSG_DONTWAIT);
    return {text, n > 0 ? static_cast<size_t>(n) : 0};
  }

 private:
  File socket_;
  std::string address_;
};

TEST(Supervisor, ServiceManagerIsNotifiedOfStartAndEnd) {
  Manager manager;
  Supervised supervised({.manager = manager.address()});
  SupervisedDaemon first = supervised.daemon();
  EXPECT_THAT(first.found("notify"), Not(manager.address()));
  EXPECT_EQ(manager.now(), "");
  first.ready();
  EXPECT_EQ(manager.next(), "READY=1");
  first.end("die");
  SupervisedDaemon second = supervised.daemon();
  second.ready();
  second.end("exit 75");
  // Another program, in the same process.
  SupervisedDaemon third = supervised.daemon();
  third.ready();
  EXPECT_EQ(third.command("ping"), "pong");
  EXPECT_EQ(manager.now(), "");
  kill(supervised.pid(), SIGTERM);
  EXPECT_EQ(third.next(), "signal 15");
  EXPECT_EQ(manager.next(), "STOPPING=1");
  third.end("exit 0");
  EXPECT_EQ(supervised.wait(), 0);
  EXPECT_EQ(manager.now(), "");
}

TEST(Supervisor, ReadyDaemonRestartsAfterTakeover) {
  Supervised supervised;
  SupervisedDaemon first = supervised.daemon();
  first.ready();
  first.end("exit 75");
  supervised.daemon().end("die");
  EXPECT_EQ(supervised.daemon().found("restarts"), "2");
}

TEST(Supervisor, FailedExecuteOfSuccessorChangesNothing) {
  Supervised supervised;
  SupervisedDaemon first = supervised.daemon();
  first.command("keep a 1");
  first.command("keep b 2");
  first.command("keep c 3");
  first.command("keep d 4");
  first.ready();
  first.command("say X_LEAT_NEXT=/nowhere/leat");
  first.end("exit 75");
  SupervisedDaemon second = supervised.daemon();
  EXPECT_THAT(supervised.log(), HasSubstr("cannot execute /nowhere/leat"));
  EXPECT_EQ(second.found("executable"), Supervised::program());
  EXPECT_EQ(second.found("left"), "a:b:c:d");
  EXPECT_EQ(second.found("descriptors"), "0 1 2 3 4 5 6 7");
  second.command("drop b");
  second.killed();
  SupervisedDaemon third = supervised.daemon();
  EXPECT_EQ(third.found("left"), "a:c:d");
  EXPECT_EQ(third.command("add d +"), "4+");
  third.ready();
  kill(supervised.pid(), SIGHUP);
  EXPECT_EQ(third.next(), "signal 1");
}

TEST(Supervisor, AHandOverByWhatWasNeverReadyIsAFailure) {
  Supervised supervised;
  supervised.daemon().end("exit 75");
  EXPECT_EQ(supervised.wait(), 75);
}

TEST(Supervisor, ChildrenOfADeadDaemonHoldUpNothing) {
  for (const char* mode : {"bare", "heir"}) {
    SCOPED_TRACE(mode);
    Supervised supervised;
    SupervisedDaemon first = supervised.daemon();
    first.command("keep a a");
    const pid_t orphan = std::stoi(first.command(std::string("orphan ") + mode));
    // The orphan holds the connection as well.
    EXPECT_EQ(kill(first.pid(), SIGKILL), 0);
    EXPECT_EQ(supervised.daemon().found("left"), "a");
    EXPECT_EQ(kill(orphan, SIGKILL), 0) << "it lived on";
  }
}

TEST(Supervisor, HungDaemonGetsASuccessor) {
  Supervised supervised({.exit_timeout_ms = 1, .may_close_alive = true});
  SupervisedDaemon first = supervised.daemon();
  first.command("keep a 1");
  first.command("close-alive");
  SupervisedDaemon second = supervised.daemon();
  EXPECT_EQ(second.found("left"), "a");
  EXPECT_THAT(supervised.log(), HasSubstr("was killed and does not end"));
  EXPECT_EQ(first.command("ping"), "pong");
  EXPECT_EQ(first.command("drop a"), "ok");
  EXPECT_EQ(first.command("keep b 2"), "ok");
  second.ready();
  kill(supervised.pid(), SIGTERM);
  EXPECT_EQ(second.next(), "signal 15");
  EXPECT_EQ(first.command("ping"), "pong") << "it got no signal";
  first.end("die");
  supervised.wait_for("at last");
  EXPECT_EQ(second.command("ping"), "pong");
}

TEST(Supervisor, PredecessorMessagesAreIgnored) {
  Supervised supervised({.exit_timeout_ms = 1, .may_close_alive = true});
  SupervisedDaemon first = supervised.daemon();
  first.command("keep a 1");
  first.command("close-alive");
  SupervisedDaemon second = supervised.daemon();
  first.command("drop a");
  first.command("keep b 2");
  second.command("keep c 3");
  second.end("die");
  EXPECT_EQ(supervised.daemon().found("left"), "a:c");
}

TEST(Supervisor, AStatusThatComesInTimeCounts) {
  Supervised supervised({.may_close_alive = true});
  SupervisedDaemon daemon = supervised.daemon();
  daemon.command("keep a 1");
  daemon.ready();
  daemon.command("close-alive");
  daemon.end("exit 0");
  EXPECT_EQ(supervised.wait(), 0);
}

TEST(Supervisor, DeadDescriptorsAreNotHandedOn) {
  Supervised supervised;
  WatchedFifo fifo(supervised.path("fifo"));
  SupervisedDaemon first = supervised.daemon();
  first.command("keep-path fifo " + fifo.path());
  first.command("keep a a");
  first.killed();
  SupervisedDaemon second = supervised.daemon();
  EXPECT_EQ(second.found("left"), "fifo:a");
  fifo.stop_watching();
  second.killed();
  EXPECT_EQ(supervised.daemon().found("left"), "a");
}

TEST(Supervisor, OthersCannotChangeWhatIsKept) {
  Supervised supervised;
  SupervisedDaemon first = supervised.daemon();
  first.command("keep a a");
  setenv("NOTIFY_SOCKET", first.found("notify").c_str(), 1);
  FdStore stranger = FdStore::from_environment();
  EXPECT_TRUE(stranger.store("b", STDERR_FILENO));
  EXPECT_TRUE(stranger.notify("READY=1\nX_LEAT_NEXT=/nowhere/leat"));
  stranger.remove("a");
  first.end("die");
  EXPECT_EQ(supervised.daemon().found("left"), "a");
}

TEST(Supervisor, TheFirstDaemonReportsToWhoeverStartedAll) {
  for (int number : {3, 5}) {
    Supervised supervised({.ready_fd = number});
    SupervisedDaemon first = supervised.daemon();
    EXPECT_EQ(first.found("descriptors"), fmt::format("0 1 2 {} {}", number, number + 1));
    first.command("keep a a");
    first.command("report " + std::to_string(number));
    char text[8];
    EXPECT_EQ(read(supervised.ready(), text, sizeof text), 2);
    EXPECT_EQ(read(supervised.ready(), text, sizeof text), 0) << "nobody else has it";
    first.killed();
    SupervisedDaemon second = supervised.daemon();
    EXPECT_EQ(second.found("descriptors"), "0 1 2 3 4");
    EXPECT_EQ(second.found("alive"), "4");
  }
}

TEST(Supervisor, ADaemonStartsWithNothingOfItsStarter) {
  Supervised supervised;
  for (int life = 0; life < 2; ++life) {
    SupervisedDaemon daemon = supervised.daemon();
    EXPECT_EQ(daemon.found("descriptors"), life == 0 ? "0 1 2 3" : "0 1 2 3 4");
    EXPECT_EQ(daemon.found("blocked"), "0000000000000000");
    // Signals 32 and 33 belong to the C library.
    EXPECT_EQ(std::stoull(daemon.found("ignored"), nullptr, 16) & ~0x180000000ull, 0u);
    if (life == 0) daemon.command("keep a a");
    daemon.killed();
  }
}

TEST(Supervisor, AStoppedDaemonIsNotDead) {
  Supervised supervised({.exit_timeout_ms = 1});
  SupervisedDaemon daemon = supervised.daemon();
  daemon.command("keep a a");
  daemon.ready();
  kill(daemon.pid(), SIGSTOP);
  kill(supervised.pid(), SIGTERM);  // handled after the daemon's stop
  kill(daemon.pid(), SIGCONT);
  EXPECT_EQ(daemon.next(), "signal 15");
  EXPECT_EQ(daemon.command("ping"), "pong");
  EXPECT_FALSE(supervised.another());
}

}  // namespace
}  // namespace leat
