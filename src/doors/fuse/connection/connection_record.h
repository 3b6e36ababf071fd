// SPDX-License-Identifier: Apache-2.0
// ConnectionRecord: a file that says which FUSE connections this process serves, for whoever comes
// after it was killed (dead_connections.h). It goes with the object, so it is there only while the
// process runs, or when it did not end in order.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "base/status.h"
#include "doors/fuse/connection/mount_point.h"

namespace leat {

// A process of one boot. A number alone may come to stand for another one.
struct ProcessMark {
  int pid = 0;
  uint64_t start_ticks = 0;  // from the boot to its start; proc_pid_stat(5), field 22
  std::string boot_id;       // of /proc/sys/kernel/random/boot_id

  bool operator==(const ProcessMark&) const = default;
};
ProcessMark process_mark(int pid);  // start 0 where there is none
ProcessMark this_process();
std::string this_boot();
// Field 22 in the text of a /proc/PID/stat; 0 where it is none.
uint64_t start_ticks_in(std::string_view stat);

struct RecordedConnections {
  ProcessMark process;
  // Who starts the next process, which goes on with the connections; pid 0: nobody.
  ProcessMark keeper{};
  std::vector<MountinfoLine> mounts;
};
// Lines of words: "leat-connections 1", "process PID START BOOT", perhaps "keeper PID START BOOT",
// and for each mount, as mountinfo writes it, "mount DEVICE POINT TYPE SOURCE". kCorrupt for
// anything else.
std::string to_text(const RecordedConnections& record);
Result<RecordedConnections> parse_connections(std::string_view text);

// Thread-safe. A failure to write is logged and costs only what the file is for.
class ConnectionRecord {
 public:
  // Removes what is there: the caller has made sure that it is nobody's.
  explicit ConnectionRecord(std::string file, ProcessMark keeper = {});
  ~ConnectionRecord();
  ConnectionRecord(const ConnectionRecord&) = delete;
  ConnectionRecord& operator=(const ConnectionRecord&) = delete;

  // The newest mount at `mountpoint` is ours. Its device, for remove(); empty if there is none.
  std::string add(const std::string& mountpoint);
  // Its connection has ended.
  void remove(const std::string& device);

 private:
  void write();

  const std::string file_;
  const ProcessMark keeper_;
  std::mutex mutex_;  // held over the write of a small file; no other lock is taken meanwhile
  std::map<std::string, MountinfoLine> mounts_;  // by device
};

}  // namespace leat
