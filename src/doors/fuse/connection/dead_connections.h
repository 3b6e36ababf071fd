// SPDX-License-Identifier: Apache-2.0
// DeadConnections: what a killed process still holds of FUSE, and how it is freed.
//
// A process that is killed while one of its threads waits in the kernel for an answer that only the
// process itself could have given (FUSE_NOTIFY_INVAL_ENTRY wants the lock of a directory in which a
// program looks a name up) never ends: the thread keeps /dev/fuse open, so the kernel waits on.
// Only aborting the connection frees the thread, the programs, and every lock that the process had.
//
// Nothing here ends a connection of a process that lives, or that the record does not vouch for.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "doors/fuse/connection/connection_record.h"

namespace leat {

enum class ProcessState {
  kAlive,
  kEnding,  // killed for good; a thread of it still waits in the kernel, or is on its way out
  kGone,    // or another boot, another process of that number, or only to be reaped
};
ProcessState state_of(const ProcessMark& process);
// Of the texts of a thread's /proc/PID/task/TID/stat and …/status.
bool is_ending_thread(std::string_view stat, std::string_view status);

// Which of the connections (minor numbers) are the process's without doubt: what the kernel says
// that it holds (`held`, kernel ≥ 6.16) unless something else is mounted with that number; and what
// it recorded where the very same mount is still there.
std::set<unsigned> connections_to_abort(const RecordedConnections& record,
                                        const std::set<unsigned>& held,
                                        const std::vector<MountinfoLine>& mounts);

class DeadConnections {
 public:
  // Of the process that wrote the file `record`; nothing unless that process is kEnding, and nobody
  // lives who would start its successor.
  // `kept`: or even then.
  static std::optional<DeadConnections> find(const std::string& record, bool kept = false);

  int pid() const { return record_.process.pid; }
  // Ends its connections: programs that wait get an error. kPermissionDenied says what to run.
  Result<> abort();
  // Whether it was gone within `patience`.
  bool wait_until_gone(std::chrono::milliseconds patience) const;
  // Takes its mounts away that are still there. Best effort.
  void unmount();

 private:
  explicit DeadConnections(RecordedConnections record) : record_(std::move(record)) {}

  RecordedConnections record_;
};

}  // namespace leat
