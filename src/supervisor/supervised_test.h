// SPDX-License-Identifier: Apache-2.0
// A supervisor in a process of its own, with daemons that a test controls. Both execute this test
// program again, as one of its tests. Every daemon reports its initial state over a socket, and
// then accepts commands.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "runtime/disk.h"

namespace leat {

// Options of the supervisor's start.
struct SupervisedOptions {
  int healthy_after_ms = 3'600'000;  // every death counts as quick
  int restarts_max = 5;
  int backoff_first_ms = 1;
  int backoff_max_ms = 0;        // 0: the supervisor's default
  int exit_timeout_ms = 60'000;  // practically unlimited
  std::string executable{};      // empty: the program of the test
  int ready_fd = -1;             // the write end of Supervised::ready()
  std::string manager{};         // its NOTIFY_SOCKET; empty: not a service
  bool may_close_alive = false;  // the daemons accept the command `close-alive`
};

// The test's side of one daemon.
class SupervisedDaemon {
 public:
  explicit SupervisedDaemon(File connection);

  // Returns a value that the daemon reported at its start: "pid", "restarts", "left" (names,
  // separated by ':'), "notify" (its NOTIFY_SOCKET), "executable", "descriptors" (numbers),
  // "blocked" and "ignored" (signals), "alive" (LEAT_ALIVE_FD). Empty if it has none.
  const std::string& found(const std::string& what) { return found_[what]; }
  pid_t pid() { return std::stoi(found("pid")); }

  // Sends a command and returns its reply. Commands:
  //   `keep NAME TEXT`     Keeps a memfd with TEXT.
  //   `keep-path NAME P`   Opens the file P for writing, keeps it and closes it.
  //   `add NAME TEXT`      Appends TEXT to the descriptor left under NAME → its text.
  //   `drop NAME`          …
  //   `say TEXT`           …
  //   `orphan MODE`        Leaves a child; MODE is `bare` (it holds no descriptor) or `heir` (it
  //                        holds all) → its pid.
  //   `close-alive`        Closes LEAT_ALIVE_FD, as if all had been closed.
  //   `report FD`          Writes "{}" to FD and closes it.
  //   `ping`               → pong
  std::string command(const std::string& text);
  void ready() { command("say READY=1"); }
  // Ends the daemon: `exit N` or `die` (by SIGKILL). Returns when its descriptors are closed.
  void end(const std::string& how);
  void killed();
  // Returns the next spontaneous message: "signal N" for each SIGTERM, SIGINT and SIGHUP.
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
  // Returns the daemon that starts next.
  SupervisedDaemon daemon();
  // Returns whether a daemon has started that daemon() has not returned yet.
  bool another() const;
  // Waits for its end; returns its exit status, or 128 + the signal's number.
  int wait();

  // Returns the supervisor's log.
  std::string log() const;
  // Waits until the log contains `text`, `times` times in total.
  void wait_for(const std::string& text, int times = 1) const;

  // The read end of a pipe; only the supervisor has the write end, as its `ready_fd`.
  int ready() const { return ready_.fd(); }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  // Path of this test program.
  static std::string program();

 private:
  void spawn(const SupervisedOptions& options);

  std::string directory_;
  File listener_;
  File ready_;
  pid_t pid_ = -1;
};

// A FIFO: daemons hold its write end, and the test sees when the last one is closed.
class WatchedFifo {
 public:
  explicit WatchedFifo(std::string path);
  const std::string& path() const { return path_; }
  bool closed() const;  // at this moment
  void wait_until_closed() const;
  void stop_watching() { reader_ = File(); }

 private:
  std::string path_;
  File reader_;
};

}  // namespace leat
