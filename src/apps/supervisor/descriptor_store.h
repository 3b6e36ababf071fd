// SPDX-License-Identifier: Apache-2.0
// DescriptorStore: the keeper's side of runtime/kept_descriptors.h: descriptors by name, as a
// process hands them over by the protocol of sd_notify(3). Takes messages of one process at a time,
// never blocks, and holds no more than its bounds. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/disk.h"

namespace leat {

struct StoredDescriptor {
  std::string name;
  File file;
};

class DescriptorStore {
 public:
  static constexpr size_t kDescriptorsMax = 4096;
  // Of all names and what separates them. They are one string of the next process's environment,
  // for which the kernel takes 128 KiB.
  static constexpr size_t kNameBytesMax = size_t{96} << 10;

  // What was said beside what the store did itself.
  struct Said {
    bool ready = false;  // READY=1
    // X_LEAT_HANDING_OVER=1: about to end with kHandOver, though its status may never be known.
    bool handing_over = false;
    std::string next = {};  // of the last X_LEAT_NEXT=: an absolute path, empty if there was none
  };

  // `say` gets a line for each message of the process itself that could not be honoured. `path`:
  // where the socket is to be, in a folder that is nobody else's, so that no stranger can take its
  // place once this process is gone; what is there goes. Empty: an abstract name.
  static Result<DescriptorStore> open(size_t descriptors_max,
                                      std::function<void(const std::string&)> say,
                                      const std::string& path = {});

  // Readable while messages wait.
  int fd() const { return socket_.fd(); }
  // For NOTIFY_SOCKET.
  const std::string& address() const { return address_; }

  // Takes the messages that wait and honours those that `sender` sent, also before it died. Of
  // those of others, which may be anybody's, nothing is looked at. May leave some if there are very
  // many.
  Said receive(pid_t sender);

  // False, and `file` is closed, where it would be past a bound or the name cannot be given on.
  bool add(const std::string& name, File file);
  // All of that name.
  void remove(const std::string& name);

  // Closes those that report an error or that their peer has hung up, as /dev/fuse does once its
  // connection has ended.
  // Nobody waits for that to happen: the kernel wakes whoever waits on a /dev/fuse at each request
  // of its mount, whatever it waits for. Measured with 20,000 lookups: 18,700 wake-ups.
  void drop_dead();

  // In the order in which they came.
  const std::vector<StoredDescriptor>& descriptors() const { return stored_; }

 private:
  DescriptorStore() = default;
  void take_message(Said& said);
  void keep(const std::string& name, std::vector<File> files);

  File socket_;
  std::string address_;
  size_t descriptors_max_ = 0;
  size_t name_bytes_ = 0;  // of stored_, a separator each
  std::function<void(const std::string&)> say_;
  std::vector<StoredDescriptor> stored_;
};

}  // namespace leat
