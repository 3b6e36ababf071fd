// SPDX-License-Identifier: Apache-2.0
// KeptDescriptors: descriptors that outlive this process. Whoever started it, a supervisor of ours
// or systemd, keeps copies of them and gives them to the process that it starts next, by the
// protocol of sd_notify(3) and sd_listen_fds(3).
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "runtime/disk.h"

namespace leat {

// What may name a kept descriptor: 1 to 255 printable ASCII characters, none of them a colon.
bool valid_descriptor_name(std::string_view name);

// keep(), drop() and say() from any thread, take() and left() from one at a time. None may be
// called while the object is moved.
class KeptDescriptors {
 public:
  // Nobody keeps anything and nothing was left.
  KeptDescriptors() = default;

  // What the environment says: NOTIFY_SOCKET (where the keeper listens), and, when LISTEN_PID is
  // this process, LISTEN_FDS and LISTEN_FDNAMES (what a predecessor left, from descriptor 3 on) and
  // LEAT_ALIVE_FD (a sign of life: open until this process ends or is killed, which a supervisor
  // waits for). Takes all of them out of the environment and marks the descriptors close-on-exec,
  // since no child may have either. Once, before there are other threads and before descriptors are
  // opened or closed. Starts a thread that holds the sign of life, with all signals blocked.
  static KeptDescriptors from_environment();

  // Whether there is somebody to keep descriptors. systemd keeps none unless the unit's
  // FileDescriptorStoreMax= says so, and tells nobody.
  bool kept() const { return static_cast<bool>(socket_); }

  // The keeper gets a copy, which stays with it until drop() or the orderly end of the service; a
  // supervisor of ours also closes what reports an error or that its peer has hung up (a /dev/fuse
  // does before it is mounted, and once its connection has ended). It has the copy for certain when
  // this returns, even if this process is killed at once. A name may be kept several times;
  // each file should be kept only once: what take() gave is kept already.
  // Blocks while the keeper's queue is full, for 5 s at most, then kUnavailable. kUnsupported:
  // nobody keeps anything; kInvalidArgument: the name (valid_descriptor_name()). That a keeper has
  // no room for more is written to its log only.
  Result<> keep(const std::string& name, int fd);

  // The keeper closes all that it has under this name. Blocks as keep() does; what could not be
  // said is logged.
  void drop(const std::string& name);

  // What a predecessor left, in the order in which it was kept: the first of this name that was not
  // taken yet. The keeper's copy stays.
  std::optional<File> take(const std::string& name);
  // The names of those that were not taken yet, in order; a name may stand there several times.
  std::vector<std::string> left() const;

  // Assignments of sd_notify(3), one a line: "READY=1", "STATUS=…", "X_LEAT_NEXT=/path". Errors as
  // of keep().
  Result<> say(std::string_view assignments);

 private:
  struct Left {
    std::string name;
    File file;
  };

  void listen_to(const std::string& address);
  void take_over(int count, const std::string& names);
  Result<> send(std::string_view assignments, int fd);

  File socket_;  // not connected: the keeper may make its own anew at the same address
  sockaddr_un address_{};
  socklen_t address_bytes_ = 0;
  std::vector<Left> left_;
};

}  // namespace leat
