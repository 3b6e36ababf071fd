// SPDX-License-Identifier: Apache-2.0
// KeptDescriptors: file descriptors that outlive this process, in systemd's fd store protocol. The
// parent, our supervisor or systemd, keeps copies and passes them to the next process that it
// starts. See sd_notify(3) and sd_listen_fds(3).
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

// Returns whether `name` is valid: 1 to 255 printable ASCII characters without a colon.
bool valid_descriptor_name(std::string_view name);

// Call keep(), drop() and say() from any thread, take() and left() from one at a time. Do not call
// any while the object is moved.
class KeptDescriptors {
 public:
  // Without a keeper and without descriptors of a predecessor.
  KeptDescriptors() = default;

  // Reads these environment variables.
  // - NOTIFY_SOCKET: the address of the keeper.
  // - LISTEN_FDS and LISTEN_FDNAMES: descriptors of a predecessor, from 3 on.
  // - LEAT_ALIVE_FD: open until this process ends or is killed. The supervisor waits for that.
  //
  // The last three count only if LISTEN_PID is this process.
  //
  // Removes all of them from the environment and marks the descriptors close-on-exec, so that no
  // child inherits either. Call once, before other threads exist and before descriptors are opened
  // or closed. Starts a thread that holds LEAT_ALIVE_FD, with all signals blocked.
  static KeptDescriptors from_environment();

  // Returns whether there is a keeper. systemd keeps no descriptors unless the unit sets
  // FileDescriptorStoreMax=, and does not report that.
  bool kept() const { return static_cast<bool>(socket_); }

  // Sends a copy of `fd` to the keeper, which holds it until drop() or the orderly end of the
  // service. Our supervisor also closes a descriptor that reports an error or a hang-up. (A
  // /dev/fuse does so before it is mounted, and once its connection has ended.) On return the
  // keeper has the copy for certain, even if this process is killed at once. A name may be kept
  // several times. Keep each file only once: files from take() are kept already.
  //
  // Blocks while the keeper's queue is full, for 5 s at most, then returns kUnavailable.
  // kUnsupported: there is no keeper. kInvalidArgument: bad name (valid_descriptor_name()). A
  // keeper without free space reports it only in its own log.
  Result<> keep(const std::string& name, int fd);

  // Makes the keeper close all descriptors of this name. Blocks as keep() does; logs a failure to
  // send.
  void drop(const std::string& name);

  // Takes the first descriptor of this name that a predecessor left, in the order in which they
  // were kept. The keeper's copy stays.
  std::optional<File> take(const std::string& name);
  // Returns the names of descriptors not taken yet, in order; a name may occur several times.
  std::vector<std::string> left() const;

  // Sends assignments of sd_notify(3), one a line: "READY=1", "STATUS=…", "X_LEAT_NEXT=/path".
  // Errors as for keep().
  Result<> say(std::string_view assignments);

 private:
  struct Left {
    std::string name;
    File file;
  };

  void listen_to(const std::string& address);
  void take_over(int count, const std::string& names);
  Result<> send(std::string_view assignments, int fd);

  File socket_;  // not connected: the keeper may recreate its own at the same address
  sockaddr_un address_{};
  socklen_t address_bytes_ = 0;
  std::vector<Left> left_;
};

}  // namespace leat
