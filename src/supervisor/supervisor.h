// SPDX-License-Identifier: Apache-2.0
// The supervisor: a small process that keeps the daemon's file descriptors and starts the next
// daemon when one has died. So mounts, which depend on the descriptors, outlive the daemon.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "runtime/disk.h"

namespace leat {

// Exit status of a daemon that requests a takeover by the next one (EX_TEMPFAIL of sysexits.h).
// Valid only after READY=1; before, it is an ordinary failure.
inline constexpr int kExitTakeover = 75;

struct SupervisorOptions {
  // argv of the daemon and of this process, including [0].
  std::vector<std::string> daemon;
  std::vector<std::string> self;
  // Path of both programs. X_LEAT_NEXT=/path from a daemon before its takeover replaces it, once;
  // the new program passes its own path here.
  std::string executable;
  // Inherited only by the first daemon, under the same number. Closed here as soon as that has
  // started: the process that started the supervisor waits for its end of file. A supervisor that
  // took over from another ignores it, since the number may belong to another file. All daemons
  // have the same argv, so a daemon must ignore it if LEAT_RESTARTS is not 0.
  int ready_fd = -1;
  // Socket for the daemon's messages; empty: an abstract address. See FdStoreServer::open.
  std::string socket_path = {};
  // Held for the life of this process, also over an execve. The next program finds it among the
  // stored descriptors, as `lock_name`.
  File lock = {};
  std::string lock_name = "leat-lock";
  // Writes a line to the log.
  std::function<void(const std::string&)> log;
  // A death is quick if it comes before READY=1, or sooner than `healthy_after` after it. The next
  // daemon receives the requests that its predecessors did not reply to, and one of these may be
  // the cause. After this number of quick deaths in a row no further daemon starts.
  int restarts_max = 10;
  std::chrono::milliseconds healthy_after{100};
  // Backoff after the second quick death in a row; doubles up to `backoff_max`. The first one has
  // none.
  std::chrono::milliseconds backoff_first{100};
  std::chrono::milliseconds backoff_max{5'000};
  // Wait for the exit status of a daemon after its LEAT_ALIVE_FD was closed.
  std::chrono::milliseconds exit_timeout{1'000};
};

// Runs daemons one after the other until one ends by itself or no more are started. Returns the
// exit status for this process, which should end then. The process must have no other threads and
// no other purpose: this function takes over its signals, its children and the variables of the
// protocol.
//
// A daemon has these variables in addition to the environment of this process:
// - NOTIFY_SOCKET, LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES and LEAT_ALIVE_FD, for
//   FdStore::from_environment().
// - LEAT_RESTARTS, the number of daemons before it.
//
// A daemon leads a process group of its own, so that Ctrl-C of a terminal reaches it once. The
// supervisor forwards each SIGTERM, SIGINT, SIGHUP and SIGQUIT. While descriptors are stored, it
// waits for READY=1 first: only a daemon that has taken them over can end in order. Without a
// daemon it starts the next one for that.
//
// If this process has a NOTIFY_SOCKET of its own, as a systemd service has (Type=notify), it sends
// READY=1 with its first daemon. With the first forwarded signal it sends STOPPING=1. A program
// that is executed in its place does the same.
//
// A daemon counts as dead when it is reaped, or `exit_timeout` after its LEAT_ALIVE_FD was closed.
// A killed one may not be reapable: a thread may wait in the kernel for a reply on a FUSE
// connection. Only the next daemon can give that reply. Such a process still has all its
// descriptors, and the locks on them. Messages that it sent before its death are honoured. Then the
// first match applies.
// 1. kExitTakeover, or killed, after a forwarded signal, while descriptors are stored: the next
// daemon,
//    which gets SIGTERM.
// 2. Any other end after a forwarded signal: the end, with its exit status, or 128 + the number
//    of a signal that killed it; 0 for kExitTakeover.
// 3. Exit status 0: the end, with 0.
// 4. kExitTakeover after READY=1, or X_LEAT_HANDING_OVER=1 and an unknown status: the next daemon
// at
//    once. Before, this process executes the next executable in its own place and passes all to it.
// 5. No descriptor is stored, and no daemon ever sent READY=1: the end, with its exit status, or
//    128 + the number of the signal.
// 6. Quick deaths in a row reach restarts_max: the end, with 1.
// 7. Anything else: the next daemon, after a backoff if needed.
//
// At the end all stored descriptors are closed, so that no program waits for a reply that never
// comes.
int supervise(SupervisorOptions options);

}  // namespace leat
