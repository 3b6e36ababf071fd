// SPDX-License-Identifier: Apache-2.0
// FdStore: file descriptors that outlive this process, in systemd's fd store protocol. The
// service manager, our supervisor or systemd, keeps copies and passes them to the next process that
// it starts. See sd_notify(3) and sd_listen_fds(3).
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
bool valid_fd_name(std::string_view name);

// Call store(), remove() and notify() from any thread, take() and names() from one at a time. Do
// not call any while the object is moved.
class FdStore {
 public:
  // Without a service manager and without descriptors of a predecessor.
  FdStore() = default;

  // Reads these environment variables.
  // - NOTIFY_SOCKET: the address of the service manager.
  // - LISTEN_FDS and LISTEN_FDNAMES: descriptors of a predecessor, from 3 on.
  // - LEAT_ALIVE_FD: open until this process ends or is killed. The supervisor waits for that.
  //
  // The last three count only if LISTEN_PID is this process.
  //
  // Removes all of them from the environment and marks the descriptors close-on-exec, so that no
  // child inherits either. Call once, before other threads exist and before descriptors are opened
  // or closed. Starts a thread that holds LEAT_ALIVE_FD, with all signals blocked.
  static FdStore from_environment();

  // Returns whether there is a service manager. systemd keeps no descriptors unless the unit sets
  // FileDescriptorStoreMax=, and does not report that.
  bool available() const { return static_cast<bool>(socket_); }

  // Sends a copy of `fd` to the service manager, which holds it until remove() or the orderly end
  // of the service. Our supervisor also closes a descriptor that reports an error or a hang-up. (A
  // /dev/fuse does so before it is mounted, and once its connection has ended.) On return the
  // manager has the copy for certain, even if this process is killed at once. A name may be
  // stored several times. Store each file only once: files from take() are stored already.
  //
  // Blocks while the manager's queue is full, for 5 s at most, then returns kUnavailable.
  // kUnsupported: there is no manager. kInvalidArgument: bad name (valid_fd_name()). A manager
  // without free space reports it only in its own log.
  Result<> store(const std::string& name, int fd);

  // Makes the manager close all descriptors of this name. Blocks as store() does; logs a failure to
  // send.
  void remove(const std::string& name);

  // Takes the first descriptor of this name that a predecessor left, in the order in which they
  // were stored. The manager's copy stays.
  std::optional<File> take(const std::string& name);
  // Returns the names of descriptors not taken yet, in order; a name may occur several times.
  std::vector<std::string> names() const;

  // Sends assignments of sd_notify(3), one a line: "READY=1", "STATUS=…", "X_LEAT_NEXT=/path".
  // Errors as for store().
  Result<> notify(std::string_view assignments);

 private:
  struct Entry {
    std::string name;
    File file;
  };

  void set_address(const std::string& address);
  void adopt_inherited(int count, const std::string& names);
  Result<> send(std::string_view assignments, int fd);

  File socket_;  // not connected: the manager may recreate its own at the same address
  sockaddr_un address_{};
  socklen_t address_bytes_ = 0;
  std::vector<Entry> inherited_;
};

}  // namespace leat
