// SPDX-License-Identifier: Apache-2.0
// ConnectionRecord: a file that lists the FUSE connections of this process, for a process that runs
// after this one was killed (dead_connections.h). The destructor removes it. So it exists only
// while the process runs, or if it did not end in order.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "base/status.h"
#include "frontends/fuse/connection/mount_point.h"

namespace leat {

// Identifies a process of one boot; a pid alone may be reused.
struct ProcessIdentity {
  int pid = 0;
  uint64_t start_ticks = 0;  // from boot to process start; proc_pid_stat(5), field 22
  std::string boot_id;       // of /proc/sys/kernel/random/boot_id

  bool operator==(const ProcessIdentity&) const = default;
};
ProcessIdentity identify_process(int pid);  // start 0 if there is none
ProcessIdentity this_process();
std::string this_boot();
// Returns field 22 of the text of a /proc/PID/stat; 0 if it is malformed.
uint64_t start_ticks_in(std::string_view stat);

struct RecordedConnections {
  ProcessIdentity process;
  // Supervisor that starts the successor, which takes over the connections; pid 0: none.
  ProcessIdentity supervisor{};
  std::vector<MountinfoLine> mounts;
};
// Lines of words, words escaped as in mountinfo. First "leat-connections 1", then
// "process PID START BOOT", optionally "keeper PID START BOOT", and "mount DEVICE POINT TYPE
// SOURCE" for each mount. Anything else is kCorrupt.
std::string to_text(const RecordedConnections& record);
Result<RecordedConnections> parse_connections(std::string_view text);

// Thread-safe. A failed write is logged; then only the file's purpose is lost.
class ConnectionRecord {
 public:
  // Removes an existing file: the caller has checked that no live process owns it.
  explicit ConnectionRecord(std::string file, ProcessIdentity supervisor = {});
  ~ConnectionRecord();
  ConnectionRecord(const ConnectionRecord&) = delete;
  ConnectionRecord& operator=(const ConnectionRecord&) = delete;

  // Records the newest mount at `mountpoint` as ours. Returns its device, for remove(); empty if
  // there is none.
  std::string add(const std::string& mountpoint);
  // Removes a connection that has ended.
  void remove(const std::string& device);

 private:
  void write();

  const std::string file_;
  const ProcessIdentity supervisor_;
  std::mutex mutex_;  // held over the write of a small file; no other lock is taken meanwhile
  std::map<std::string, MountinfoLine> mounts_;  // by device
};

}  // namespace leat
