// SPDX-License-Identifier: Apache-2.0
// FdStoreServer: the server's side of runtime/fd_store.h: file descriptors by name, sent
// by a process in the protocol of sd_notify(3). Accepts messages of one process at a time, never
// blocks, and is bounded. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/disk.h"

namespace leat {

struct StoredFd {
  std::string name;
  File file;
};

class FdStoreServer {
 public:
  static constexpr size_t kDescriptorsMax = 4096;
  // Bound of all names with separators. They form one string in the next process's environment, for
  // which the kernel allows 128 KiB.
  static constexpr size_t kNameBytesMax = size_t{96} << 10;

  // Notifications beside those that the store handles itself.
  struct Notifications {
    bool ready = false;  // READY=1
    // X_LEAT_HANDING_OVER=1: the process is about to exit with kExitTakeover, though its status may
    // never be known.
    bool takeover = false;
    std::string next = {};  // last X_LEAT_NEXT=: an absolute path, empty if there was none
  };

  // Creates the socket. `log` receives a line for each message of the process that could not be
  // honoured. `path`: the socket's path in a private directory, so that no other process can take
  // it over later; an existing file is replaced. Empty: an abstract name.
  static Result<FdStoreServer> open(size_t descriptors_max,
                                    std::function<void(const std::string&)> log,
                                    const std::string& path = {});

  // Readable while messages are pending.
  int fd() const { return socket_.fd(); }
  // The value of NOTIFY_SOCKET.
  const std::string& address() const { return address_; }

  // Receives pending messages, and honours those that `sender` sent, also before its death. Ignores
  // messages of other processes, which may be anyone. May leave some for the next call if there are
  // very many.
  Notifications receive(pid_t sender);

  // Returns false and closes `file` if it exceeds a bound, or if the name cannot be passed on.
  bool add(const std::string& name, File file);
  // Closes all descriptors of that name.
  void remove(const std::string& name);

  // Closes descriptors that report an error or a hang-up, as /dev/fuse does once its connection has
  // ended. It polls without waiting: the kernel wakes every waiter on a /dev/fuse at each request
  // of its mount, whatever event it waits for. Measured with 20,000 lookups: 18,700 wake-ups.
  void close_hung_up();

  // In the order of their arrival.
  const std::vector<StoredFd>& descriptors() const { return stored_; }

 private:
  FdStoreServer() = default;
  void receive_one(Notifications& notifications);
  void add_all(const std::string& name, std::vector<File> files);

  File socket_;
  std::string address_;
  size_t descriptors_max_ = 0;
  size_t name_bytes_ = 0;  // of all names in stored_, with a separator each
  std::function<void(const std::string&)> log_;
  std::vector<StoredFd> stored_;
};

}  // namespace leat
