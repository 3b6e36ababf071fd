// SPDX-License-Identifier: Apache-2.0
// The supervisor: a small process that keeps the daemon's descriptors and starts the next daemon
// when one has died, so that what stands on the descriptors, mounts above all, outlives it.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "runtime/disk.h"

namespace leat {

// Exit status of a daemon that wants the next one to take over (EX_TEMPFAIL of sysexits.h). Only
// after READY=1; before, it is a failure as any other.
inline constexpr int kHandOver = 75;

struct SupervisorOptions {
  // argv of the daemon and of this process, [0] included.
  std::vector<std::string> daemon;
  std::vector<std::string> self;
  // Path of both. An X_LEAT_NEXT=/path that the daemon said before it handed over goes before it,
  // once: from then on it is what the new program gives here.
  std::string executable;
  // Inherited by the first daemon only, under the same number, and closed here as soon as that has
  // been started: whoever started all this waits for its end of file. Ignored by a supervisor that
  // took over from another, where the number may be that of something else; so must a daemon ignore
  // it whose LEAT_RESTARTS is not 0, since all have the same argv.
  int ready_fd = -1;
  // Where the daemon's messages come; empty: at an abstract address. See DescriptorStore::open.
  std::string socket_path = {};
  // Held as long as this process lives, also when it executes another program; that finds it among
  // what is kept, as `lock_name`.
  File lock = {};
  std::string lock_name = "leat-lock";
  // A line for the log.
  std::function<void(const std::string&)> say;
  // A daemon that died before it was ready, or sooner than `steady` after that, died quickly: what
  // its predecessors had not answered comes again at once, and it may be that of which they died.
  // After so many quick deaths in a row no other is started.
  int restarts_max = 10;
  std::chrono::milliseconds steady{100};
  // Before the start that follows the second quick death in a row; doubles up to `pause_max`. The
  // first is followed at once.
  std::chrono::milliseconds pause_first{100};
  std::chrono::milliseconds pause_max{5'000};
  // For the exit status of a daemon whose sign of life has ended.
  std::chrono::milliseconds end_patience{1'000};
};

// Runs the daemon and the next ones until one ends by itself or no more are started; returns the
// exit status for this process, which should end then. For a process that has no other threads and
// does nothing else: it takes the signals, the children and the variables of the protocol for
// itself.
//
// A daemon has, beside the environment of this process: NOTIFY_SOCKET, LISTEN_PID, LISTEN_FDS,
// LISTEN_FDNAMES and LEAT_ALIVE_FD, all for KeptDescriptors::from_environment(), and LEAT_RESTARTS,
// the number of daemons before it. It leads a process group of its own, so that a terminal's Ctrl-C
// reaches it once: SIGTERM, SIGINT, SIGHUP and SIGQUIT are sent on each time that they come. Where
// something is kept, not before READY=1, since only a daemon that has taken it over can end it in
// order; and where there is no daemon, the next one is started for that.
//
// Where this process has a NOTIFY_SOCKET of its own, as a service of systemd's (Type=notify), it
// says there READY=1 with its first daemon and STOPPING=1 with the first signal that it sends on.
// What is executed in its place has the same.
//
// A daemon is dead when it is reaped, or `end_patience` after its sign of life ended: one that was
// killed may not be reaped while a thread of it waits in the kernel for an answer on a FUSE
// connection, which only the next daemon can give. It still has all its descriptors then, with the
// locks that stand on them. What it sent before its death is honoured. Then, whichever is first:
//   a signal of the above was sent on    the end: its exit status, 128 + number of a signal that
//                                        killed it; 0 for kHandOver
//   exit status 0                        the end: 0
//   kHandOver, or killed, after such a signal, while something is kept
//                                        the next daemon, which gets the signal
//   kHandOver after READY=1, or X_LEAT_HANDING_OVER=1 and a status that nobody knows
//                                        the next daemon at once; before, this process executes the
//                                        next executable in its own place and hands all to it
//   no descriptor is kept, and none ever said READY=1
//                                        the end: its exit status, or 128 + number of the signal
//   restarts_max quick deaths in a row   the end: 1
//   anything else                        the next daemon, after a pause if need be
// At the end all
// that was kept is closed, so that nobody waits for an answer that does not come.
int supervise(SupervisorOptions options);

}  // namespace leat
