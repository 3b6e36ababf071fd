// SPDX-License-Identifier: Apache-2.0
// DeadConnections: FUSE resources that a killed process still holds, and their release.
//
// A killed process may never end. One of its threads may wait in the kernel for an answer that only
// the process itself could give. FUSE_NOTIFY_INVAL_ENTRY, for example, needs the lock of a
// directory in which a program looks up a name. The thread keeps /dev/fuse open, so the kernel
// waits on. Only aborting the connection frees the thread, the programs, and every lock of the
// process.
//
// Nothing here ends a connection of a live process, or one that the record does not confirm.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontends/fuse/connection/connection_record.h"

namespace leat {

enum class ProcessState {
  kAlive,
  kExiting,  // killed; a thread still waits in the kernel, or is exiting
  kExited,   // or another boot, a reused pid, or a zombie
};
ProcessState state_of(const ProcessIdentity& process);
// Decides from the texts of a thread's /proc/PID/task/TID/stat and …/status.
bool is_exiting_thread(std::string_view stat, std::string_view status);

// Returns the connections (minor numbers) that certainly belong to the process. These are the ones
// that the kernel reports as held (`held`, kernel ≥ 6.16), unless something else is mounted with
// that number. The others are recorded ones with the very same mount still present.
std::set<unsigned> connections_to_abort(const RecordedConnections& record,
                                        const std::set<unsigned>& held,
                                        const std::vector<MountinfoLine>& mounts);

class DeadConnections {
 public:
  // Reads the file `record`. Returns nothing unless its process is kEnding, and no live supervisor
  // would start a successor. `ignore_supervisor` finds it even if one would.
  static std::optional<DeadConnections> find(const std::string& record,
                                             bool ignore_supervisor = false);

  int pid() const { return record_.process.pid; }
  // Aborts its connections: waiting programs get an error. kPermissionDenied says what to run.
  Result<> abort();
  // Returns true if the process ended within `timeout`.
  bool wait_until_exited(std::chrono::milliseconds timeout) const;
  // Unmounts its remaining mounts. Best effort.
  void unmount();

 private:
  explicit DeadConnections(RecordedConnections record) : record_(std::move(record)) {}

  RecordedConnections record_;
};

}  // namespace leat
