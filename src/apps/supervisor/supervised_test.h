// SPDX-License-Identifier: Apache-2.0
// A supervisor that runs as a process of its own, over daemons that do what a test tells them. Both
// are this test program, executed once more as one test of it; every daemon says by a socket what
// it found when it was started, and then takes commands.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "runtime/disk.h"

namespace leat {

// How the supervisor is started.
struct SupervisedOptions {
  int steady_ms = 3'600'000;  // whatever dies, dies quickly
  int restarts_max = 5;
  int pause_first_ms = 1;
  int pause_max_ms = 0;          // 0: the supervisor's own
  int end_patience_ms = 60'000;  // as long as it takes
  std::string executable{};      // none: the program of the test
  int ready_fd = -1;             // the write end of Supervised::ready()
  std::string manager{};         // its NOTIFY_SOCKET; none: it is nobody's service
  bool may_close_alive = false;  // the daemons take the command `close-alive`
};

// The test's side of one daemon.
class SupervisedDaemon {
 public:
  explicit SupervisedDaemon(File connection);

  // What it found, and what it was: "pid", "restarts", "left" (names, ':' between them), "notify"
  // (its NOTIFY_SOCKET), "executable", "descriptors" (numbers), "blocked" and "ignored" (signals),
  // "alive" (LEAT_ALIVE_FD). Empty where there is no such thing.
  const std::string& found(const std::string& what) { return found_[what]; }
  pid_t pid() { return std::stoi(found("pid")); }

  // Commands, each with its answer:
  //   keep NAME TEXT     a memfd that holds TEXT is kept
  //   keep-path NAME P   the file P, opened to be written, is kept and closed
  //   add NAME TEXT      what was left under NAME gets TEXT at its end → its text
  //   drop NAME          …
  //   say TEXT           …
  //   orphan MODE        leaves a child; MODE is `bare` (it holds no descriptor) or `heir` (it
  //                      holds all) → its pid
  //   close-alive        closes LEAT_ALIVE_FD, as if all had been closed
  //   report FD          writes "{}" to FD and closes it
  //   ping               → pong
  std::string command(const std::string& text);
  void ready() { command("say READY=1"); }
  // And ends: `exit N` or `die` (by SIGKILL). Returns when its descriptors are closed.
  void end(const std::string& how);
  void killed();
  // What it says by itself: "signal N" for each SIGTERM, SIGINT and SIGHUP.
  std::string next();

 private:
  void send(const std::string& text);
  File connection_;
  std::map<std::string, std::string> found_;
};

class Supervised {
 public:
  explicit Supervised(const SupervisedOptions& options = {});
  ~Supervised();
  Supervised(const Supervised&) = delete;

  pid_t pid() const { return pid_; }
  // The daemon that is started next.
  SupervisedDaemon daemon();
  // Whether one has been started that daemon() did not give yet.
  bool another() const;
  // When it has ended: its exit status, or 128 + the signal's number.
  int wait();

  // What the supervisor said.
  std::string log() const;
  // Until it says that, `times` times in all.
  void wait_for(const std::string& text, int times = 1) const;

  // The read end of a pipe whose write end is `ready_fd` of the supervisor only.
  int ready() const { return ready_.fd(); }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  // Of this test program.
  static std::string program();

 private:
  void spawn(const SupervisedOptions& options);

  std::string directory_;
  File listener_;
  File ready_;
  pid_t pid_ = -1;
};

// A FIFO: daemons keep its write end, and the test sees when the last of these is closed.
class WatchedFifo {
 public:
  explicit WatchedFifo(std::string path);
  const std::string& path() const { return path_; }
  bool closed() const;  // now
  void wait_until_closed() const;
  void stop_watching() { reader_ = File(); }

 private:
  std::string path_;
  File reader_;
};

}  // namespace leat
